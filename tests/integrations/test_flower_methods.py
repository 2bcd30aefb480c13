"""The fourteen methods on Flower: the same numbers as our own engine, memory at the client, sums at the server."""

import itertools
import logging

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

import torch
from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping
from grid import InProcessGrid

from fedhalt import FedhaltError, GrowthRate, methods
from fedhalt.integrations.flower import EarlyStopping, FedMethod, ModuleTask, client_app
from fedhalt.simulation import engine
from fedhalt.simulation.federation import Federation
from fedhalt.simulation.spec import RunSpec


@pytest.fixture(autouse=True)
def log(caplog):
    caplog.set_level(logging.INFO)


def federation(method="fedavg", **settings):
    fixed = {"data": "digits", "clients": 6, "cohort": 3, "epochs": 1, "batch": 64, "lr": 0.05, "evaluate_every": 0}
    return Federation(RunSpec(**{**fixed, "method": method, **settings}))


def engine_model(task, rounds):
    *_, last = itertools.islice(engine.rounds(task.method(), task), rounds)
    return task.state_dict(last.state["x"], last.shared)


def on_flower(task, rounds, strategy=None, **options):
    spec = task.spec
    given = {"cohort": spec.cohort, "seed": spec.seed, "weighting": spec.weighting, "fraction_evaluate": 0.0}
    strategy = strategy or FedMethod(spec.method, **{**given, **dict(spec.hyperparameters)})
    grid = InProcessGrid(client_app(lambda context: task), spec.clients, **options)
    start = ArrayRecord(task.state_dict(task.theta0(), task.shared()))
    return strategy.start(grid, start, rounds), grid


def gap(one, other):
    other = other.arrays.to_torch_state_dict()
    assert list(one) == list(other)
    return max(float((one[name].double() - other[name].double()).abs().max()) for name in one)


@pytest.mark.parametrize("name", methods.METHODS)
def test_the_same_parameters_as_our_engine(name):
    task = federation(name)
    result, grid = on_flower(task, 4)
    assert gap(engine_model(task, 4), result) <= 1e-6
    assert grid.sent.count(("query.fedhalt", 0)) == 6 and grid.sent.count(("train", 4)) == 3


