"""Our rule: the growth of the way forward."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedhalt import EarlyStopper, FedhaltError, ForwardGrowth, replay, stop_round
from fedhalt.measure.distance import Meter


def rows(path):
    """What a server measures on the way through these points, from zero."""
    meter, made = Meter(np.zeros_like(path[0]), ("distance", "update_norm", "alignment")), []
    for point in path:
        made.append(meter.measure(meter.leaves(point)))
        meter.keep(meter.leaves(point))
    return made


def growths(path):
    return [status.signal for status in replay(ForwardGrowth(), rows(np.asarray(path, float)))]


def test_straight_on_counts_twice_across_once_and_straight_back_not_at_all():
    way = [[3, 0], [5, 0], [5, 4], [5, 4]]
    # f = 2*3, 2*2, 4 + 0 (at right angles to (5, 0)), 0 (stands still)
    assert growths(way) == pytest.approx([1, 4 / 10, 4 / 14, 0])
    assert growths([[2, 0], [1, 0], [2, 0]]) == pytest.approx([1, 0, 2 / 6])


def test_a_step_away_from_the_start_itself_goes_straight_on():
    assert growths([[1, 0], [0, 0], [0, 1]]) == pytest.approx([1, 0, 2 / 4])


@pytest.mark.parametrize("step", [np.eye(1, 50), np.random.default_rng(0).standard_normal((300, 50))])
def test_steady_motion_of_any_kind_is_a_clock(step):
    """A straight drift exactly, a random walk nearly: docs/stopbench.md says so too."""
    path = np.cumsum(np.broadcast_to(step, (300, 50)), axis=0)
    stop = stop_round(ForwardGrowth(0.01, 10), rows(path))
    assert stop == 110 if len(step) == 1 else 95 <= stop <= 150


def test_a_model_that_reaches_its_goal_stops_long_before_that_clock():
    r = np.arange(1, 301)[:, None]
    assert stop_round(ForwardGrowth(0.01, 10), rows((1 - 0.9**r) * np.eye(1, 5))) < 50


def test_a_model_that_turns_back_stops_before_one_that_goes_on():
    out = np.minimum(np.arange(1, 101), 40)[:, None] * np.eye(1, 3)
    back = out - np.maximum(0, np.arange(1, 101) - 40)[:, None] * 0.5 * np.eye(1, 3)
    assert stop_round(ForwardGrowth(0.01, 5), rows(back)) == 45
    on = np.arange(1, 101)[:, None] * np.eye(1, 3)
    assert stop_round(ForwardGrowth(0.01, 5), rows(on)) is None


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.integers(-9, 9), min_size=3, max_size=3), min_size=2, max_size=20), st.integers(-20, 20))
def test_scaling_the_model_changes_nothing(points, power):
    path = np.asarray(points, float)
    assert growths(path * 2.0**power) == pytest.approx(growths(path), rel=1e-9, abs=1e-12)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.floats(-9, 9), min_size=3, max_size=3), min_size=1, max_size=20))
def test_the_share_lies_between_nothing_and_everything(points):
    assert all(0 <= growth <= 1 for growth in growths(points))


def test_a_standstill_is_frozen_and_an_explosion_diverged():
    frozen = next(status for status in replay(ForwardGrowth(0.01, 3), rows(np.zeros((5, 2)))) if status.stop)
    assert (frozen.round, frozen.reason) == (3, "frozen")
    burst = [{"distance": 1.0, "update_norm": 1.0, "alignment": 0.0}, dict.fromkeys(ForwardGrowth.reads, float("inf"))]
    assert next(s for s in replay(ForwardGrowth(), burst) if s.stop)[-4:-2] == (True, "diverged")


def test_without_the_check_a_round_that_is_not_finite_resets_and_is_forgotten():
    rule = ForwardGrowth(0.6, 2, check_finite=False)
    broken = dict.fromkeys(rule.reads, float("nan"))
    way = rows(np.array([[1.0, 0], [2, 0], [3, 0], [4, 0]]))
    assert [s.streak for s in replay(rule, way)] == [0, 1, 2, 3]
    found = list(replay(rule, [*way[:2], broken, *way[2:]]))
    assert [s.streak for s in found] == [0, 1, 0, 1, 2]
    assert [s.signal for s in found[3:]] == [s.signal for s in replay(rule, way)][2:]


def test_only_the_product_may_be_negative():
    with pytest.raises(FedhaltError, match=r"round 1: distance and update_norm cannot be negative, got \(1.0, -2.0\)"):
        list(replay(ForwardGrowth(), [{"distance": 1.0, "update_norm": -2.0, "alignment": -1.0}]))


def test_live_saved_and_loaded_as_replayed(tmp_path):
    path = np.cumsum(np.random.default_rng(1).standard_normal((40, 7)) / np.arange(1, 41)[:, None], axis=0)
    stopper, live = EarlyStopper(start=np.zeros(7), rule=ForwardGrowth(0.05, 3)), []
    for r, point in enumerate(path):
        live.append(stopper.update(point))
        if r == 17:
            stopper.save(tmp_path)
            stopper = EarlyStopper.load(tmp_path)
    again = list(replay(ForwardGrowth(0.05, 3), rows(path)))
    assert [s.stop for s in live] == [s.stop for s in again]
    assert any(s.stop for s in live)
    assert [s.signal for s in live] == pytest.approx([s.signal for s in again])
