"""A stopper that is saved after every round, by a server that begins again where it was killed."""

import shutil

import numpy as np

import fedhalt
from fedhalt import EarlyStopper, FedhaltError
from helpers.faults.workloads import Plain, last_marked, leftovers


class Workload(Plain):
    name, short, long, every = "save", 4, 60, 1

    def __init__(self, rounds):
        self.total = rounds
        self.steps = np.random.default_rng(0).standard_normal((rounds, 700)).cumsum(0)

    def __call__(self, folder, mark=lambda text: None):
        if (folder / "state" / "stopper.json").exists():
            stopper = load(folder)
        else:
            shutil.rmtree(folder / "state", ignore_errors=True)
            (folder / "t.jsonl").unlink(missing_ok=True)
            rule = fedhalt.RelativeUpdate(1e-9, 3)
            stopper = EarlyStopper(np.zeros(700), rule=rule, trajectory=folder / "t.jsonl", keep_finite=True)
        first = stopper.round
        while stopper.round < self.total:
            stopper.update(self.steps[stopper.round])
            stopper.save(folder / "state")
            mark(str(stopper.round))
        return self.total - first

    def seen(self, folder):
        stopper = load(folder)
        statuses = [status._asdict() for status in fedhalt.replay(stopper.rule, stopper.trajectory)]
        return {"rows": stopper.trajectory.rows, "status": stopper.status._asdict(), "statuses": statuses,
                "finite": {name: array.tolist() for name, array in stopper.last_finite.items()},
                "left": leftovers(folder)}  # fmt: skip

    def recorded(self, folder):
        try:
            return load(folder).round
        except FedhaltError:
            return 0

    promised = staticmethod(last_marked)


def load(folder):
    """The folder may have been copied, and its trajectory with it."""
    return EarlyStopper.load(folder / "state", trajectory=folder / "t.jsonl")
