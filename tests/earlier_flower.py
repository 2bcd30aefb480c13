"""Flower runs that the fixtures of an earlier version hold in the middle; see earlier.py."""

import random

import numpy as np
import torch
from earlier_records import plain
from flwr.app import ArrayRecord, MetricRecord
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.common import Context, RecordDict, ndarrays_to_parameters
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAdam as LegacyFedAdam
from flwr.server.workflow import DefaultWorkflow
from flwr.serverapp.strategy import FedAdam
from grid import InProcessGrid, pulled, pulling_app, start_arrays

from fedhalt import ForwardGrowth, GrowthRate
from fedhalt.integrations.flower import EarlyStopping, FedMethod, ModuleTask, client_app


class Killed(Exception):
    pass


class Grid(InProcessGrid):
    """Nodes in a fixed order, so that sums can be compared bit by bit."""

    def send_and_receive(self, messages, *, timeout=None):
        return super().send_and_receive(sorted(messages, key=lambda m: m.metadata.dst_node_id))


class Noted:
    """The server's evaluation: notes what was said so far, and dies in a given round."""

    def __init__(self, dies_in=None):
        self.dies_in, self.stopping, self.said = dies_in, None, []

    def loss(self, r, arrays):
        if r == self.dies_in:
            raise Killed
        self.note()
        return float(sum(np.abs(np.asarray(array, np.float64)).sum() for array in arrays))

    def note(self):
        status = self.stopping.status
        if status is not None and (not self.said or self.said[-1] != plain(status)):
            self.said.append(plain(status))


def message(noted, folder):
    """Flower's own FedAdam, stopped by the paper's rule."""
    return started(noted, folder, FedAdam(eta=0.05), GrowthRate(0.05, 3), pulling_app(), start_arrays(counter=False))


def method(noted, folder):
    """Our SCAFFOLD: vectors at the server, memories on the disks of the clients, running statistics."""
    torch.manual_seed(0)
    strategy = FedMethod("scaffold", cohort=2, seed=5, fraction_evaluate=0.0)
    app = client_app(lambda context: module_task(int(context.node_config["partition-id"])))
    start = ArrayRecord(network().state_dict())
    return started(noted, folder, strategy, ForwardGrowth(0.05, 3), app, start)


def network():
    return torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))


def module_task(client):
    x = torch.randn(40, 4, generator=torch.Generator().manual_seed(client))
    batches = [(half, (half[:, client] > 0).long()) for half in x.split(20)]

    def loss(module, batch):
        return torch.nn.functional.cross_entropy(module(batch[0]), batch[1])

    return ModuleTask(network(), batches, loss, 40, lr=0.05, momentum=0.9)


def started(noted, folder, strategy, rule, app, start):
    stopping = noted.stopping = around(strategy, rule, folder)
    grid = Grid(app, 3, {"memory": str(folder / "memory")})
    random.seed(0)

    def evaluate(r, arrays):
        return MetricRecord({"loss": noted.loss(r, [array.numpy() for array in arrays.values()])})

    result = stopping.start(grid, start, 30, evaluate_fn=evaluate)
    return {name: array.numpy() for name, array in result.arrays.items()}


class Client(NumPyClient):
    def __init__(self, number):
        self.number = number

    def fit(self, parameters, config):
        moved = pulled({str(i): value for i, value in enumerate(parameters)}, self.number)
        return list(moved.values()), 10, {}


def legacy(noted, folder):
    """A strategy of Flower's legacy API."""

    def evaluate(r, parameters, config):
        return noted.loss(r, parameters), {}

    start = [array.numpy() for array in start_arrays(counter=False).values()]
    strategy = LegacyFedAdam(
        eta=0.05, initial_parameters=ndarrays_to_parameters(start), evaluate_fn=evaluate, fraction_evaluate=0.0
    )
    stopping = noted.stopping = around(strategy, GrowthRate(0.05, 3), folder)
    context = LegacyContext(
        context=Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config={}),
        config=ServerConfig(num_rounds=30),
        strategy=stopping,
    )
    app = ClientApp(lambda context: Client(int(context.node_config["partition-id"])).to_client())
    random.seed(0)
    DefaultWorkflow()(Grid(app, 3), context)
    (record,) = context.state.array_records.values()
    return {str(i): array for i, array in enumerate(record.to_numpy_ndarrays())}


def around(strategy, rule, folder):
    return EarlyStopping(strategy, rule=rule, state=folder / "state", trajectory=folder / "trajectory.jsonl")


FLOWER = {"message": (message, 6), "method": (method, 5), "legacy": (legacy, 4)}
"""What runs in a folder, and the round in which it died."""


def run(name, folder, dies=False):
    """What a run says, round by round, and its model; the record is in the folder."""
    start, dies_in = FLOWER[name]
    noted = Noted(dies_in if dies else None)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # sums of two threads are rounded differently
    try:
        model = start(noted, folder)
    finally:
        torch.set_num_threads(threads)
    noted.note()
    return {"statuses": noted.said, "model": {key: value.tolist() for key, value in model.items()}}
