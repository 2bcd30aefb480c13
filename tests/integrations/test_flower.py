"""EarlyStopping on Flower's strategies: the stop is the rule's, the Result is Flower's, nothing else changes."""

import inspect
import logging
import random

import numpy as np
import pytest

pytest.importorskip("flwr")

from flwr.app import ArrayRecord, MetricRecord
from flwr.clientapp.mod import adaptiveclipping_mod, fixedclipping_mod
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import FedAdam, FedAvg, Result
from grid import InProcessGrid, pulling_app, start_arrays

import fedhalt
from fedhalt import FedhaltError, GrowthRate, Trajectory, rules
from fedhalt.integrations.flower import EarlyStopping, StoppingStrategy, attach

NODES, ROUNDS = 7, 40

STRATEGIES = {
    "FedAvg": lambda: FedAvg(),
    "FedProx": lambda: flower.FedProx(proximal_mu=0.1),
    "FedAdam": lambda: FedAdam(eta=0.05),
    "FedYogi": lambda: flower.FedYogi(eta=0.05),
    "FedAdagrad": lambda: flower.FedAdagrad(eta=0.05),
    "FedAvgM": lambda: flower.FedAvgM(server_momentum=0.5),
    "FedMedian": lambda: flower.FedMedian(),
    "FedTrimmedAvg": lambda: flower.FedTrimmedAvg(beta=0.2),
    "Krum": lambda: flower.Krum(num_malicious_nodes=1),
    "MultiKrum": lambda: flower.MultiKrum(num_malicious_nodes=1, num_nodes_to_select=3),
    "Bulyan": lambda: flower.Bulyan(num_malicious_nodes=1),
    "QFedAvg": lambda: flower.QFedAvg(client_learning_rate=0.3, q=0.1, train_loss_key="train_loss"),
    "DifferentialPrivacyServerSideFixedClipping": lambda: flower.DifferentialPrivacyServerSideFixedClipping(
        FedAvg(), 0.001, 1.0, NODES
    ),
    "DifferentialPrivacyServerSideAdaptiveClipping": lambda: flower.DifferentialPrivacyServerSideAdaptiveClipping(
        FedAvg(), 0.001, NODES
    ),
    "DifferentialPrivacyClientSideFixedClipping": lambda: flower.DifferentialPrivacyClientSideFixedClipping(
        FedAvg(), 0.001, 1.0, NODES
    ),
    "DifferentialPrivacyClientSideAdaptiveClipping": lambda: flower.DifferentialPrivacyClientSideAdaptiveClipping(
        FedAvg(), 0.001, NODES
    ),
}
MODS = {
    "DifferentialPrivacyClientSideFixedClipping": [fixedclipping_mod],
    "DifferentialPrivacyClientSideAdaptiveClipping": [adaptiveclipping_mod],
}


@pytest.fixture(autouse=True)
def quiet(caplog):
    caplog.set_level(logging.INFO)


def start(strategy, name="FedAvg", rounds=ROUNDS, seen=None, **options):
    """One run on a federation in this process; `seen` collects the model of every round."""
    grid = InProcessGrid(pulling_app(*MODS.get(name, ())), NODES, **options)
    np.random.seed(0)  # the noise of the DP wrappers
    random.seed(0)  # the order in which Flower asks the nodes, and sums

    def evaluate(r, arrays):
        if seen is not None:
            seen.append({key: array.numpy().copy() for key, array in arrays.items()})
        return MetricRecord({"loss": 1 / (r + 1)})

    arrays = start_arrays(counter=name != "QFedAvg" and "Privacy" not in name)  # these of Flower's take no integers
    return strategy.start(grid, arrays, rounds, evaluate_fn=evaluate), grid


def distances(seen):
    """||theta_r - theta_0|| over what was floating-point at the start."""
    floating = [key for key, value in seen[0].items() if value.dtype.kind == "f"]
    flat = [np.concatenate([model[key].ravel() for key in floating]).astype(np.float64) for model in seen]
    return [float(np.linalg.norm(now - flat[0])) for now in flat[1:]]


