"""`fedhalt run`, with a stop on the way, so that a model is kept."""

from fedhalt.rules import named_rules
from fedhalt.simulation import runner
from helpers.faults.workloads import Plain, leftovers
from helpers.faults.workloads.toy import ROUND_SECONDS, SPEC, install
from helpers.records import recorded_rounds, rows_of


class Workload(Plain):
    name, short, long, every = "run", 4, 60, 1

    def __init__(self, rounds):
        self.total = rounds
        self.clock = install()

    def __call__(self, folder, mark=lambda text: None):
        trained = []

        def progress(now):
            trained.append(now.row["round"])
            mark(f"{now.row['round']} {self.clock.now}")
            self.clock.now += ROUND_SECONDS

        watch = named_rules(["budget"], {"rounds": [3]})
        runner.run(SPEC, folder, rounds=self.total, watch=watch, stop="never", workers=1, progress=progress)
        return len(trained)

    def seen(self, folder):
        run = folder / SPEC.id
        models = {path.name: path.read_bytes().hex() for path in sorted((run / "models").iterdir())}
        return {"rows": rows_of(run / "trajectory.jsonl"), "models": models, "left": leftovers(run)}

    def recorded(self, folder):
        return recorded_rounds(folder / SPEC.id / "trajectory.jsonl")

    @staticmethod
    def promised(marks):
        """The last round that ended 30 seconds before a power cut now."""
        ended = [(int(r), float(clock)) for r, clock in map(str.split, marks)]
        now = ended[-1][1] + ROUND_SECONDS if ended else 0
        return max((r for r, clock in ended if clock <= now - 30), default=0)
