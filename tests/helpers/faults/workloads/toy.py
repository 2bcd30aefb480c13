"""A federation of four quadratics in the place of a data set and a network, and a clock that rounds turn."""

from types import SimpleNamespace

import torch

from fedhalt import methods
from fedhalt.simulation import runner, store
from fedhalt.simulation.spec import RunSpec
from fedhalt.simulation.toy import Quadratics

SPEC = RunSpec(method="scaffold", clients=4, cohort=2, evaluate_every=0, skew="iid")
ROUND_SECONDS = 10.0
PARAMETERS = 1000
"""Enough that a state needs more than one block of a disk."""


class ToyFederation(Quadratics):
    """What a run asks of a federation."""

    spec: RunSpec

    def __init__(self, spec, data_root=None, device="cpu"):
        cohorts = [[0, 1], [2, 3], [1, 2], [0, 3]]
        slopes = [torch.linspace(1, 2 + client, PARAMETERS) for client in range(4)]
        targets, start = [torch.ones(PARAMETERS)] * 4, torch.linspace(-1, 2, PARAMETERS).tolist()
        super().__init__(slopes, targets, start, 2, cohorts, lr=min(spec.lr, 0.05))
        vars(self).update(spec=spec, device=device)

    def method(self):
        return methods.create(self.spec.method)

    def rate(self, r):
        return self.lr

    def evaluate(self, x, shared, each):
        loss = float((x - 1).square().mean())
        return {"val_loss": loss, "val_accuracy": 1 / (1 + loss)}

    def state_dict(self, x, shared):
        return {"x": x}

    def origin(self):
        return {"data": "toy", "theta0": "toy"}


class Clock:
    """Seconds as the run folder reads them: it moves only when a round ends."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


def install():
    """Runs in this process train the toy, by a clock of their own."""
    clock = Clock()
    vars(runner)["Federation"] = ToyFederation
    vars(store)["time"] = SimpleNamespace(monotonic=clock.monotonic)
    return clock
