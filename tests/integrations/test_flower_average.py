"""EarlyStopping(average=…): the run returns the mean of its last global models, whatever interrupts it."""

import logging
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.serverapp.strategy import FedAdam, FedAvg, Result
from grid import InProcessGrid, pulling_app, start_arrays

from fedhalt import Budget, FedhaltError, GrowthRate, Trajectory
from fedhalt.integrations.flower import EarlyStopping, attach
from fedhalt.integrations.flower.message import AveragedResult

STATISTICS = "ignore:the average holds BatchNorm statistics"
pytestmark = pytest.mark.filterwarnings(STATISTICS)


class Killed(Exception):
    pass


class Grid(InProcessGrid):
    """Ends the process, as far as Flower sees, in one of its rounds."""

    killed_in = None

    def send_and_receive(self, messages, *, timeout=None):
        messages = sorted(messages, key=lambda message: message.metadata.dst_node_id)
        if self.killed_in and messages and int(messages[0].content["config"]["server-round"]) == self.killed_in:
            raise Killed
        return super().send_and_receive(messages, timeout=timeout)


def saving(strategy, kept):
    """The strategy, with a copy of every global model it makes."""
    aggregate = strategy.aggregate_train

    def aggregate_train(r, replies):
        arrays, metrics = aggregate(r, replies)
        kept[r] = {name: array.numpy().copy() for name, array in arrays.items()}
        return arrays, metrics

    strategy.aggregate_train = aggregate_train
    return strategy


def start(strategy, rounds=20, killed_in=None) -> Any:
    grid = Grid(pulling_app(), 3)
    grid.killed_in = killed_in
    return strategy.start(grid, start_arrays(), rounds)


def by_hand(kept, last, rounds):
    chosen = [kept[r] for r in range(max(1, last - rounds + 1), last + 1)]
    return {name: np.mean([model[name].astype("f8") for model in chosen], 0) for name in chosen[0]}


def check(arrays, expected, last):
    assert list(arrays) == list(last)
    for name, array in arrays.items():
        value = array.numpy()
        if "num_batches" in name:
            assert value.tolist() == last[name].tolist()
        else:
            assert value.dtype == last[name].dtype and value == pytest.approx(expected[name], abs=1e-6)


@pytest.mark.parametrize("rounds, stop", [(20, 12), (9, None)])
def test_the_result_is_the_mean_of_the_last_models(rounds, stop):
    kept = {}
    strategy = EarlyStopping(saving(FedAdam(eta=0.1), kept), rule=Budget(12), average=5)
    result = start(strategy, rounds)
    last = stop or rounds
    assert (
        isinstance(result, AveragedResult) and isinstance(result, Result) and strategy.status.round == last == max(kept)
    )
    check(result.arrays, by_hand(kept, last, 5), kept[last])
    check(result.last_arrays, kept[last], kept[last])
    check(strategy.model("average"), by_hand(kept, last, 5), kept[last])
    check(strategy.model("last"), kept[last], kept[last])
    assert result.train_metrics_clientapp.keys() == set(range(1, last + 1))


def test_it_changes_nothing_of_the_training_and_the_stop(tmp_path):
    results = []
    for average in (None, 5, "running:6"):
        strategy = EarlyStopping(FedAdam(eta=0.1), 0.05, 3, average=average, trajectory=tmp_path / f"{average}.jsonl")
        result = start(strategy, 30)
        arrays = result.arrays if average is None else result.last_arrays
        results.append((strategy.status, {name: array.numpy().tobytes() for name, array in arrays.items()}))
    assert results[0] == results[1] == results[2]
    rows = Trajectory.load(tmp_path / "5.jsonl").rows
    assert rows[0]["distance_average"] == pytest.approx(rows[0]["distance"]) and "drift_5" in rows[0]
    assert "drift_5" not in Trajectory.load(tmp_path / "None.jsonl").columns


@pytest.mark.parametrize("average", [5, "running:4"])
def test_a_killed_server_goes_on_to_the_same_average(average, tmp_path):
    def strategy(name):
        return EarlyStopping(FedAdam(eta=0.1), rule=GrowthRate(1e-9), average=average, state=tmp_path / name)

    whole = start(strategy("whole"), 15).arrays
    for killed_in in (2, 7, 12):
        with pytest.raises(Killed):
            start(strategy("killed"), 15, killed_in)
    result = start(strategy("killed"), 15)
    assert {name: array.numpy().tobytes() for name, array in result.arrays.items()} == {
        name: array.numpy().tobytes() for name, array in whole.items()
    }


def test_a_folder_with_another_average_is_refused(tmp_path):
    with pytest.raises(Killed):
        start(EarlyStopping(FedAvg(), rule=GrowthRate(1e-9), average=5, state=tmp_path), 9, killed_in=4)
    with pytest.raises(FedhaltError, match="was saved with average=5, not None"):
        start(EarlyStopping(FedAvg(), rule=GrowthRate(1e-9), state=tmp_path), 9)


def test_attached_to_a_strategy_with_a_start_of_its_own(caplog):
    class Own(FedAvg):
        def start(self, grid, initial_arrays, num_rounds):
            return super().start(grid, initial_arrays, num_rounds)

    caplog.set_level(logging.WARNING)
    kept = {}
    strategy = attach(saving(Own(), kept), rule=Budget(6), average=3)
    result = start(strategy, 10)
    check(result.arrays, by_hand(kept, 6, 3), kept[6])


def test_what_is_wrong_is_said_when_it_is_given():
    with pytest.raises(FedhaltError, match="average must be a number of rounds such as 10, or 'running:10', not 'ten'"):
        EarlyStopping(FedAvg(), average="ten")
    with pytest.raises(FedhaltError, match="no model before the first round"):
        run = EarlyStopping(FedAvg(), average=3)
        run.run.begin_run()
        run.model()


def test_batch_statistics_are_warned_of():
    with pytest.warns(UserWarning, match="BatchNorm statistics"):
        start(EarlyStopping(FedAvg(), rule=Budget(2), average=2), 3)
