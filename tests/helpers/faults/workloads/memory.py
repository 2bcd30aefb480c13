"""SCAFFOLD on Flower, whose clients remember something on their disks, beside a server with `state=`."""

import torch
from flwr.app import ArrayRecord

from fedhalt import FedhaltError, ForwardGrowth
from fedhalt.integrations.flower import EarlyStopping, FedMethod, ModuleTask, client_app
from helpers.faults.workloads import flower, leftovers
from helpers.faults.workloads.flower import Grid, places

CLIENTS = 3


def task(context):
    """A client's own linear regression."""
    client = int(context.node_config["partition-id"])
    draw = torch.Generator().manual_seed(client)
    batch = torch.randn(8, 40, generator=draw), torch.randn(8, 2, generator=draw)
    return ModuleTask(module(), [batch], _loss, 8, lr=0.05)


def module():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return torch.nn.Linear(40, 2)


def _loss(made, batch):
    return (made(batch[0]) - batch[1]).square().mean()


class Workload(flower.Workload):
    name, short, long, every = "memory", 3, 8, 1

    def __call__(self, folder, mark=lambda text: None):
        method = FedMethod("scaffold", cohort=2, fraction_evaluate=0.0)
        strategy = EarlyStopping(method, rule=ForwardGrowth(1e-9, 3), **places(folder))
        grid = Grid(client_app(task), CLIENTS, node_config={"memory": str(folder / "memory")})

        def evaluate(r, arrays):
            if r > 1:
                mark(str(r - 1))

        self.result = strategy.start(grid, ArrayRecord(module().state_dict()), self.total, evaluate_fn=evaluate)
        self.status = strategy.status
        for r, metrics in (self.result.train_metrics_clientapp or {}).items():
            if "failed_nodes" in metrics:
                raise FedhaltError(f"{folder}: nodes {metrics['failed_nodes']} failed in round {r}")
        mark(str(self.total))
        self.run = method.run
        return grid.trained

    def left(self, folder):
        """A training that was killed before its first round was saved has another name when it begins again."""
        kept = [folder / "server", folder / "records", folder / "memory" / self.run]
        return [name for place in kept for name in leftovers(place)]
