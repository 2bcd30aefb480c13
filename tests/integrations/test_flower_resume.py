"""A Flower server that was killed goes on: same model, same stop, same record as one that was not."""

import itertools
import json
import logging
import random
import signal
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, MetricRecord
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import FedAdam, FedAvg
from grid import InProcessGrid, pulling_app, start_arrays
from helpers.commands import started
from helpers.places import ROOT

from fedhalt import FedhaltError, GrowthRate, Trajectory
from fedhalt.integrations.flower import EarlyStopping, attach

MAKE = {
    "FedAvg": lambda: FedAvg(),
    "FedAdam": lambda: FedAdam(eta=0.05),
    "FedYogi": lambda: flower.FedYogi(eta=0.05),
    "FedAdagrad": lambda: flower.FedAdagrad(eta=0.05),
    "FedAvgM": lambda: flower.FedAvgM(server_momentum=0.5, server_learning_rate=0.7),
    "Adaptive": lambda: flower.DifferentialPrivacyServerSideAdaptiveClipping(FedAdam(eta=0.05), 0.0, 3),
}


class Killed(Exception):
    pass


@pytest.fixture(autouse=True)
def log(caplog):
    caplog.set_level(logging.INFO)


def run(strategy, rounds=40, dies_in=None, start=None):
    """One run; a server that dies does so while it evaluates that round."""
    grid = InProcessGrid(pulling_app(), 3)
    random.seed(0)

    def evaluate(r, arrays):
        if r == dies_in:
            raise Killed
        return MetricRecord({"loss": float(sum(np.abs(array.numpy()).sum() for array in arrays.values()))})

    # Flower shuffles the nodes: the sums are taken in one order, so that runs can be compared bit by bit
    grid.send_and_receive = lambda messages, timeout=None: [
        grid.reply(message) for message in sorted(messages, key=lambda m: m.metadata.dst_node_id)
    ]
    arrays = start or start_arrays(counter=False)
    return strategy.start(grid, arrays, rounds, evaluate_fn=evaluate), grid


def same(one, other):
    assert repr(one) == repr(other)
    for key in one.arrays:
        np.testing.assert_array_equal(one.arrays[key].numpy(), other.arrays[key].numpy())
    assert list(one.arrays) == list(other.arrays)


def stopping(name, folder=None, trajectory=None, around=EarlyStopping):
    return around(MAKE[name](), threshold=0.05, patience=3, state=folder, trajectory=trajectory)


@pytest.mark.parametrize("name", MAKE)
@pytest.mark.parametrize("dies_in", [0, 1, 5])
def test_goes_on_after_the_last_whole_round(name, dies_in, tmp_path):
    whole = stopping(name, trajectory=tmp_path / "whole.jsonl")
    expected, _ = run(whole)
    paths = tmp_path / "state", tmp_path / "t.jsonl"
    with pytest.raises(Killed):
        run(stopping(name, *paths), dies_in=dies_in)
    again = stopping(name, *paths)
    # a new run brings other initial arrays, unless there was nothing to go on from
    other = ArrayRecord({key: type(a)(a.numpy() + 1) for key, a in start_arrays(counter=False).items()})
    result, grid = run(again, start=other if dies_in else None)
    same(result, expected)
    assert again.status == whole.status
    assert min(r for _, r in grid.sent) == max(dies_in, 1)
    assert paths[1].read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_dies_again_and_again(tmp_path):
    expected, _ = run(stopping("FedAdam"))
    for r in itertools.count(1):
        try:
            result, _ = run(stopping("FedAdam", tmp_path / "state"), dies_in=r)
            break
        except Killed:
            pass
    same(result, expected)
    assert r == max(expected.train_metrics_clientapp) + 1


def test_a_stopped_run_is_given_back_without_sending_anything(tmp_path, caplog):
    expected, _ = run(stopping("FedAdam", tmp_path))
    result, grid = run(stopping("FedAdam", tmp_path))
    same(result, expected)
    assert grid.sent == [] and "which stopped it" in caplog.text


def test_more_rounds_after_a_run_that_ended_by_its_number(tmp_path):
    expected, _ = run(stopping("FedAdam"))
    run(stopping("FedAdam", tmp_path), rounds=3)
    result, grid = run(stopping("FedAdam", tmp_path))
    same(result, expected)
    assert min(r for _, r in grid.sent) == 4


def test_attached_strategies_go_on_too(tmp_path):
    expected, _ = run(stopping("FedAvgM"))
    with pytest.raises(Killed):
        run(stopping("FedAvgM", tmp_path, around=attach), dies_in=4)
    result, _ = run(stopping("FedAvgM", tmp_path, around=attach))
    same(result, expected)


def test_somebody_elses_state_is_found_by_what_training_changes(tmp_path):
    class Decaying(FedAvg):
        """Halves its pull every round; keeps an optimiser-like object and something that cannot be saved."""

        def __init__(self):
            super().__init__()
            self.factor, self.seen, self.lock = 1.0, [], None

        def aggregate_train(self, server_round, replies):
            arrays, metrics = super().aggregate_train(server_round, replies)
            self.factor *= 0.9
            self.seen.append(np.float32(self.factor))
            self.lock = object()
            scaled = {key: type(a)(a.numpy() * np.float32(self.factor)) for key, a in arrays.items()}
            return ArrayRecord(scaled), metrics

    expected, _ = run(EarlyStopping(Decaying(), rule=GrowthRate(1e-9)), rounds=6)
    with pytest.raises(Killed):
        run(EarlyStopping(Decaying(), rule=GrowthRate(1e-9), state=tmp_path), dies_in=4)
    inner = Decaying()
    result, _ = run(EarlyStopping(inner, rule=GrowthRate(1e-9), state=tmp_path), rounds=6)
    same(result, expected)
    assert len(inner.seen) == 6