def test_every_shipped_strategy_is_listed():
    shipped = {
        name
        for name, cls in vars(flower).items()
        if inspect.isclass(cls) and issubclass(cls, flower.Strategy) and cls is not flower.Strategy
    }
    assert shipped == {*STRATEGIES, "FedXgbBagging", "FedXgbCyclic"}


@pytest.mark.parametrize("name", STRATEGIES)
def test_stops_where_the_rule_says_with_the_model_of_that_round(name):
    seen = []
    start(STRATEGIES[name](), name, seen=seen)
    rule = GrowthRate(0.05, 3)
    expected = fedhalt.stop_round(rule, distances(seen))
    assert expected is not None and 4 <= expected < ROUNDS

    stopping = EarlyStopping(STRATEGIES[name](), threshold=0.05, patience=3)
    result, grid = start(stopping, name)
    assert stopping.status.round == expected and stopping.status.stop
    assert type(result) is Result
    for key, value in seen[expected].items():
        np.testing.assert_array_equal(result.arrays[key].numpy(), value)
    assert list(result.train_metrics_clientapp) == list(range(1, expected + 1))
    assert list(result.evaluate_metrics_clientapp) == list(range(1, expected + 1))
    assert list(result.evaluate_metrics_serverapp) == list(range(expected + 1))
    assert max(r for _, r in grid.sent) == expected
    assert grid.sent.count(("evaluate", expected)) == NODES


def test_a_run_that_is_never_stopped_is_the_run_without_us():
    plain, _ = start(FedAdam(), rounds=4)
    watched, _ = start(EarlyStopping(FedAdam(), threshold=1e-9, patience=3), rounds=4)
    assert repr(plain) == repr(watched)
    for key in plain.arrays:
        np.testing.assert_array_equal(plain.arrays[key].numpy(), watched.arrays[key].numpy())


def test_our_wrapper_reads_no_reply():
    """The privacy claim: only the inner strategy ever touches what clients send."""

    class Untouchable:
        def __iter__(self):
            raise AssertionError("a reply was read")

    class Inner(FedAvg):
        def aggregate_train(self, server_round, replies):
            assert type(replies) is Untouchable
            return start_arrays(), MetricRecord({"loss": 1.0})

        def aggregate_evaluate(self, server_round, replies):
            assert type(replies) is Untouchable

    class Grid(InProcessGrid):
        def send_and_receive(self, messages, *, timeout=None):
            list(messages)
            return Untouchable()

    stopping = EarlyStopping(Inner(), threshold=0.01, patience=2)
    stopping.start(Grid(pulling_app()), start_arrays(), 10)
    assert stopping.status.reason == "frozen"


def test_dp_noise_and_model_are_those_without_us():
    """Watching the published model is post-processing: the mechanism runs exactly as without the wrapper."""
    name = "DifferentialPrivacyServerSideFixedClipping"
    seen, watched = [], []
    start(STRATEGIES[name](), name, rounds=6, seen=seen)
    start(EarlyStopping(STRATEGIES[name](), threshold=1e-9, patience=3), name, rounds=6, seen=watched)
    for one, other in zip(seen, watched, strict=True):
        for key in one:
            np.testing.assert_array_equal(one[key], other[key])


def test_a_failed_round_does_not_count():
    def broken(kind, r):
        return range(NODES) if kind == "train" and r in (2, 5) else ()

    rows = []

    class Counting(GrowthRate):
        def step(self, state, row):
            rows.append(row["round"])
            return super().step(state, row)

    stopping = EarlyStopping(FedAvg(), rule=Counting(0.05, 3))
    result, _ = start(stopping, broken=broken)
    assert rows[:5] == [1, 3, 4, 6, 7]
    assert list(result.train_metrics_clientapp)[:4] == [1, 3, 4, 6]
    assert stopping.status.stop and stopping.status.round == rows[-1]


def test_some_nodes_failing_is_no_failed_round():
    stopping = EarlyStopping(FedAvg(), threshold=0.05, patience=3)
    result, _ = start(stopping, broken=lambda kind, r: (0, 1))
    assert stopping.status.stop and list(result.train_metrics_clientapp)[:3] == [1, 2, 3]


