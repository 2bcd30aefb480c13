"""What a Flower client remembers on its own disk, without a server: its errors end a visit, not a federation."""

from pathlib import Path

import torch
from flwr.app import Context, RecordDict

from fedhalt import FedhaltError
from fedhalt.integrations.flower.memory import ClientMemory
from helpers.faults.workloads import Plain, last_marked, leftovers

RUN, CLIENT = "ab12", 2


def memory(folder, confirmed):
    node = {"memory": str(folder / "memory"), "partition-id": CLIENT}
    return ClientMemory(Context(1, 7, node, RecordDict(), {}), RUN, confirmed)


def remembered(folder, r):
    """The number of visits before round r, which is all that this client remembers."""
    found = memory(folder, r - 1).read(r)
    return int(found["visits"][0]) if found else 0


def visit(folder, r):
    visits = remembered(folder, r) + 1
    memory(folder, r - 1).write(r, {"visits": torch.full((700,), float(visits))})


class Workload(Plain):
    name, short, long, every = "client", 4, 30, 1

    def __init__(self, rounds):
        self.total = rounds

    def __call__(self, folder, mark=lambda text: None):
        first = self.recorded(folder)
        for r in range(first + 1, self.total + 1):
            visit(folder, r)
            mark(str(r))
        return self.total - first

    def seen(self, folder):
        """After one more visit, which removes what the last could not."""
        visit(folder, self.total + 1)
        kept = {path.name: path.read_bytes().hex() for path in sorted(Path(folder).rglob("*.*")) if path.is_file()}
        return {"visits": remembered(folder, self.total + 2), "kept": kept, "left": leftovers(folder)}

    def recorded(self, folder):
        try:
            return remembered(folder, self.total + 1)
        except FedhaltError:
            return 0

    promised = staticmethod(last_marked)
