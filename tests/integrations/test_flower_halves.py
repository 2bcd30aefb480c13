"""FedMethod and client_app when something is odd: nodes that come and go, settings that changed, wrong halves."""

import logging

import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

import torch
from flwr.app import ArrayRecord
from flwr.serverapp.strategy import FedAvg
from grid import InProcessGrid, pulling_app, start_arrays
from test_flower_methods import Killed, federation, gap, on_flower

from fedhalt import FedhaltError, GrowthRate
from fedhalt.integrations.flower import EarlyStopping, FedMethod, ModuleTask, client_app

NEVER = {"rule": GrowthRate(1e-9)}


@pytest.fixture(autouse=True)
def log(caplog):
    caplog.set_level(logging.INFO)


def test_nodes_that_come_and_go(caplog):
    task = federation("scaffold", cohort=5)
    grid = InProcessGrid(client_app(lambda context: task), 6)
    strategy = FedMethod("scaffold", cohort=5, fraction_evaluate=0.0)
    configure = strategy.configure_train

    def leaving(server_round, *args):
        if server_round == 2:
            for node in (1000, 1003):
                del grid.contexts[node]
            strategy.min_available_nodes = 2
        return configure(server_round, *args)

    strategy.configure_train = leaving
    result = strategy.start(grid, ArrayRecord(task.state_dict(task.theta0(), task.shared())), 3)
    assert list(result.train_metrics_clientapp) == [1, 2, 3]
    assert "a cohort of 5, but only 4 connected clients answer and hold data" in caplog.text


def test_two_nodes_with_one_number_and_one_that_does_not_answer(caplog):
    task = federation("fedavg", cohort=2)
    strategy = FedMethod("fedavg", cohort=2, fraction_evaluate=0.0)
    grid = InProcessGrid(
        client_app(lambda context: task), 6, broken=lambda kind, r: (4,) if kind == "query.fedhalt" else ()
    )
    grid.contexts[1001].node_config["partition-id"] = 0
    result = strategy.start(grid, ArrayRecord(task.state_dict(task.theta0(), task.shared())), 2)
    assert list(result.train_metrics_clientapp) == [1, 2]
    assert "two nodes have the partition-id 0" in caplog.text
    assert "node 1004 does not say who it is: broken on purpose" in caplog.text


def test_memories_outlive_failed_rounds(tmp_path, caplog):
    """Replies of rounds 3 and 4 are lost, the server dies in 5 and goes on with 3, with the memories of round 2."""
    task = federation("scaffold", cohort=6)

    def stopping():
        return EarlyStopping(FedMethod("scaffold", cohort=6, fraction_evaluate=0.0), **NEVER, state=tmp_path / "s")

    first = stopping()

    def dies(server_round, replies, aggregate=first.strategy.aggregate_train):
        if server_round == 5:
            raise Killed
        return aggregate(server_round, [] if server_round in (3, 4) else replies)

    first.strategy.aggregate_train = dies
    memory = {"node_config": {"memory": str(tmp_path / "memory")}}
    with pytest.raises(Killed):
        on_flower(task, 6, first, **memory)
    result, grid = on_flower(task, 4, stopping(), **memory)
    assert min(r for kind, r in grid.sent if kind == "train") == 3
    assert "came without" not in caplog.text
    expected, _ = on_flower(task, 4, FedMethod("scaffold", cohort=6, fraction_evaluate=0.0))
    assert gap(expected.arrays.to_torch_state_dict(), result) == 0


@pytest.mark.parametrize(
    "first, second",
    [
        ({"method": "fedprox", "lam": 0.1}, {"method": "fedprox", "lam": 5.0}),
        ({"method": "fedprox"}, {"method": "scaffold"}),
        ({"method": "fedprox", "seed": 1}, {"method": "fedprox", "seed": 2}),
    ],
    ids=str,
)
def test_a_method_goes_on_with_its_own_settings_only(first, second, tmp_path):
    task = federation()
    on_flower(task, 1, EarlyStopping(FedMethod(**first, fraction_evaluate=0.0), **NEVER, state=tmp_path))
    with pytest.raises(FedhaltError, match=r"was saved by FedMethod.*, this is FedMethod"):
        on_flower(task, 2, EarlyStopping(FedMethod(**second, fraction_evaluate=0.0), **NEVER, state=tmp_path))


def test_halves_that_do_not_belong_together(caplog, monkeypatch):
    monkeypatch.setattr(logging.getLogger("flwr"), "propagate", True)  # Flower's simulation turns it off
    caplog.set_level(logging.INFO, "flwr")
    with pytest.raises(FedhaltError, match=r"other half is a ClientApp made by client_app"):
        FedMethod("fedavg", fraction_evaluate=0.0).start(InProcessGrid(pulling_app()), start_arrays(), 1)
    task = federation()
    start = ArrayRecord(task.state_dict(task.theta0(), task.shared()))
    FedAvg(fraction_evaluate=0.0).start(InProcessGrid(client_app(lambda context: task)), start, 1)
    assert "this message is not FedMethod's" in caplog.text


def test_tied_weights_are_refused(caplog):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
            self.b.weight = self.a.weight

    def task(context):
        return ModuleTask(Tied(), [torch.ones(1, 4)], lambda module, batch: module.a(batch).sum(), 1, lr=0.1)

    FedMethod("fedavg", fraction_evaluate=0.0).start(
        InProcessGrid(client_app(task)), ArrayRecord(Tied().state_dict()), 1
    )
    assert "'b.weight' is tied to 'a.weight'" in caplog.text


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"lr": -1}, "lr must be a finite number above 0, not -1"),
        ({"epochs": 0}, "epochs must be a whole number of at least 1, not 0"),
        ({"samples": -5}, "samples must be a whole number of at least 0, not -5"),
        ({"epochs": 2, "batches": iter([1])}, "epochs=2, but batches lasts for one"),
    ],
)
def test_mistakes_in_a_task(settings, message):
    fixed = {"module": torch.nn.Linear(1, 1), "batches": [1], "loss": len, "samples": 1, "lr": 0.1}
    with pytest.raises(FedhaltError, match=message):
        ModuleTask(**{**fixed, **settings})
    with pytest.raises(FedhaltError, match=r"hyperparameter of fedavg or option .* not 'weighted_by_key'"):
        FedMethod("fedavg", weighted_by_key="n")