@pytest.mark.parametrize(
    "settings",
    [
        {"weighting": "samples", "c": 0.3},
        {"cohort": 6, "skew": "quantity"},
        {"channels_last": False, "momentum": 0.0, "clip": 0.5},
        {"hyperparameters": (("server_lr", 0.5),)},
        {"seed": 7, "skew": "pathological", "c": 3},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["scaffold", "fedsmoo"])
def test_other_settings(name, settings):
    task = federation(name, **settings)
    assert gap(engine_model(task, 3), on_flower(task, 3)[0]) <= 1e-6


@pytest.mark.parametrize("name", ["scaffold", "fedlesam", "fedprox", "fedwmsam"])
def test_compat_is_computed_alike(name):
    task = federation(name, compat="authors")
    setting = getattr(task.method(), "setting", None)
    strategy = FedMethod(name, compat="authors", setting=setting, cohort=3, fraction_evaluate=0.0)
    assert gap(engine_model(task, 3), on_flower(task, 3, strategy)[0]) <= 1e-6


def test_memory_is_at_the_client_only():
    task = federation("scaffold", cohort=6)
    strategy = FedMethod("scaffold", cohort=6, fraction_evaluate=0.0)
    _, grid = on_flower(task, 2, strategy)
    for context in grid.contexts.values():
        assert list(context.state.array_records["fedhalt.memory"]) == ["ci"]
    assert sorted(strategy.state) == ["c"]
    assert not any("ci" in str(value) for value in vars(strategy).values() if isinstance(value, dict))


def test_without_a_cohort_flower_draws_and_asks_nobody():
    task = federation("scaffold", cohort=6)
    strategy = FedMethod("scaffold", fraction_evaluate=0.0)
    result, grid = on_flower(task, 3, strategy)
    assert ("query.fedhalt", 0) not in grid.sent and len(grid.sent) == 3 * 6
    assert gap(engine_model(task, 3), result) <= 1e-4  # another order of the sums


def test_failing_clients_and_failed_rounds():
    task = federation("scaffold", cohort=6)
    strategy = FedMethod("scaffold", cohort=6, fraction_evaluate=0.0)
    stopping = EarlyStopping(strategy, rule=GrowthRate(1e-9))

    def broken(kind, r):
        return {2: range(6), 3: (0, 4)}.get(r, ()) if kind == "train" else ()

    result, _ = on_flower(task, 4, stopping, broken=broken)
    assert result.train_metrics_clientapp[2]["skipped"] == 1
    assert result.train_metrics_clientapp[3]["failed_nodes"] == [1000, 1004]
    assert set(result.train_metrics_clientapp[4]) == {"steps", "clipped", "train_loss"}
    assert all(np.isfinite(array.numpy()).all() for array in result.arrays.values())


class Killed(Exception):
    pass


def interrupted(name, tmp_path, rounds=5, dies_in=3, **options):
    """A run that dies after the clients have trained round `dies_in`, then one that goes on; and one in peace."""
    task = federation(name)

    def stopping(folder):
        strategy = FedMethod(name, cohort=3, fraction_evaluate=0.0)
        return EarlyStopping(strategy, rule=GrowthRate(1e-9), state=folder, trajectory=f"{folder}.jsonl")

    whole, _ = on_flower(task, rounds, stopping(tmp_path / "whole"))
    first = stopping(tmp_path / "cut")

    def dies(server_round, replies, aggregate=first.strategy.aggregate_train):
        if server_round == dies_in:
            raise Killed
        return aggregate(server_round, replies)

    first.strategy.aggregate_train = dies
    with pytest.raises(Killed):
        on_flower(task, rounds, first, **options)
    again, _ = on_flower(task, rounds, stopping(tmp_path / "cut"), **options)
    same = (tmp_path / "cut.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    return gap(whole.arrays.to_torch_state_dict(), again), same


@pytest.mark.parametrize("name", methods.METHODS)
def test_a_killed_server_goes_on_to_the_same_numbers_with_memories_on_disk(name, tmp_path, caplog):
    difference, same_record = interrupted(name, tmp_path, node_config={"memory": str(tmp_path / "memory")})
    assert difference == 0 and same_record
    assert "came without what they remembered" not in caplog.text


@pytest.mark.parametrize("name", ["scaffold", "feddyn"])
def test_without_disk_the_continued_run_says_what_was_lost(name, tmp_path, caplog):
    difference, _ = interrupted(name, tmp_path)
    assert difference > 0
    assert "have lost their memory of earlier rounds" in caplog.text
    assert "memory=FOLDER" in caplog.text


def test_another_training_does_not_read_an_old_memory(tmp_path):
    task = federation("scaffold")
    memory = {"node_config": {"memory": str(tmp_path)}}
    one, _ = on_flower(task, 3, **memory)
    two, _ = on_flower(task, 3, **memory)
    assert gap(one.arrays.to_torch_state_dict(), two) == 0
    assert len(list(tmp_path.iterdir())) == 2


def test_several_trainings_in_one_flower_run_do_not_mix():
    """One ServerApp may start strategies one after another: the contexts are the same, the memories are not."""
    task = federation("scaffold")
    grid = InProcessGrid(client_app(lambda context: task), 6)
    start = ArrayRecord(task.state_dict(task.theta0(), task.shared()))
    strategy = FedMethod("scaffold", cohort=3, fraction_evaluate=0.0)
    FedMethod("feddyn", cohort=3, fraction_evaluate=0.0).start(grid, start, 2)
    for _ in range(2):
        assert gap(engine_model(task, 3), strategy.start(grid, start, 3)) <= 1e-6


class Net(torch.nn.Module):
    """With running statistics and a frozen layer."""

    def __init__(self):
        super().__init__()
        self.frozen = torch.nn.Linear(4, 4)
        self.frozen.requires_grad_(False)
        self.norm = torch.nn.BatchNorm1d(4)
        self.head = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.norm(self.frozen(x)))


def own_app(buffers="average", lr=0.1):
    """The client half as a Flower user writes it, with a module, a loader and a loss of their own."""

    def task(context):
        draw = torch.Generator().manual_seed(int(context.node_config["partition-id"]))
        x = torch.randn(40, 4, generator=draw)
        batches = [(x[:20], (x[:20, 0] > 0).long()), (x[20:], (x[20:, 0] > 0).long())]
        return ModuleTask(Net(), batches, loss, 40, lr=lr, momentum=0.9, epochs=2, buffers=buffers)

    def loss(module, batch):
        return torch.nn.functional.cross_entropy(module(batch[0]), batch[1])

    return client_app(task)


@pytest.mark.parametrize("name", ["fedavg", "scaffold", "fedsam"])
def test_a_module_of_ones_own(name):
    net = Net()
    torch.nn.init.eye_(net.frozen.weight)
    start = ArrayRecord(net.state_dict())
    untrained = ("frozen.*", "*running_mean", "*running_var")
    strategy = FedMethod(name, untrained=untrained, fraction_evaluate=0.0)
    app = own_app(buffers="frozen", lr=0.5)
    result = strategy.start(InProcessGrid(app), start, 40)
    model = result.arrays.to_torch_state_dict()
    assert torch.equal(model["frozen.weight"], net.state_dict()["frozen.weight"])
    net.load_state_dict(model)
    x = torch.randn(200, 4, generator=torch.Generator().manual_seed(9))
    accuracy = float((net.eval()(x).argmax(1) == (x[:, 0] > 0)).float().mean())
    assert accuracy > 0.9


def test_running_statistics_are_averaged():
    torch.manual_seed(0)
    net = Net()
    for parameter in net.frozen.parameters():
        parameter.requires_grad_(True)
    start = ArrayRecord(net.state_dict())

    def task(context):
        here = Net()
        here.frozen.requires_grad_(True)
        x = torch.full((8, 4), float(context.node_config["partition-id"]))
        return ModuleTask(here, [x], lambda module, batch: module(batch).sum(), 8, lr=1e-9)

    result = FedMethod("fedavg", fraction_evaluate=0.0).start(InProcessGrid(client_app(task)), start, 1)
    model = result.arrays.to_torch_state_dict()
    means = []
    for client in range(3):
        net.load_state_dict(start.to_torch_state_dict())
        net.train()(torch.full((8, 4), float(client)))
        means.append(net.norm.running_mean.clone())
    torch.testing.assert_close(model["norm.running_mean"], torch.stack(means).mean(0))
    assert model["norm.num_batches_tracked"].dtype == torch.int64


def test_halves_that_speak_of_different_parameters_are_told(caplog):
    strategy = FedMethod("fedavg", fraction_evaluate=0.0)
    result = strategy.start(InProcessGrid(own_app()), ArrayRecord(Net().state_dict()), 1)
    assert result.train_metrics_clientapp[1]["skipped"] == 1
    assert "server and client differ in what is trained: frozen.bias, frozen.weight" in caplog.text
    assert "untrained=" in caplog.text


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: FedMethod("scafold"), "method must be one of .* not 'scafold'; did you mean 'scaffold'"),
        (lambda: FedMethod("fedprox", lamb=0.1), "hyperparameter of fedprox .* not 'lamb'; did you mean 'lam'"),
        (lambda: FedMethod("fedprox", lam=-1), "lam must be .*, not -1"),
        (lambda: FedMethod("fedavg", cohort=0), "cohort must be a whole number of at least 1, not 0"),
        (lambda: FedMethod("fedavg", cohort=3, fraction_train=0.5), "cohort=3 draws the clients: leave fraction_train"),
        (lambda: FedMethod("fedavg", weighting="size"), "weighting must be one of .* not 'size'"),
        (lambda: FedMethod("scaffold", compat="authors"), "compat='authors' of scaffold needs setting"),
        (
            lambda: EarlyStopping(DifferentialPrivacyServerSideFixedClipping(FedMethod("fedavg"), 1.0, 1.0, 3)),
            "clips and averages models, but FedMethod",
        ),
    ],
)
def test_mistakes_are_named_where_they_are_made(make, message):
    with pytest.raises(FedhaltError, match=message):
        make()


def test_a_cohort_larger_than_the_federation():
    with pytest.raises(FedhaltError, match="a cohort of 9, but only 6 connected clients answer and hold data"):
        on_flower(federation(), 1, FedMethod("fedavg", cohort=9, min_available_nodes=6, fraction_evaluate=0.0))


def test_metrics_of_the_clients_are_averaged():
    result, _ = on_flower(federation(), 2)
    assert set(result.train_metrics_clientapp[2]) == {"steps", "clipped", "train_loss"}
    assert isinstance(result.train_metrics_clientapp[2], MetricRecord)