def test_the_trajectory_is_that_of_the_run_and_replays_to_the_same_stop(tmp_path):
    seen = []
    stopping = EarlyStopping(FedAvg(), threshold=0.05, patience=3, trajectory=tmp_path / "t.jsonl")
    start(stopping, seen=seen)
    record = Trajectory.load(tmp_path / "t.jsonl")
    np.testing.assert_allclose(record.column("distance"), distances(seen), rtol=1e-6)
    assert {"train_loss", "client_loss", "server_loss"} <= set(record.columns)
    assert record.column("server_loss")[0] == pytest.approx(1 / 2)
    assert fedhalt.stop_round(GrowthRate(0.05, 3), record) == stopping.status.round == len(record)


def test_the_recommended_rule_is_one_line_too(tmp_path):
    stopping = EarlyStopping(FedAvg(), rule=fedhalt.ForwardGrowth(0.05, 3), trajectory=tmp_path / "t.jsonl")
    start(stopping)
    record = Trajectory.load(tmp_path / "t.jsonl")
    assert {"distance", "update_norm", "alignment"} <= set(record.columns)
    assert fedhalt.stop_round(fedhalt.ForwardGrowth(0.05, 3), record) == stopping.status.round == len(record) < ROUNDS


def test_a_rule_may_read_the_evaluation_of_its_round():
    stopping = EarlyStopping(FedAvg(), rule=rules.Plateau("server_loss", 0.05, 2, higher_is_better=False))
    start(stopping)
    losses = [1 / (r + 1) for r in range(1, ROUNDS)]
    expected = fedhalt.stop_round(rules.Plateau("val_loss", 0.05, 2), [{"val_loss": loss} for loss in losses])
    assert stopping.status.round == expected and stopping.status.reason == "plateau"


def test_include_exclude_and_start_from_round():
    seen = []
    start(FedAvg(), seen=seen)
    only = [{"layer.bias": model["layer.bias"]} for model in seen]
    stopping = EarlyStopping(FedAvg(), threshold=0.05, patience=3, include="*.bias", start_from_round=9)
    start(stopping)
    assert stopping.status.round == fedhalt.stop_round(GrowthRate(0.05, 3, start_from_round=9), distances(only))
    assert stopping.status.value == pytest.approx(distances(only)[stopping.status.round - 1])
    with pytest.raises(FedhaltError, match=r"include pattern 'bias\*' matches no key; keys: layer\.weight"):
        start(EarlyStopping(FedAvg(), include="bias*"))


def test_what_early_stopping_returns_is_a_strategy_with_a_type_to_check():
    stopping = EarlyStopping(FedAvg())
    assert isinstance(stopping, StoppingStrategy) and isinstance(stopping, flower.Strategy)
    attached = attach(FedAvg())
    assert isinstance(attached.early_stopping, StoppingStrategy)  # type: ignore[attr-defined]
    assert not isinstance(FedAvg(), StoppingStrategy)


def test_a_strategy_can_be_started_again():
    stopping = EarlyStopping(FedAvg(), threshold=0.05, patience=3)
    first = start(stopping)[0]
    stopped = stopping.status
    assert repr(start(stopping)[0]) == repr(first) and stopping.status == stopped


class OwnStart(FedAvg):
    """Somebody's strategy that saves what it evaluates, with a start() that swallows exceptions."""

    def start(self, grid, initial_arrays, num_rounds=3, evaluate_fn=None):
        self.kept = []

        def keep(r, arrays):
            self.kept.append(r)
            return evaluate_fn(r, arrays)

        try:
            return super().start(grid, initial_arrays, num_rounds, evaluate_fn=keep)
        except Exception:
            return None


def test_attach_keeps_the_own_start():
    plain = EarlyStopping(FedAvg(), threshold=0.05, patience=3)
    expected, _ = start(plain)
    strategy = OwnStart()
    assert attach(strategy, threshold=0.05, patience=3) is strategy
    result, grid = start(strategy)
    assert strategy.early_stopping.status == plain.status  # type: ignore[attr-defined]
    assert strategy.kept == list(range(plain.status.round + 1))
    assert repr(result) == repr(expected)
    assert max(r for _, r in grid.sent) == plain.status.round


