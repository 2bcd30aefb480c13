"""A reply that cannot be what it should be counts as lost: the same run, to the bit, as if it had never arrived."""

import io
import logging

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

import torch
from flwr.app import Array, ArrayRecord, Error, Message, MetricRecord, RecordDict
from flwr.serverapp.strategy import FedAvg
from grid import InProcessGrid, pulling_app, start_arrays

from fedhalt import FedhaltError, GrowthRate, Trajectory
from fedhalt.integrations.flower import EarlyStopping, FedMethod, ModuleTask, client_app
from fedhalt.integrations.flower.testing import round_of
from fedhalt.methods import METHODS

NODES, BAD, ROUND = 4, 1001, 2


@pytest.fixture(autouse=True)
def log(caplog):
    caplog.set_level(logging.INFO)


class Net(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2))


def start():
    torch.manual_seed(0)
    return ArrayRecord(Net().state_dict())


SIZE = sum(parameter.numel() for parameter in Net().parameters())


def app(buffers="average"):
    def task(context):
        client = int(context.node_config["partition-id"])
        x = torch.randn(24, 4, generator=torch.Generator().manual_seed(client))
        batches = [(x[:12], (x[:12, 0] > 0).long()), (x[12:], (x[12:, 0] > 0).long())]
        return ModuleTask(Net(), batches, loss, 10 + client, lr=0.1, momentum=0.9, buffers=buffers)

    def loss(module, batch):
        return torch.nn.functional.cross_entropy(module(batch[0]), batch[1])

    made = client_app(task)

    @made.evaluate()
    def evaluate(message, context):
        metrics = MetricRecord({"num-examples": 10, "loss": 0.25 * (1 + context.node_id % 4), "by_class": [1.0, 2.0]})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return made


class HostileGrid(InProcessGrid):
    """One node answers messages of one type in one round as `alter(content)` has it, or with an error if that is None.

    The client itself does its work either way: only what it sends differs.
    """

    def __init__(self, alter, kind="train", nodes=(BAD,), rounds=(ROUND,), buffers="average"):
        super().__init__(app(buffers), NODES)
        self.alter, self.kind, self.nodes, self.rounds = alter, kind, nodes, rounds

    def reply(self, message):
        reply = super().reply(message)
        here = message.metadata.dst_node_id in self.nodes and round_of(message) in self.rounds
        if not here or message.metadata.message_type != self.kind:
            return reply
        if self.alter is None:
            return Message(Error(code=0, reason="lost"), reply_to=message)
        content = self.alter(reply.content)
        return reply if content is None else Message(content, reply_to=message)


def train(grid, folder, rounds=3, method="scaffold", state=False, **options):
    """A run on this grid: what it left behind, for comparison, and the Result."""
    options = {"cohort": NODES, "min_available_nodes": NODES, "fraction_evaluate": 0.0, **options}
    inner = FedMethod(method, **options)
    strategy = EarlyStopping(
        inner, rule=GrowthRate(1e-9), trajectory=folder / "t.jsonl", state=folder / "state" if state else None
    )
    result = strategy.start(grid, start(), rounds)
    left = {name: array.numpy().tobytes() for name, array in result.arrays.items()}
    left |= {f"state {name}": vector.tobytes() for name, vector in inner.state.items()}
    _, _, rounds_recorded = (folder / "t.jsonl").read_bytes().partition(b"\n")  # the header states what was planned
    left |= {"visited": inner.visited, "confirmed": inner.confirmed, "record": rounds_recorded}
    left |= {"metrics": repr(result)}
    return left, result, strategy


def vector(value):
    """dx replaced by this array."""

    def alter(content):
        content["up"]["dx"] = Array(np.asarray(value))

    return alter


def raw(dtype="float32", shape=(SIZE,), stype="numpy.ndarray", data=b""):
    """dx replaced by bytes that say of themselves what they like."""

    def alter(content):
        content["up"]["dx"] = Array(dtype, shape, stype, data)

    return alter


def metric(name, value):
    def alter(content):
        content["metrics"][name] = value

    return alter


def without(record, name=None):
    def alter(content):
        if name is None:
            del content[record]
        else:
            del content[record][name]

    return alter


def added(name, record):
    def alter(content):
        content[name] = record

    return alter


def in_up(name, value):
    def alter(content):
        content["up"][name] = Array(np.asarray(value, np.float32))

    return alter


def changed(array, index, value):
    def alter(content):
        numbers = content["up"][array].numpy().copy()
        numbers[index] = value
        content["up"][array] = Array(numbers)

    return alter


