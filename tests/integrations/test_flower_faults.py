"""EarlyStopping when something is odd: strategies of unusual shape, other models, folders, metrics."""

import collections
import copy
import logging

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

import torch
from flwr.app import Array, ArrayRecord, MetricRecord
from flwr.serverapp.strategy import FedAdam, FedAvg
from grid import InProcessGrid, pulling_app, start_arrays
from test_flower_legacy import options as legacy_options
from test_flower_legacy import run as run_legacy
from test_flower_resume import Killed as Died
from test_flower_resume import run, same

from fedhalt import FedhaltError, GrowthRate, Plateau, Trajectory
from fedhalt.integrations.flower import EarlyStopping, attach

NEVER = {"rule": GrowthRate(1e-9)}


@pytest.fixture(autouse=True)
def log(caplog):
    caplog.set_level(logging.INFO)


class PassingOn(FedAvg):
    """The commonest start() of one's own."""

    def start(self, *args, **kwargs):
        return super().start(*args, **kwargs)


def test_a_start_that_passes_everything_on(tmp_path):
    expected, _ = run(EarlyStopping(FedAvg(), threshold=0.05, patience=3))
    with pytest.raises(Died):
        run(attach(PassingOn(), threshold=0.05, patience=3, state=tmp_path), dies_in=1)
    other = ArrayRecord({key: type(a)(a.numpy() + 1) for key, a in start_arrays(counter=False).items()})
    result, _ = run(attach(PassingOn(), threshold=0.05, patience=3, state=tmp_path), start=other)
    same(result, expected)


def test_a_start_of_other_words_begins_anew_if_nothing_was_trained(tmp_path):
    class Renamed(FedAvg):
        def start(self, grid, model, rounds):
            return super().start(grid, model, rounds)

    def begin(folder, offset, rounds):
        strategy = attach(Renamed(), **NEVER, state=folder)
        arrays = ArrayRecord({key: type(a)(a.numpy() + offset) for key, a in start_arrays(counter=False).items()})
        strategy.start(InProcessGrid(pulling_app()), arrays, rounds)
        return strategy.early_stopping.status  # type: ignore[attr-defined]

    broken = attach(Renamed(), **NEVER, state=tmp_path / "cut")
    broken.early_stopping.strategy.configure_train = lambda *args: 1 / 0  # type: ignore[attr-defined]
    with pytest.raises(ZeroDivisionError):
        broken.start(InProcessGrid(pulling_app()), start_arrays(counter=False), 3)
    expected = begin(tmp_path / "whole", 5, 3)
    assert begin(tmp_path / "cut", 5, 3).value == pytest.approx(expected.value, rel=1e-5)


def test_fewer_rounds_than_are_saved_give_the_saved_model(tmp_path):
    expected, _ = run(EarlyStopping(FedAvg(), **NEVER, state=tmp_path), rounds=5)
    result, grid = run(EarlyStopping(FedAvg(), **NEVER, state=tmp_path), rounds=3)
    assert grid.sent == []
    for key in expected.arrays:
        np.testing.assert_array_equal(result.arrays[key].numpy(), expected.arrays[key].numpy())


def test_an_integer_counter_survives_a_restart(tmp_path):
    run(EarlyStopping(FedAvg(), **NEVER, state=tmp_path), rounds=2, start=start_arrays())
    stopping = EarlyStopping(FedAvg(), **NEVER, state=tmp_path)
    run(stopping, rounds=4, start=start_arrays())
    whole = EarlyStopping(FedAvg(), **NEVER)
    run(whole, rounds=4, start=start_arrays())
    assert stopping.status == whole.status


def test_killed_between_the_trajectory_and_the_first_save(tmp_path):
    Trajectory.create(tmp_path / "t.jsonl")
    stopping = EarlyStopping(FedAvg(), **NEVER, state=tmp_path / "state", trajectory=tmp_path / "t.jsonl")
    run(stopping, rounds=2)
    assert len(Trajectory.load(tmp_path / "t.jsonl")) == 2


def test_a_record_with_failed_rounds_goes_on(tmp_path):
    """Rounds 2 and 3 failed: the record has fewer rounds than the number of its last one."""

    def begin(name, rounds):
        grid = InProcessGrid(pulling_app(), broken=lambda kind, r: range(3) if kind == "train" and r in (2, 3) else ())
        paths = {"state": tmp_path / name, "trajectory": tmp_path / f"{name}.jsonl"}
        EarlyStopping(FedAvg(fraction_evaluate=0.0), **NEVER, **paths).start(grid, start_arrays(), rounds)
        return list(Trajectory.load(tmp_path / f"{name}.jsonl").column("round"))

    assert begin("cut", 4) == [1, 4]
    assert begin("cut", 6) == [1, 4, 5, 6]


def test_another_model_is_refused(tmp_path):
    run(EarlyStopping(FedAvg(), **NEVER, state=tmp_path), rounds=2)
    other = ArrayRecord({"other": Array(np.zeros((7, 7), np.float32))})
    with pytest.raises(FedhaltError, match=r"holds another model: 'layer\.weight' has shape .* there and None here"):
        run(EarlyStopping(FedAvg(), **NEVER, state=tmp_path), rounds=4, start=other)


