"""The average of the last models and their drift, on runs whose answers are known."""

from collections import OrderedDict, namedtuple
from typing import Any

import numpy as np
import pytest

from fedhalt import FedhaltError
from fedhalt.measure import average
from fedhalt.measure.average import make_average
from fedhalt.measure.blocks import Block
from fedhalt.measure.drift import DriftMeter
from fedhalt.measure.rebuild import floating_arrays, rebuild
from fedhalt.rules.signals.drift import WINDOWS, best_window

SIZE = 20_000


def noise(seed=0):
    draw = np.random.default_rng(seed)
    while True:
        yield draw.standard_normal(SIZE)


def line():
    r = 0
    while True:
        r += 1
        yield np.full(7, 3.0) * r


def autoregressive(memory):
    x = np.zeros(SIZE)
    for step in noise():
        x = memory * x + step
        yield x


def first(models, rounds):
    return [model for model, _ in zip(models, range(rounds), strict=False)]


def drifts(models, rounds=80):
    meter = DriftMeter()
    for model in first(models, rounds):
        meter = meter.added({"x": model})
    return [meter.columns[f"drift_{window}"] for window in WINDOWS]


def by_hand(models, window):
    before, now = np.array(models[-2 * window : -window]), np.array(models[-window:])
    variance = (before.var(0, ddof=1).sum() + now.var(0, ddof=1).sum()) / 2
    return window * ((now.mean(0) - before.mean(0)) ** 2).sum() / (2 * variance)


def test_drift_is_one_around_a_fixed_point():
    assert drifts(5 + model for model in noise()) == pytest.approx([1, 1, 1], rel=0.05)


def test_drift_of_a_straight_line():
    assert drifts(line()) == pytest.approx([6 * w**2 / (w + 1) for w in WINDOWS], rel=1e-9)


def test_drift_of_a_random_walk_is_about_two_windows():
    assert drifts(autoregressive(1.0)) == pytest.approx([2 * w for w in WINDOWS], rel=0.2)


@pytest.mark.parametrize("memory, expected", [(0.5, 3), (0.8, 9)])
def test_drift_of_scatter_with_memory(memory, expected):
    assert drifts(autoregressive(memory), 200)[-1] == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("rounds", [40, 60, 80])
def test_blocks_give_what_the_formula_gives(rounds):
    models = first(autoregressive(0.9), rounds)
    assert drifts(models, rounds) == pytest.approx([by_hand(models, window) for window in WINDOWS], rel=1e-9)


def test_drift_is_there_after_two_windows_and_new_after_each():
    meter, seen = DriftMeter(), []
    for model in first(autoregressive(0.9), 60):
        meter = meter.added({"x": model})
        seen.append(dict(meter.columns))
    for window in WINDOWS:
        values = [columns[f"drift_{window}"] for columns in seen]
        assert all(value is None for value in values[: 2 * window - 1]) and None not in values[2 * window - 1 :]
        assert len(set(values[2 * window - 1 :])) == 60 // window - 1


def test_a_model_that_stands_still_has_no_drift_and_one_that_jumps_has_nothing_else():
    assert drifts(iter([np.ones(3)] * 40), 40) == [0, 0, 0]
    assert drifts(iter([np.ones(3)] * 20 + [np.zeros(3)] * 20), 40)[-1] == np.inf


def test_the_estimated_window_follows_from_drift_and_scatter():
    """d^2 = 0.01 and s^2 = 1 per parameter: the least of d^2 (k - 1)^2 / 4 + s^2 / k is near (2 / 0.01)^(1/3)."""
    models = (0.1 * r + model for r, model in enumerate(noise()))
    assert best_window(drifts(models)[-1], 20) == pytest.approx((2 / 0.01) ** (1 / 3), rel=0.05)
    assert best_window(0.9, 20) == np.inf and best_window(6 * 400 / 21, 20) == 1


@pytest.mark.parametrize("setting, covers", [(10, [*range(1, 11), 10, 10, 10]), ("running:10", [*range(1, 11), 6, 7])])
def test_the_mean_of_the_rounds_it_covers(setting, covers):
    made, models = make_average(setting), first(noise(), 60)
    for r, model in enumerate(models, start=1):
        made = made.added({"x": model})
        assert r > len(covers) or made.covers == covers[r - 1]
        assert np.allclose(made.mean()["x"], np.mean(models[r - made.covers : r], 0), atol=1e-12)
        assert r < 10 or 5 <= made.covers <= 10


def test_the_average_of_a_line_lags_by_half_a_window():
    made = make_average(10)
    for model in first(line(), 30):
        made = made.added({"x": model})
    assert made.mean()["x"] == pytest.approx(np.full(7, 3.0) * (30 - (10 - 1) / 2))


@pytest.mark.parametrize("make", [lambda: make_average(4), lambda: make_average("running:5"), DriftMeter])
def test_saved_and_loaded_at_any_round_it_goes_on_to_the_same_bits(make):
    models, whole = [np.float32(model[:50]) for model in first(noise(), 45)], make()
    for model in models:
        whole = whole.added({"x": model})
    for cut in range(46):
        made = make()
        for model in models[:cut]:
            made = made.added({"x": model})
        facts, parts = made.saved()
        made = make().loaded(facts, parts.__getitem__)
        for model in models[cut:]:
            made = made.added({"x": model})
        assert made.saved()[0] == whole.saved()[0]
        for name, arrays in whole.saved()[1].items():
            assert arrays["x"].tobytes() == made.saved()[1][name]["x"].tobytes()


