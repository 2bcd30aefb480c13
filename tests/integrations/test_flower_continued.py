"""A continued run is the same run: a strategy's decisions are kept, and no round is given the model of another.

The strategy here behaves like that of Flower's advanced-pytorch example: it halves the rate in the config every five
rounds, has a start() of its own, and saves its best model under a name that holds the round.
"""

import logging
import random

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy import FedAvg, Result
from grid import InProcessGrid, pulled, start_arrays

from fedhalt import GrowthRate
from fedhalt.integrations.flower import EarlyStopping, attach

NEVER = {"rule": GrowthRate(1e-9)}
ROUNDS, KILLED_AFTER = 12, 6


class Killed(Exception):
    pass


@pytest.fixture(autouse=True)
def log(caplog):
    caplog.set_level(logging.INFO)


class Halving(FedAvg):
    def configure_train(self, server_round, arrays, config, grid):
        if server_round % 5 == 0:
            config["lr"] *= 0.5
        return super().configure_train(server_round, arrays, config, grid)


class Advanced(Halving):
    """With the example's own start(): its loop, and the best model saved under its round."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def start(
        self,
        grid,
        initial_arrays,
        num_rounds=3,
        timeout=3600,
        train_config=None,
        evaluate_config=None,
        evaluate_fn=None,
    ):
        self.best = 0.0
        result, arrays = Result(), initial_arrays
        for r in range(1, num_rounds + 1):
            replies = grid.send_and_receive(self.configure_train(r, arrays, train_config, grid))
            new, metrics = self.aggregate_train(r, replies)
            if new is not None:
                result.arrays = arrays = new
                (self.folder / f"given_{r}").touch()
            if metrics is not None:
                result.train_metrics_clientapp[r] = metrics
            found = evaluate_fn(r, arrays)
            if found is not None:
                result.evaluate_metrics_serverapp[r] = found
                if found["accuracy"] > self.best:
                    self.best = found["accuracy"]
                    np.savez(self.folder / f"round_{r}.npz", **{name: a.numpy() for name, a in arrays.items()})
        return result


def app():
    """Clients that move as far as the rate in their config says."""
    made = ClientApp()

    @made.train()
    def train(message, context):
        values = {name: array.numpy() for name, array in message.content["arrays"].items()}
        client = int(context.node_config["partition-id"])
        moved = pulled(values, client, rate=message.content["config"]["lr"])
        arrays = ArrayRecord({name: Array(value) for name, value in moved.items()})
        metrics = MetricRecord({"num-examples": 10, "lr": float(message.content["config"]["lr"])})
        return Message(RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)

    @made.evaluate()
    def evaluate(message, context):
        metrics = MetricRecord({"num-examples": 10, "share": float(message.content["config"].get("share", 0.0))})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return made


class OrderedGrid(InProcessGrid):
    def send_and_receive(self, messages, *, timeout=None):
        return super().send_and_receive(sorted(messages, key=lambda m: m.metadata.dst_node_id))


def run(strategy, rounds=ROUNDS, dies_after=None, seen=None, lr=0.2, **config):
    """One run; the server dies in the evaluation of the round after `dies_after`."""

    def evaluate(r, arrays):
        if dies_after is not None and r == dies_after + 1:
            raise Killed
        if seen is not None:
            seen[r] = {name: array.numpy().copy() for name, array in arrays.items()}
        # best in the middle, so that files of several rounds are written before the kill and after it
        return MetricRecord({"accuracy": 0.1 + r / 100})

    config = ConfigRecord({"lr": lr, **config})
    return strategy.start(
        OrderedGrid(app()), start_arrays(counter=False), rounds, train_config=config, evaluate_fn=evaluate
    )


def rates(result):
    return {r: metrics["lr"] for r, metrics in result.train_metrics_clientapp.items()}


def same(one, other):
    assert repr(one) == repr(other)
    for name in one.arrays:
        np.testing.assert_array_equal(one.arrays[name].numpy(), other.arrays[name].numpy())


def cut(make, **options):
    """The run in peace, and the one that was killed and continued."""
    peace = run(make("peace"), **options)
    with pytest.raises(Killed):
        run(make("cut"), dies_after=KILLED_AFTER, **options)
    return peace, run(make("cut"), **options)


def test_a_rate_halved_in_the_config_stays_halved(tmp_path):
    peace, continued = cut(lambda name: EarlyStopping(Halving(), **NEVER, state=tmp_path / name))
    assert rates(peace) == {
        **dict.fromkeys(range(1, 5), 0.2),
        **dict.fromkeys(range(5, 10), 0.1),
        10: 0.05,
        11: 0.05,
        12: 0.05,
    }
    same(continued, peace)


def test_the_advanced_example_goes_on_as_if_nothing_had_happened(tmp_path):
    def make(name):
        (tmp_path / f"{name} models").mkdir(exist_ok=True)
        return attach(Advanced(tmp_path / f"{name} models"), **NEVER, state=tmp_path / name)

    peace, continued = cut(make)
    same(continued, peace)


def test_a_saved_best_model_is_that_of_its_round(tmp_path):
    """The example writes its best models: those of the continued run too are what their names say."""
    models = {}
    for name in ("peace", "first", "second"):
        (tmp_path / name).mkdir()
    run(attach(Advanced(tmp_path / "peace"), **NEVER), seen=models)
    with pytest.raises(Killed):
        run(attach(Advanced(tmp_path / "first"), **NEVER, state=tmp_path / "state"), dies_after=KILLED_AFTER)
    continued = attach(Advanced(tmp_path / "second"), **NEVER, state=tmp_path / "state")
    run(continued)
    written = {int(path.stem.split("_")[1]): path for path in (tmp_path / "second").glob("round_*")}
    assert set(written) == set(range(KILLED_AFTER, ROUNDS + 1))
    given = {int(path.name.split("_")[1]) for path in (tmp_path / "second").glob("given_*")}
    assert given == set(written)  # the last model is handed out as that of no earlier round
    for r, path in written.items():
        with np.load(path) as found:
            for name in found:
                np.testing.assert_array_equal(found[name], models[r][name])


def test_what_start_sets_anew_is_put_back(tmp_path):
    """The best accuracy so far is an attribute that the example's start() begins with 0."""
    with pytest.raises(Killed):
        run(attach(Advanced(tmp_path), **NEVER, state=tmp_path / "state"), dies_after=KILLED_AFTER)

    class Looking(Advanced):
        def configure_train(self, server_round, *args):
            self.seen = getattr(self, "seen", [])
            self.seen.append(self.best)
            return super().configure_train(server_round, *args)

    Looking.__name__ = "Advanced"
    strategy = attach(Looking(tmp_path), **NEVER, state=tmp_path / "state")
    run(strategy, rounds=KILLED_AFTER + 1)
    assert strategy.seen == [pytest.approx(0.1 + KILLED_AFTER / 100)]