def test_what_cannot_be_saved_is_said(tmp_path, caplog):
    class Odd(FedAvg):
        def aggregate_train(self, server_round, replies):
            self.thing = object()
            return super().aggregate_train(server_round, replies)

    run(EarlyStopping(Odd(), state=tmp_path), rounds=3)
    assert caplog.text.count("Odd.thing (object) cannot be saved") == 1


def test_another_rule_strategy_or_process_is_refused(tmp_path):
    run(stopping("FedAdam", tmp_path), rounds=2)
    with pytest.raises(FedhaltError, match="was saved by FedAdam, this is FedAvg"):
        run(stopping("FedAvg", tmp_path), rounds=4)
    with pytest.raises(FedhaltError, match="was saved with the rule"):
        run(EarlyStopping(FedAdam(), threshold=0.3, state=tmp_path), rounds=4)
    with pytest.raises(FedhaltError, match=r"include, exclude = \[None, None\], not \['layer\*', None\]"):
        run(EarlyStopping(FedAdam(), threshold=0.05, patience=3, state=tmp_path, include="layer*"), rounds=4)
    with pytest.raises(FedhaltError, match="was saved without a trajectory"):
        path = tmp_path / "t.jsonl"
        Trajectory.create(path)
        run(stopping("FedAdam", tmp_path, path), rounds=4)

    first = stopping("FedAdam", tmp_path)
    first.run.begin_run()
    with pytest.raises(FedhaltError, match="is in use by another process"):
        run(stopping("FedAdam", tmp_path), rounds=4)
    first.run.end()


@pytest.mark.parametrize("suffix", ["json", "safetensors"])
def test_a_damaged_folder_is_named(tmp_path, suffix):
    run(stopping("FedAdam", tmp_path), rounds=2)
    file = tmp_path / f"round-2.{suffix}"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(FedhaltError, match=rf"round-2\.{suffix} is damaged"):
        run(stopping("FedAdam", tmp_path), rounds=4)
    file.unlink()
    with pytest.raises(FedhaltError, match=rf"round-2\.{suffix} is missing"):
        run(stopping("FedAdam", tmp_path), rounds=4)


TESTS = [str(ROOT / "tests"), str(ROOT / "tests" / "integrations")]
SERVER = """
import json, sys
sys.path[:0] = {tests!r}
from test_flower_resume import run, stopping
strategy = stopping("FedAdam", {folder!r}, {folder!r} + ".jsonl")
print("ready", flush=True)
result, _ = run(strategy)
print(json.dumps([strategy.status.round, [a.numpy().tolist() for a in result.arrays.values()]]), flush=True)
"""


def test_what_an_app_keeps_in_the_folder_stays(tmp_path):
    """As Flower's examples write it after every round; it is no reason either not to begin there."""
    mine = [tmp_path / "round-0-weights.npz", tmp_path / "round-1-weights.npz", tmp_path / "round-best" / "model.npz"]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    run(EarlyStopping(FedAvg(), rule=GrowthRate(1e-9), state=tmp_path), rounds=3)
    assert all(path.exists() for path in mine)
    assert {path.name for path in tmp_path.glob("round-*.*")} - {path.name for path in mine} == {
        "round-3.json", "round-3.safetensors",
    }  # fmt: skip


def test_a_process_killed_at_any_moment_goes_on_to_the_same_numbers(tmp_path):
    """kill -9 at moments that no test chooses, until a run gets through."""

    def server(folder):
        code = SERVER.format(tests=TESTS, folder=str(tmp_path / folder))
        return started(sys.executable, "-c", code, stderr=subprocess.DEVNULL)

    with server("whole") as process:
        expected = json.loads(process.communicate()[0].splitlines()[-1])
    draw, kills, answer = random.Random(1), 0, None
    while answer is None:
        with server("killed") as process:
            assert process.stdout.readline() == "ready\n"
            try:
                process.wait(draw.uniform(0.01, 0.15) if kills < 4 else None)
                answer = json.loads(process.stdout.read().splitlines()[-1])
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                kills += 1
    assert answer == expected
    assert (tmp_path / "killed.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert kills


def test_the_privacy_accountant_goes_on_counting(tmp_path):
    """With flwr's optional dp-accounting (flwr 1.41): what was spent before the restart is still spent."""
    pytest.importorskip("dp_accounting")
    accounting = pytest.importorskip("flwr.supercore.privacy_accounting")
    from flwr.supercore.privacy_accounting.rdp_accountant import RdpAccountant

    def spent(folder, rounds):
        how = accounting.SamplingMethod.NO_AMPLIFICATION
        relation = next(iter(accounting.NeighboringRelation))
        accountant = RdpAccountant(accounting.PrivacyConfig(1e-5, 3, relation, how))
        inner = flower.DifferentialPrivacyServerSideFixedClipping(FedAvg(), 1.0, 1.0, 3, accountant=accountant)
        run(EarlyStopping(inner, rule=GrowthRate(1e-9), state=folder), rounds=rounds)
        return inner.privacy_spent()

    assert spent(tmp_path / "cut", 2).num_releases == 2
    assert spent(tmp_path / "cut", 5) == spent(tmp_path / "whole", 5)