def test_a_part_saved_once_never_changes():
    made: list[Any] = [make_average(4), make_average("running:5"), DriftMeter()]
    seen = {}
    for model in first(noise(), 50):
        made = [one.added({"x": model}) for one in made]
        for index, one in enumerate(made):
            for part, arrays in one.saved()[1].items():
                assert seen.setdefault((index, part), arrays["x"].tobytes()) == arrays["x"].tobytes()


def test_beyond_the_memory_limit_models_are_in_files(monkeypatch):
    models = [model.astype(np.float32) for model in first(noise(), 12)]
    monkeypatch.setattr(average, "RAM_LIMIT", 1000)
    in_files: Any = make_average(5)
    for model in models:
        in_files = in_files.added({"x": model, "b": model[:2]})
    assert isinstance(in_files.models[0]["x"], np.memmap) and not isinstance(in_files.models[0]["b"], np.memmap)
    assert in_files.mean()["x"].tobytes() == np.mean(np.array(models[-5:], np.float64), 0).astype("f4").tobytes()


def test_half_precision_is_added_up_in_more(monkeypatch):
    torch = pytest.importorskip("torch")
    models = [torch.full((3,), 1.0 + r / 128, dtype=torch.bfloat16) for r in range(10)]
    for setting in (10, "running:10"):
        made = make_average(setting)
        for model in models:
            made = made.added(floating_arrays({"w": model}))
        assert made.mean()["w"].dtype == np.float32
        assert made.mean()["w"] == pytest.approx(np.full(3, 1 + 4.5 / 128), abs=1e-6)
        shipped = rebuild({"w": models[-1]}, made.mean())["w"]
        assert shipped.dtype == torch.bfloat16 and shipped.tolist() == [1.03125] * 3  # the nearest there is


def test_large_and_tiny_numbers_neither_overflow_nor_vanish():
    for size in (1e25, 1e-25):
        block = Block()
        for sign in (1, -1, 1, -1):
            block = block.added({"x": np.full(3, sign * size, np.float32)})
        assert block.scatter == pytest.approx(12 * size**2, rel=1e-5)


@pytest.mark.parametrize(
    "wrong",
    [
        0,
        -1,
        2.5,
        True,
        "ten",
        "running",
        "running:1",
        "running:x",
        "running:",
        "auto",
        "9" * 5000,
        "running:" + "9" * 5000,
    ],
)
def test_a_wrong_average_is_named(wrong):
    with pytest.raises(FedhaltError, match=r"average must be .*not"):
        make_average(wrong)


Pair = namedtuple("Pair", "w step")


@pytest.mark.parametrize("like", [
    np.arange(6.0), [np.arange(6.0), np.arange(3)], {"a": {"b": np.float32([1, 2]), "n": 7}}, Pair(np.ones(2), 3),
    OrderedDict(w=np.ones(2, np.float16)), (np.ones(2), [np.ones(1)]), {"s": 1.5, "x": np.float64(2)},
], ids=str)  # fmt: skip
def test_the_structure_comes_back(like):
    doubled = {name: 2 * np.asarray(leaf) for name, leaf in floating_arrays(like).items()}
    made = rebuild(like, doubled)
    assert type(made) is type(like)
    again = floating_arrays(made)
    assert again.keys() == doubled.keys()
    for name, leaf in floating_arrays(like).items():
        assert type(again[name]) is type(leaf) or isinstance(leaf, np.floating)
        assert np.array_equal(again[name], doubled[name]) and np.asarray(again[name]).dtype == np.asarray(leaf).dtype


def test_a_module_comes_back_with_its_buffers_and_its_shared_weights():
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 3))
    net[2].weight = net[0].weight
    net[1].num_batches_tracked.fill_(5)
    made = rebuild(net, {name: 2 * leaf.detach().numpy() for name, leaf in floating_arrays(net).items()})
    assert made is not net and made[2].weight is made[0].weight and made[1].num_batches_tracked == 5
    for name, tensor in net.state_dict().items():
        factor = 2 if tensor.is_floating_point() else 1
        assert torch.equal(made.state_dict()[name], factor * tensor)


def test_jax_and_flower_come_back():
    jax = pytest.importorskip("jax")
    made = rebuild({"w": jax.numpy.ones(3, "bfloat16")}, {"w": np.full(3, 2, np.float32)})
    assert isinstance(made["w"], jax.Array) and made["w"].dtype == "bfloat16" and made["w"].tolist() == [2, 2, 2]
    app = pytest.importorskip("flwr.app")
    record = app.ArrayRecord({"w": app.Array(np.ones(3, np.float32)), "n": app.Array(np.int64([4]))})
    made = rebuild(record, {"w": np.full(3, 2.0)})
    assert type(made) is app.ArrayRecord and made["w"].numpy().dtype == np.float32
    assert made["w"].numpy().tolist() == [2, 2, 2] and made["n"].numpy().tolist() == [4]
    common = pytest.importorskip("flwr.common")
    old = common.ndarrays_to_parameters([np.ones(2, np.float32), np.int64([3])])
    arrays = common.parameters_to_ndarrays(rebuild(old, {"0": np.full(2, 2.0)}))
    assert arrays[0].tolist() == [2, 2] and arrays[0].dtype == np.float32 and arrays[1].tolist() == [3]
