"""A grid sweep of two runs: run folders are its only memory."""

import contextlib
from typing import Any, ClassVar

from fedhalt import FedhaltError
from fedhalt.tuning import plans, sweeps
from helpers.faults.workloads import Plain, leftovers
from helpers.faults.workloads.toy import install
from helpers.records import recorded_rounds, rows_of

SPACE = {"method": "scaffold", "clients": 4, "cohort": 2, "skew": "iid"}
TRIALS = 2


class Workload(Plain):
    name, short, long, every = "grid", 2, 20, 1
    table: ClassVar[dict[str, Any]] = {"sampler": "grid", "space": {**SPACE, "lr": [0.02, 0.04]}}

    def __init__(self, rounds):
        self.rounds, self.total = rounds, TRIALS * rounds
        install()
        vars(sweeps)["PAUSE"] = 0.0

    def __call__(self, folder, mark=lambda text: None):
        trained = []

        @contextlib.contextmanager
        def observer(run, rules, config):
            yield trained.append

        self.trials = sweeps.sweep(self.plan(folder), observers=[observer])
        for trial in self.trials:
            if trial.state == "failed":
                raise FedhaltError(trial.outcome.error)
        return len(trained)

    def plan(self, folder):
        settings = {"rounds": self.rounds, "out": str(folder / "runs"), "screen": False, "converge": False}
        return plans.plan({**settings, **self.table})

    def seen(self, folder):
        self(folder)
        trials = [(trial.spec.id, trial.state, trial.value) for trial in self.trials]
        return {"trials": trials, "best": self.trials.best.spec.id, "rows": rows(folder), "left": leftovers(folder)}

    def recorded(self, folder):
        return sum(map(recorded_rounds, folder.glob("runs/*/trajectory.jsonl")))


def rows(folder):
    """By run, what it recorded."""
    return {path.parent.name: rows_of(path) for path in sorted(folder.glob("runs/*/trajectory.jsonl"))}