def test_a_trajectory_that_is_gone_is_named(tmp_path):
    path = tmp_path / "t.jsonl"
    run(EarlyStopping(FedAvg(), **NEVER, state=tmp_path / "s", trajectory=path), rounds=2)
    path.unlink()
    with pytest.raises(FedhaltError, match=r"t\.jsonl is gone"):
        run(EarlyStopping(FedAvg(), **NEVER, state=tmp_path / "s", trajectory=path), rounds=4)


def test_a_state_that_cannot_be_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(FedhaltError, match=r"state='.*' cannot be a folder"):
            run(EarlyStopping(FedAvg(), state=path))


class Optimised(FedAvg):
    """A server that keeps a torch optimiser, a tensor, a default dictionary and texts that look like numbers."""

    def __init__(self):
        super().__init__()
        self.step = torch.nn.Parameter(torch.zeros(3))
        self.optimizer = torch.optim.Adam([self.step], lr=0.1)
        self.counts = collections.defaultdict(int)
        self.words = ("NaN", {"Infinity": "-Infinity"})

    def aggregate_train(self, server_round, replies):
        arrays, metrics = super().aggregate_train(server_round, replies)
        assert arrays is not None
        self.step.grad = torch.from_numpy(arrays["layer.bias"].numpy().copy())
        self.optimizer.step()
        self.counts["rounds"] += 1
        self.words = (f"{self.words[0]}", {"Infinity": self.words[1]["Infinity"] + "."})
        arrays["layer.bias"] = Array(arrays["layer.bias"].numpy() + self.step.detach().numpy() * self.counts["never"])
        return ArrayRecord({**arrays, "layer.bias": Array(self.step.detach().numpy().copy())}), metrics


def test_optimisers_tensors_and_odd_containers_are_put_back(tmp_path):
    expected, _ = run(EarlyStopping(Optimised(), **NEVER), rounds=6)
    run(EarlyStopping(Optimised(), **NEVER, state=tmp_path), rounds=3)
    inner = Optimised()
    result, _ = run(EarlyStopping(inner, **NEVER, state=tmp_path), rounds=6)
    same(result, expected)
    assert inner.counts["rounds"] == 6 and inner.words == ("NaN", {"Infinity": "-Infinity......"})
    assert inner.optimizer.param_groups[0]["params"][0] is inner.step


def test_a_wrapper_may_call_its_strategy_anything(tmp_path):
    class Inner(FedAvg):
        def __init__(self):
            super().__init__()
            self.inner = FedAdam(eta=0.05)

        def configure_train(self, *args):
            return self.inner.configure_train(*args)

        def aggregate_train(self, *args):
            return self.inner.aggregate_train(*args)

    expected, _ = run(EarlyStopping(Inner(), **NEVER), rounds=6)
    run(EarlyStopping(Inner(), **NEVER, state=tmp_path), rounds=3)
    result, _ = run(EarlyStopping(Inner(), **NEVER, state=tmp_path), rounds=6)
    same(result, expected)


def test_what_cannot_be_seen_changing_is_named_once(tmp_path, caplog):
    class Odd(FedAvg):
        def __init__(self):
            super().__init__()
            self.history = collections.deque()

    run(EarlyStopping(Odd(), **NEVER, state=tmp_path), rounds=3)
    assert caplog.text.count("Odd.history (deque) cannot be saved") == 1


def test_metrics_of_any_kind(tmp_path):
    class Chatty(FedAvg):
        def aggregate_train(self, server_round, replies):
            arrays, _ = super().aggregate_train(server_round, replies)
            return arrays, MetricRecord({"big": 2**63, "loss": 1.0, "train_loss": 2.0, "nan": float("nan")})

    run(EarlyStopping(Chatty(), **NEVER, trajectory=tmp_path / "t.jsonl"), rounds=2)
    row = Trajectory.load(tmp_path / "t.jsonl").rows[0]
    assert row["train_big"] == 2.0**63 and row["train_loss"] == 1.0 and row["train_train_loss"] == 2.0


def test_a_round_without_the_rules_metric_is_not_judged():
    def start(evaluate):
        rule = Plateau("server_loss", 0.01, 2, higher_is_better=False)
        stopping = EarlyStopping(FedAvg(), rule=rule)
        stopping.start(InProcessGrid(pulling_app()), start_arrays(), 9, evaluate_fn=evaluate)
        return stopping.status

    status = start(lambda r, arrays: MetricRecord({"loss": 1.0}) if r % 2 else None)
    assert status.stop and status.round == 5
    with pytest.raises(FedhaltError, match="'server_loss', which is not recorded"):
        start(None)


def test_a_copy_is_a_strategy_too():
    stopping = copy.deepcopy(EarlyStopping(FedAvg(), threshold=0.05, patience=3))
    run(stopping)
    assert stopping.status.stop


def test_legacy_without_federated_evaluation(tmp_path):
    from flwr.server import strategy as legacy

    def make(state=None):
        inner = legacy.FedAvg(**{**legacy_options({}), "fraction_evaluate": 0.0, "min_evaluate_clients": 0})
        return EarlyStopping(inner, threshold=0.05, patience=3, trajectory=tmp_path / f"{state}.jsonl", state=state)

    first = make(tmp_path / "s")
    run_legacy(first, rounds=4)
    assert first.status.round == 4
    second, whole = make(tmp_path / "s"), make()
    run_legacy(second)  # the first one still lives: the folder goes over to the next run
    run_legacy(whole)
    assert second.status == whole.status and whole.status.stop
