"""A Flower server with `state=`: its own strategy's momentum, the model, the rule and the record."""

import numpy as np
from flwr.app import MetricRecord
from flwr.serverapp.strategy import FedAdam
from grid import InProcessGrid, pulling_app, start_arrays

from fedhalt import EarlyStopper, FedhaltError, ForwardGrowth
from fedhalt.integrations.flower import EarlyStopping
from helpers.faults.workloads import Plain, last_marked, leftovers


class Grid(InProcessGrid):
    """Replies come in the order of the nodes, so that sums are equal to the bit."""

    def send_and_receive(self, messages, *, timeout=None):
        return super().send_and_receive(sorted(messages, key=lambda message: message.metadata.dst_node_id))

    @property
    def trained(self):
        return len({r for kind, r in self.sent if kind == "train"})


def places(folder):
    """In folders of their own: nobody else sees to it that these outlast a power cut."""
    return {"state": folder / "server" / "state", "trajectory": folder / "records" / "t.jsonl"}


class Workload(Plain):
    name, short, long, every = "flower", 2, 8, 1

    def __init__(self, rounds):
        self.total = rounds

    def __call__(self, folder, mark=lambda text: None):
        strategy = EarlyStopping(FedAdam(eta=0.05), rule=ForwardGrowth(1e-9, 3), **places(folder))

        def evaluate(r, arrays):
            if r > 1:
                mark(str(r - 1))  # a round is saved when the next one begins
            return MetricRecord({"loss": float(sum(np.abs(array.numpy()).sum() for array in arrays.values()))})

        grid = Grid(pulling_app(), 3)
        self.result = strategy.start(grid, start_arrays(counter=False), self.total, evaluate_fn=evaluate)
        self.status = strategy.status
        mark(str(self.total))
        return grid.trained

    def seen(self, folder):
        """What another run returns that has nothing left to train."""
        self(folder)
        model = {name: array.numpy().tobytes().hex() for name, array in self.result.arrays.items()}
        return {"model": model, "result": repr(self.result), "status": repr(self.status),
                "record": places(folder)["trajectory"].read_text(), "left": self.left(folder)}  # fmt: skip

    def left(self, folder):
        return leftovers(folder)

    def recorded(self, folder):
        try:
            return EarlyStopper.load(places(folder)["state"], trajectory=places(folder)["trajectory"]).round
        except FedhaltError:
            return 0

    promised = staticmethod(last_marked)