def test_attach_to_a_run_that_is_never_stopped_returns_what_start_returns():
    strategy = attach(OwnStart(), threshold=1e-9)
    result, _ = start(strategy, rounds=3)
    assert list(result.train_metrics_clientapp) == [1, 2, 3]
    assert not strategy.early_stopping.status.stop  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: EarlyStopping(flower.FedXgbBagging()), "FedXgbBagging sends trees"),
        (lambda: EarlyStopping(flower.FedXgbCyclic()), "FedXgbCyclic sends trees"),
        (lambda: attach(flower.FedXgbBagging()), "FedXgbBagging sends trees"),
        (lambda: EarlyStopping(OwnStart()), r"OwnStart has a start\(\) of its own.*attach"),
        (lambda: EarlyStopping("fedavg"), "a Flower strategy such as FedAvg.*'fedavg'"),
        (lambda: EarlyStopping(FedAvg), "a Flower strategy such as FedAvg"),
        (lambda: attach(None), "a Flower strategy such as FedAvg.*None"),
        (lambda: EarlyStopping(FedAvg(), threshold=-1), "threshold must be .* above 0, not -1"),
        (lambda: EarlyStopping(FedAvg(), patience=0), "patience must be a whole number of at least 1, not 0"),
        (lambda: EarlyStopping(FedAvg(), threshold=0.1, rule=GrowthRate()), "give threshold to the rule itself"),
        (lambda: EarlyStopping(FedAvg(), rule="growth"), "rule must be a rule such as"),
        (lambda: attach(attach(FedAvg())), "this FedAvg stops early already"),
        (lambda: EarlyStopping(attach(FedAvg())), "this FedAvg stops early already"),
        (lambda: EarlyStopping(EarlyStopping(FedAvg())), "stops early already"),
        (lambda: attach(EarlyStopping(FedAvg())), "stops early already"),
        (lambda: EarlyStopping(FedAvg(), state=5), "state must be the path of a folder, not 5"),
    ],
)
def test_mistakes_are_named_where_they_are_made(make, message):
    with pytest.raises(FedhaltError, match=message):
        make()


def test_the_wrapper_must_be_the_outermost():
    inside = flower.DifferentialPrivacyServerSideFixedClipping(EarlyStopping(FedAvg()), 0.1, 1.0, NODES)
    with pytest.raises(FedhaltError, match="EarlyStopping must be the outermost"):
        start(inside)


def test_a_trajectory_that_exists_is_refused_before_anything_is_sent(tmp_path):
    path = tmp_path / "t.jsonl"
    Trajectory.create(path)
    grid = InProcessGrid(pulling_app(), NODES)
    with pytest.raises(FedhaltError, match=r"t\.jsonl exists already"):
        EarlyStopping(FedAvg(), trajectory=path).start(grid, start_arrays(), 3)
    assert grid.sent == []


def test_the_rounds_that_were_planned_are_recorded(tmp_path):
    start(EarlyStopping(FedAvg(), trajectory=tmp_path / "t.jsonl"), rounds=2)
    assert Trajectory.load(tmp_path / "t.jsonl").header["budget"] == 2


def test_the_log_tells_a_stranger_what_happened(caplog):
    stopping = EarlyStopping(FedAvg(), threshold=0.05, patience=3)
    start(stopping)
    assert "Early stopping: GrowthRate(threshold=0.05, patience=3" in caplog.text
    why = "growth below threshold; model diffusing"
    assert f"growth 0.0184: stop ({why})" in caplog.text and "model diffusing (0.32), streak 2" in caplog.text
    assert f"fedhalt: stopped after round {stopping.status.round} ({why}); nothing more" in caplog.text


def test_an_aggregate_of_other_shape_is_named():
    class Other(FedAvg):
        def aggregate_train(self, server_round, replies):
            arrays, metrics = super().aggregate_train(server_round, replies)
            assert arrays is not None
            return ArrayRecord({"layer.bias": arrays["layer.bias"]}), metrics

    with pytest.raises(FedhaltError, match=r"'layer\.weight' of shape \(4, 3\) was there at the start"):
        start(EarlyStopping(Other()), rounds=2)