def test_attributes_that_configure_train_changes(tmp_path):
    class Own(FedAvg):
        def __init__(self):
            super().__init__()
            self.rate, self.calls = 0.2, []

        def configure_train(self, server_round, arrays, config, grid):
            self.calls.append(server_round)
            self.rate *= 0.9
            return super().configure_train(server_round, arrays, ConfigRecord({"lr": self.rate}), grid)

    made = []

    def make(name):
        made.append(Own())
        return EarlyStopping(made[-1], **NEVER, state=tmp_path / name)

    peace, continued = cut(make)
    same(continued, peace)
    assert made[-1].calls == made[0].calls == list(range(1, ROUNDS + 1))


def test_a_config_for_evaluation_texts_bytes_lists_and_keys_that_go(tmp_path):
    class Busy(FedAvg):
        def configure_train(self, server_round, arrays, config, grid):
            config["words"] = [*config["words"], str(server_round)]
            config["data"] = config["data"] + b"\x00"
            config.pop("once", None)
            config["lr"] = 0.2 / len(config["words"]) if "once" not in config else 9.0
            return super().configure_train(server_round, arrays, config, grid)

        def configure_evaluate(self, server_round, arrays, config, grid):
            config["share"] = config.get("share", 1.0) * 0.5
            return super().configure_evaluate(server_round, arrays, config, grid)

    options = {"words": ["a"], "data": b"\xff", "once": 1}
    peace, continued = cut(lambda name: EarlyStopping(Busy(), **NEVER, state=tmp_path / name), **options)
    same(continued, peace)
    assert continued.evaluate_metrics_clientapp[ROUNDS]["share"] == 0.5**ROUNDS


def test_a_start_that_changes_the_config_itself(tmp_path):
    """What its loop does in the replayed rounds too must not count twice."""

    class Loop(FedAvg):
        def start(self, grid, initial_arrays, num_rounds, train_config, evaluate_fn):
            result, arrays = Result(), initial_arrays
            for r in range(1, num_rounds + 1):
                train_config["lr"] *= 0.9
                replies = grid.send_and_receive(self.configure_train(r, arrays, train_config, grid))
                new, metrics = self.aggregate_train(r, replies)
                if new is not None:
                    result.arrays = arrays = new
                    result.train_metrics_clientapp[r] = metrics
                evaluate_fn(r, arrays)
                train_config["lr"] *= 0.95
            return result

    peace, continued = cut(lambda name: attach(Loop(), **NEVER, state=tmp_path / name))
    assert rates(continued) == rates(peace)
    for name in peace.arrays:
        np.testing.assert_array_equal(continued.arrays[name].numpy(), peace.arrays[name].numpy())


def test_a_rate_that_is_given_anew_counts_and_is_said(tmp_path, caplog):
    with pytest.raises(Killed):
        run(EarlyStopping(Halving(), **NEVER, state=tmp_path), dies_after=KILLED_AFTER)
    result = run(EarlyStopping(Halving(), **NEVER, state=tmp_path), lr=0.02, rounds=8)
    assert rates(result)[7] == pytest.approx(0.02)
    assert "lr in the train config was 0.2 when this run began and is 0.02 now, which counts" in caplog.text


def test_what_cannot_be_restored_is_said_at_the_restart(tmp_path, caplog):
    strategy = lambda: EarlyStopping(Halving(), **NEVER, state=tmp_path)  # noqa: E731
    run(strategy(), rounds=3)
    assert "not restored" not in caplog.text
    run(strategy(), rounds=4)
    assert caplog.text.count("not restored: what clients kept for themselves (context.state") == 1
    assert "the random numbers of server and clients" in caplog.text


def test_replaying_draws_no_random_number(tmp_path):
    run(EarlyStopping(Halving(), **NEVER, state=tmp_path), rounds=5)
    random.seed(3)
    np.random.seed(3)
    before = random.getstate(), np.random.get_state(legacy=False)["state"]["key"].tolist()
    run(EarlyStopping(Halving(), **NEVER, state=tmp_path), rounds=5)
    assert (random.getstate(), np.random.get_state(legacy=False)["state"]["key"].tolist()) == before