def saved(array):
    data = io.BytesIO()
    np.save(data, array, allow_pickle=False)
    return data.getvalue()


def zipped():
    data = io.BytesIO()
    np.savez(data, np.zeros(SIZE, np.float32))
    return data.getvalue()


def claiming(shape):
    """A header that promises far more numbers than follow."""
    data = io.BytesIO()
    np.lib.format.write_array_header_1_0(data, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return data.getvalue() + b"\0" * 64


FLAT = np.zeros(SIZE, np.float32)

HOSTILE = {
    "no vectors": without("up"),
    "vectors that are metrics": added("up", MetricRecord({"dx": 1.0})),
    "no vector at all": added("up", ArrayRecord()),
    "a missing vector": without("up", "dc"),
    "another vector besides": in_up("extra", FLAT),
    "a vector of another name": added("up", ArrayRecord({"dx": Array(FLAT), "g": Array(FLAT)})),
    "shape (1,)": vector(np.ones(1, np.float32)),
    "shape ()": vector(np.float32(1)),
    "shape (0,)": vector(np.zeros(0, np.float32)),
    "one too short": vector(FLAT[1:]),
    "one too long": vector(np.zeros(SIZE + 1, np.float32)),
    "a column": vector(FLAT[:, None]),
    "a row": vector(FLAT[None]),
    "a matrix": vector(np.zeros((SIZE, SIZE), np.float32)),
    "float64": vector(FLAT.astype(np.float64)),
    "float16": vector(FLAT.astype(np.float16)),
    "big-endian": vector(FLAT.astype(">f4")),
    "integers": vector(FLAT.astype(np.int32)),
    "bytes": vector(FLAT.astype(np.uint8)),
    "truth values": vector(FLAT.astype(bool)),
    "complex": vector(FLAT.astype(np.complex64)),
    "text": vector(np.array(["a"] * SIZE)),
    "dates": vector(np.zeros(SIZE, "datetime64[s]")),
    "a structure": vector(np.zeros(SIZE, [("a", "<f4")])),
    "one NaN": changed("dx", 3, np.nan),
    "one NaN in the other vector": changed("dc", 0, np.nan),
    "all NaN": vector(FLAT + np.nan),
    "infinite": changed("dx", 0, np.inf),
    "minus infinite": changed("dc", -1, -np.inf),
    "as large as float32 goes": vector(FLAT + np.float32(3e38)),
    "a square beyond float32": vector(FLAT + np.float32(1e19)),
    "no bytes": raw(),
    "garbage": raw(data=b"\x93NUMPY and then something else"),
    "half an array": raw(data=saved(FLAT)[:-40]),
    "a pickle": raw(data=b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00}\x94."),
    "an archive": raw(data=zipped()),
    "a header of 10^9 numbers": raw(data=claiming((10**9,))),
    "a header of 10^15 numbers": raw(data=claiming((10**15,))),
    "a header of negative size": raw(data=claiming((-1,))),
    "of another serialisation": raw(stype="torch.tensor", data=saved(FLAT)),
    "other content than declared": raw(data=saved(FLAT[:5])),
    "no metrics": without("metrics"),
    "empty metrics": added("metrics", MetricRecord()),
    "two records of metrics": added("more", MetricRecord({"num-examples": 5})),
    "metrics that are arrays": added("metrics", ArrayRecord({"num-examples": Array(FLAT)})),
    "no count": without("metrics", "num-examples"),
    "a count of zero": metric("num-examples", 0),
    "a negative count": metric("num-examples", -5),
    "half a sample": metric("num-examples", 2.5),
    "a count of NaN": metric("num-examples", float("nan")),
    "an infinite count": metric("num-examples", float("inf")),
    "a huge count": metric("num-examples", 10**15),
    "a count beyond 64 bits": metric("num-examples", 2**70),
    "counts": metric("num-examples", [5, 5]),
    "no number": without("metrics", "client"),
    "another client's number": metric("client", 2),
    "nobody's number": metric("client", 77),
    "a negative number": metric("client", -1),
    "a number that is none": metric("client", 1.5),
    "numbers": metric("client", [1]),
    "no word on memory": without("metrics", "remembered"),
    "a memory of 0.5": metric("remembered", 0.5),
    "a missing metric": without("metrics", "steps"),
    "a metric of its own": metric("accuracy", 1.0),
    "a metric of NaN": metric("steps", float("nan")),
    "a list for a metric": metric("steps", [1, 2, 3]),
    "no statistics": without("up", "buffers"),
    "statistics of another size": in_up("buffers", np.zeros(5)),
    "statistics with a NaN": changed("buffers", 0, np.nan),
    "nothing": lambda content: RecordDict({}),
    "an error": None,
}


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    """The same run with that one reply lost, drawn by number and by Flower."""
    made = {}
    for cohort in (NODES, None):
        folder = tmp_path_factory.mktemp("lost")
        made[cohort] = (
            train(HostileGrid(None), folder, cohort=cohort, fraction_train=1.0)[0]
            if cohort is None
            else (train(HostileGrid(None), folder)[0])
        )
    return made


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_bad_reply_is_a_lost_one(kind, tmp_path, lost, caplog):
    left, result, _ = train(HostileGrid(HOSTILE[kind]), tmp_path)
    assert left == lost[NODES]
    assert f"node {BAD} failed: " in caplog.text
    assert result.train_metrics_clientapp[ROUND]["failed_nodes"] == [BAD]
    assert Trajectory.load(tmp_path / "t.jsonl").column("train_failed_nodes") == [None, [BAD], None]


@pytest.mark.parametrize("kind", ["shape (1,)", "one NaN", "a huge count", "another client's number"])
def test_also_where_flower_draws(kind, tmp_path, lost):
    left, *_ = train(HostileGrid(HOSTILE[kind]), tmp_path, cohort=None, fraction_train=1.0)
    assert left == lost[None]


def test_the_good_run_is_another(tmp_path, lost):
    left, result, _ = train(HostileGrid(lambda content: None), tmp_path)
    assert left != lost[NODES] and set(result.train_metrics_clientapp[ROUND]) == {"steps", "clipped", "train_loss"}


@pytest.mark.parametrize(
    "kind", ["shape ()", "text", "one NaN", "a missing vector", "no metrics", "another client's number"]
)
@pytest.mark.parametrize("method", METHODS)
def test_with_every_method(method, kind, tmp_path):
    alter = HOSTILE[kind] if kind != "a missing vector" else without("up", "dx")
    (tmp_path / "lost").mkdir()
    expected, *_ = train(HostileGrid(None), tmp_path / "lost", method=method)
    assert train(HostileGrid(alter), tmp_path, method=method)[0] == expected
    if method == "fedwmsam" and kind == "one NaN":
        (tmp_path / "more").mkdir()
        assert train(HostileGrid(in_up("agreement", [1.0])), tmp_path / "more", method=method)[0] == expected


@pytest.mark.parametrize("weighting", ["uniform", "samples"])
def test_statistics_that_nobody_else_sends(weighting, tmp_path):
    untrained = {"untrained": ("*running*",), "weighting": weighting}
    (tmp_path / "lost").mkdir()
    expected, *_ = train(HostileGrid(None, buffers="frozen"), tmp_path / "lost", **untrained)
    grid = HostileGrid(in_up("buffers", np.full(6, 1e6)), buffers="frozen")
    assert train(grid, tmp_path, **untrained)[0] == expected


ANSWERS = {
    "nothing": lambda content: RecordDict({}),
    "no number": without("fedhalt", "client"),
    "a negative number": lambda content: content["fedhalt"].update({"client": -1}),
    "a number that is none": lambda content: content["fedhalt"].update({"client": 0.5}),
    "numbers": lambda content: content["fedhalt"].update({"client": [1, 2]}),
    "another's number": lambda content: content["fedhalt"].update({"client": 0}),
    "negative samples": lambda content: content["fedhalt"].update({"samples": -1}),
    "NaN samples": lambda content: content["fedhalt"].update({"samples": float("nan")}),
    "huge samples": lambda content: content["fedhalt"].update({"samples": 10**15}),
    "arrays": lambda content: RecordDict({"fedhalt": ArrayRecord({"client": Array(FLAT)})}),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_a_node_that_does_not_say_who_it_is(kind, tmp_path, caplog):
    def run(alter, folder):
        folder.mkdir()
        return train(HostileGrid(alter, "query.fedhalt", rounds=(0,)), folder, cohort=2)[0]

    expected = run(None, tmp_path / "lost")
    assert run(ANSWERS[kind], tmp_path / "bad") == expected
    assert f"node {BAD} does not say who it is" in caplog.text


def test_a_node_cannot_take_the_place_of_one_that_is_known():
    """It answers honestly at first, then trains under another's number, and may not displace it either."""
    grid = HostileGrid(metric("client", 0), rounds=(1, 2, 3))
    result = FedMethod("fedavg", cohort=NODES, fraction_evaluate=0.0).start(grid, start(), 3)
    for r in (1, 2, 3):
        assert result.train_metrics_clientapp[r]["failed_nodes"] == [BAD]


EVALUATIONS = {
    "nothing": lambda content: RecordDict({}),
    "no count": without("metrics", "num-examples"),
    "a negative count": metric("num-examples", -1),
    "a count of NaN": metric("num-examples", float("nan")),
    "two records": added("more", MetricRecord({"loss": 1.0})),
    "another metric": metric("accuracy", 1.0),
    "a list": metric("loss", [1.0, 2.0]),
    "a longer list": metric("by_class", [1.0, 2.0, 3.0]),
    "NaN": metric("loss", float("nan")),
    "NaN in a list": metric("by_class", [1.0, float("nan")]),
}


@pytest.mark.parametrize("kind", EVALUATIONS)
def test_a_bad_evaluation_is_a_lost_one(kind, tmp_path):
    def run(alter, folder):
        folder.mkdir()
        return train(HostileGrid(alter, "evaluate"), folder, fraction_evaluate=1.0)

    expected, *_ = run(None, tmp_path / "lost")
    left, result, _ = run(EVALUATIONS[kind], tmp_path / "bad")
    assert left == expected and result.evaluate_metrics_clientapp[ROUND]["failed_nodes"] == [BAD]


def test_two_replies_of_one_node_count_once(tmp_path):
    class Twice(HostileGrid):
        def send_and_receive(self, messages, *, timeout=None):
            replies = super().send_and_receive(messages, timeout=timeout)
            return replies + [reply for reply in replies if reply.metadata.src_node_id == BAD]

    honest = lambda content: None  # noqa: E731
    (tmp_path / "once").mkdir()
    expected, *_ = train(HostileGrid(honest), tmp_path / "once")
    left, *_ = train(Twice(honest), tmp_path)
    assert {name: left[name] for name in start()} == {name: expected[name] for name in start()}


def test_a_round_with_too_few_good_replies_is_skipped(tmp_path, caplog):
    grid = HostileGrid(HOSTILE["one NaN"], nodes=(1001, 1003))
    left, result, _ = train(grid, tmp_path, min_replies=3)
    assert dict(result.train_metrics_clientapp[ROUND]) == {"skipped": 1, "failed": 2, "failed_nodes": [1001, 1003]}
    assert list(Trajectory.load(tmp_path / "t.jsonl").column("round")) == [1, 3]
    assert "round 2 is skipped: 2 replies can be used (min_replies=3); the model stays" in caplog.text

    class Skipping(FedMethod):
        def aggregate_train(self, server_round, replies):
            return (None, None) if server_round == ROUND else super().aggregate_train(server_round, replies)

    expected = Skipping("scaffold", cohort=NODES, fraction_evaluate=0.0).start(
        HostileGrid(lambda content: None), start(), 3
    )
    assert {name: left[name] for name in expected.arrays} == {
        name: array.numpy().tobytes() for name, array in expected.arrays.items()
    }


def test_min_replies_are_checked():
    with pytest.raises(FedhaltError, match="min_replies must be a whole number of at least 1, not 0"):
        FedMethod("fedavg", min_replies=0)
    with pytest.raises(FedhaltError, match="min_replies=5 cannot be more than the cohort of 3"):
        FedMethod("fedavg", cohort=3, min_replies=5)
    with pytest.raises(FedhaltError, match="max_norm_ratio must be a finite number above 0, not -1"):
        FedMethod("fedavg", max_norm_ratio=-1)


@pytest.mark.parametrize("name", ["dx", "dc", "buffers"])
def test_a_bound_on_the_norm(name, tmp_path, lost, caplog):
    def scaled(content):
        content["up"][name] = Array(content["up"][name].numpy() * np.float32(1e6))

    left, *_ = train(HostileGrid(scaled), tmp_path, max_norm_ratio=20)
    assert left == lost[NODES]
    assert f"the norm of '{name}' is" in caplog.text and "above 20 times the median of the cohort" in caplog.text
    (tmp_path / "unbound").mkdir()
    assert train(HostileGrid(scaled), tmp_path / "unbound")[0] != left


@pytest.mark.parametrize("method", METHODS)
def test_the_bound_with_every_method(method, tmp_path):
    """An honest run does not notice it; a reply in which everything is a million times too large is lost."""

    def scaled(content):
        for name, array in content["up"].items():
            content["up"][name] = Array(np.asarray(array.numpy() * np.float32(1e6)))

    def run(alter, name, **options):
        (tmp_path / name).mkdir()
        return train(HostileGrid(alter), tmp_path / name, method=method, **options)[0]

    honest = lambda content: None  # noqa: E731
    assert run(honest, "bound", max_norm_ratio=20) == run(honest, "honest")
    assert run(scaled, "scaled", max_norm_ratio=20) == run(None, "lost")


def nan_everywhere(content):
    content["up"]["dx"] = Array(FLAT + np.nan)


def test_training_that_diverges_is_said_and_the_last_finite_model_returned(tmp_path):
    every = tuple(range(1000, 1000 + NODES))
    grid = HostileGrid(nan_everywhere, nodes=every, rounds=range(3, 9))
    left, _, strategy = train(grid, tmp_path, rounds=9)
    assert strategy.status.round == 3 and strategy.status.reason == "diverged"
    assert max(r for _, r in grid.sent) == 3
    (tmp_path / "two").mkdir()
    expected, *_ = train(HostileGrid(lambda content: None), tmp_path / "two", rounds=2)
    assert {name: left[name] for name in start()} == {name: expected[name] for name in start()}
    assert np.isnan(Trajectory.load(tmp_path / "t.jsonl").column("distance")[2])


def test_sums_that_overflow_are_a_divergence_too(tmp_path):
    """Every reply is a number, but the model that comes of them is none."""
    model = ArrayRecord({name: Array(array.numpy()) for name, array in start().items()})
    model["0.weight"] = Array(np.full((3, 4), 3.3e38, np.float32))
    grid = HostileGrid(vector(FLAT + np.float32(1e18)), nodes=tuple(range(1000, 1000 + NODES)), rounds=(1, 2))
    strategy = EarlyStopping(
        FedMethod("fedavg", cohort=NODES, server_lr=1e20, fraction_evaluate=0.0), state=tmp_path, threshold=0.1
    )
    result = strategy.start(grid, model, 2)
    assert strategy.status.reason == "diverged"
    assert all(np.isfinite(array.numpy()).all() for array in result.arrays.values())


def test_a_restart_with_honest_clients_after_a_hostile_one(tmp_path):
    (tmp_path / "lost").mkdir()
    expected, *_ = train(HostileGrid(None), tmp_path / "lost", method="fedadam")
    train(HostileGrid(HOSTILE["all NaN"]), tmp_path, rounds=2, method="fedadam", state=True)
    left, *_ = train(HostileGrid(lambda content: None), tmp_path, method="fedadam", state=True)
    assert left == expected


def test_a_restart_after_a_divergence_tries_its_round_again(tmp_path):
    every = tuple(range(1000, 1000 + NODES))
    _, _, strategy = train(HostileGrid(nan_everywhere, nodes=every, rounds=(3,)), tmp_path, 5, "fedavg", True)
    assert strategy.status.reason == "diverged"
    with pytest.warns(UserWarning, match="what it held after round 2 is now in"):  # the row of the diverged round
        left, *_ = train(HostileGrid(lambda content: None), tmp_path, 5, "fedavg", True)
    (tmp_path / "peace").mkdir()
    expected, *_ = train(HostileGrid(lambda content: None), tmp_path / "peace", 5, "fedavg")
    assert {name: left[name] for name in start()} == {name: expected[name] for name in start()}


@pytest.mark.parametrize("check_finite", [True, False])
def test_around_flowers_own_strategies_the_published_model_is_checked(check_finite, tmp_path):
    """No reply is read: one NaN ends the run as diverged, and the last finite model and state are kept."""

    class Poisoned(InProcessGrid):
        def __init__(self, rounds):
            super().__init__(pulling_app(), 3)
            self.rounds = rounds

        def send_and_receive(self, messages, *, timeout=None):
            return super().send_and_receive(sorted(messages, key=lambda m: m.metadata.dst_node_id))

        def reply(self, message):
            reply = super().reply(message)
            if message.metadata.message_type == "train" and round_of(message) in self.rounds:
                reply.content["arrays"]["layer.bias"] = Array(np.full(3, np.nan, np.float32))
            return reply

    def run(rounds, bad, state=None):
        strategy = EarlyStopping(FedAvg(), rule=GrowthRate(1e-9, check_finite=check_finite), state=state)
        return strategy.start(Poisoned(bad), start_arrays(counter=False), rounds), strategy

    expected, _ = run(2, ())
    result, strategy = run(5, range(3, 6), tmp_path)
    assert strategy.status.round == (3 if check_finite else 5)
    assert {k: a.numpy().tobytes() for k, a in result.arrays.items()} == {
        k: a.numpy().tobytes() for k, a in expected.arrays.items()
    }
    again, _ = run(5, (), tmp_path)
    peace, _ = run(5, ())
    assert {k: a.numpy().tobytes() for k, a in again.arrays.items()} == {
        k: a.numpy().tobytes() for k, a in peace.arrays.items()
    }
