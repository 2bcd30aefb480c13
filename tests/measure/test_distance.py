"""The distance is right: against float64, in every precision, at the edges of float32, in little memory."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fedhalt
from fedhalt import EarlyStopper
from fedhalt.measure.arrays import CHUNK
from fedhalt.measure.distance import Meter


@given(
    arrays(np.float32, st.integers(1, 300), elements=st.floats(-(2.0**100), 2.0**100, width=32)),
    st.integers(0, 2**32 - 1),
)
def test_equals_float64(start, seed):
    now = np.random.default_rng(seed).permutation(start)
    exact = np.sqrt(np.sum((now.astype(float) - start.astype(float)) ** 2))
    assert EarlyStopper(start=start).update(now).value == pytest.approx(exact, rel=1e-6, abs=0)


@pytest.mark.parametrize("scale", [1e-30, 1e-22, 1e-12, 1.0, 1e12, 1e25, 3e38])
def test_squares_that_float32_cannot_hold(scale):
    now = np.full(1000, scale, np.float32)
    assert EarlyStopper(start=-now).update(now).value == pytest.approx(2 * float(now[0]) * 1000**0.5, rel=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("size", [1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 3])
def test_any_size(size, dtype):
    rng = np.random.default_rng(size)
    start, now = (rng.standard_normal(size).astype(dtype) for _ in range(2))
    exact = np.linalg.norm(now.astype(float) - start.astype(float))
    assert EarlyStopper(start=start).update(now).value == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("difference", [0.1, 0.3, 1.0442774, 1.3723786, 1.975002])
def test_equal_differences_are_the_worst_case(difference):
    now = np.full(CHUNK, difference, np.float32)
    exact = float(now[0]) * CHUNK**0.5
    assert EarlyStopper(start=np.zeros_like(now)).update(now).value == pytest.approx(exact, rel=5e-5)


def test_ten_million_parameters_to_one_in_a_million():
    rng = np.random.default_rng(0)
    start = rng.standard_normal(10_000_000, dtype=np.float32)
    now = start + np.float32(0.01) * rng.standard_normal(10_000_000, dtype=np.float32)
    exact = np.sqrt(sum(np.sum((now[i::8].astype(float) - start[i::8]) ** 2) for i in range(8)))
    assert EarlyStopper(start=start).update(now).value == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_broken_parameter_is_a_diverged_run(bad):
    status = EarlyStopper(start=np.zeros(5)).update(np.array([0, 0, bad, 0, 0]))
    assert (status.stop, status.reason) == (True, "diverged")


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
def test_at_most_two_megabytes_beyond_the_start(dtype):
    torch = pytest.importorskip("torch")
    params = torch.zeros(8_000_000, dtype=getattr(torch, dtype))
    tracemalloc.start()
    try:
        stopper = EarlyStopper(start=params)
        kept = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        stopper.update(params)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert kept < params.nbytes + 2e6
    assert peak - kept < 2e6


def test_movement_columns():
    start, one, two = np.array([0.0, 0.0]), np.array([3.0, 4.0]), np.array([3.0, 10.0])
    meter = Meter(start, ("distance", "update_norm", "parameter_norm", "alignment"))
    one, two = meter.leaves(one), meter.leaves(two)
    assert meter.measure(one) == {"distance": 5.0, "update_norm": 5.0, "parameter_norm": 5.0, "alignment": 0.0}
    meter.keep(one)
    assert meter.measure(two)["update_norm"] == 6.0
    assert meter.measure(two)["alignment"] == 24.0  # <(0, 6), (3, 4)>


@pytest.mark.parametrize("rule, keeps", [
    (fedhalt.GrowthRate(), False), (fedhalt.RelativeUpdate(), True), (fedhalt.WeightDiff(), True),
    (fedhalt.Budget(9), False),
])  # fmt: skip
def test_the_last_parameters_are_kept_only_for_rules_that_read_them(rule, keeps):
    assert (EarlyStopper(start=np.zeros(3), rule=rule)._meter.previous is not None) == keeps


def test_shards_add_up():
    rng = np.random.default_rng(0)
    start, now = rng.standard_normal((2, 12))
    parts = [fedhalt.squared_distance(now[i::3], start[i::3]) for i in range(3)]
    whole, sharded = EarlyStopper(start=start).update(now), EarlyStopper().observe(sum(parts) ** 0.5)
    assert sharded.value == pytest.approx(whole.value, rel=1e-12)
