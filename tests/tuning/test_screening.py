"""The screening verdict: numbers that can be redone by hand, and what no amount of scaling may change."""

import itertools
import json
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import fedhalt
from fedhalt import FedhaltError, GrowthRate, TwoStages, Wandering, replay, rules, stop_round

np = pytest.importorskip("numpy")


def rows(points):
    """The record of a model that visits these points, the first being theta_0."""
    points = [np.atleast_1d(np.asarray(point, dtype=float)) for point in points]
    return [
        {"distance": float(np.linalg.norm(now - points[0])), "update_norm": float(np.linalg.norm(now - before))}
        for before, now in itertools.pairwise(points)
    ]


def shares(points):
    return [status.signal for status in replay(Wandering(), rows(points))]


def test_by_hand():
    assert shares([0, 1, 2, 3, 4]) == pytest.approx([1, 2 / 2**0.5, 3 / 3**0.5, 4 / 4**0.5])  # straight: sqrt(r)
    assert shares([(0, 0, 0), (1, 0, 0), (1, 1, 0), (1, 1, 1)]) == pytest.approx([1, 1, 1])  # right angles: 1
    assert shares([0, 1, 0, 1, 0]) == pytest.approx([1, 0, 1 / 3**0.5, 0])  # there and back again


@pytest.mark.parametrize("rule, points, stop, reason", [
    (Wandering(0.5, 2), [0, *[1, 0.1] * 9], 5, "wandering"),  # w: 1, 0.07, 0.62 (resets), 0.05, 0.49
    (Wandering(0.5, 3), range(30), None, ""),
    (Wandering(0.5, 3), [0.0] * 9, 3, "frozen"),
    (Wandering(0.5, 3), [0, 1, math.nan, 1, 1], 2, "diverged"),
    (Wandering(0.5, 1), [0, 1, 1, 1, 1], None, ""),  # it jumped and stays: the convergence rule's case
])  # fmt: skip
def test_table(rule, points, stop, reason):
    found = next((status for status in replay(rule, rows(list(points))) if status.stop), None)
    assert (found.round if found else None, found.reason if found else "") == (stop, reason)


def test_squares_that_overflow_have_diverged():
    record = [{"distance": 1e200, "update_norm": 1e200}]
    assert [status.reason for status in replay(Wandering(), record)] == ["diverged"]


def test_it_separates_what_the_papers_rule_does_not():
    draw = np.random.default_rng(0)
    learns = [np.sqrt(r) * np.ones(50) + 0.2 * draw.standard_normal(50) for r in range(200)]
    thrown = [np.zeros(50), *(10 * draw.standard_normal((199, 50)))]
    assert stop_round(Wandering(), rows(learns)) is None and stop_round(Wandering(), rows(thrown)) < 20
    assert stop_round(GrowthRate(0.1, 10), rows(learns)) < 30  # a good run fires: growth falls like 1/r


paths = st.lists(st.lists(st.floats(-5, 5), min_size=2, max_size=2), min_size=2, max_size=30)


@given(paths, st.floats(1e-3, 1e3), st.integers(0, 40))
def test_scale_does_not_matter_and_a_resumed_rule_goes_on(points, scale, cut):
    record = rows(points)
    assume(all(row["update_norm"] > 1e-6 for row in record))
    rule = Wandering(0.7, 2)
    plain = [status.signal for status in replay(rule, record)]
    scaled = [{name: value * scale for name, value in row.items()} for row in record]
    assert [status.signal for status in replay(rule, scaled)] == pytest.approx(plain, rel=1e-6)
    assert all(0 <= share <= math.sqrt(r) + 1e-6 for r, share in enumerate(plain, start=1))
    state = rule.begin()
    for row in record[:cut]:
        state, _ = rule.step(state, row)
    state = json.loads(json.dumps(state))
    for row, expected in zip(record[cut:], list(replay(rule, record))[cut:], strict=True):
        before = json.dumps(state)
        after, status = rule.step(state, row)
        assert status[:6] == expected[:6] and json.dumps(state) == before  # pure
        state = after


def test_it_is_a_rule_like_the_others():
    assert rules.create("wandering", threshold=0.4, patience=3) == Wandering(0.4, 3)
    start = np.zeros(3)
    stopper = fedhalt.EarlyStopper(start, rule=Wandering(0.9, 3))
    assert [stopper.update(start + (-1) ** r).stop for r in range(1, 9)].index(True) + 1 == 4
    with pytest.raises(FedhaltError, match="update_norm"):
        list(replay(Wandering(), [{"distance": 1.0}]))
    with pytest.raises(FedhaltError, match="negative"):
        list(replay(Wandering(), [{"distance": -1.0, "update_norm": 1.0}]))


def verdict(rule, points):
    return next(((s.round, s.reason) for s in replay(rule, rows(points)) if s.stop), None)


def test_two_stages_tell_hopeless_from_done():
    rule = TwoStages(Wandering(0.5, 2), GrowthRate(0.1, 3))
    assert verdict(rule, [0, *[1, 0.1] * 9]) == (5, "screened")
    assert verdict(rule, [0, 1, 2, 2.1, 2.2, 2.21]) == (5, "saturated")
    assert verdict(rule, [0, 1, math.inf]) == (2, "diverged")
    assert verdict(rule, [0.0] * 9) == (2, "screened")
    both = TwoStages(Wandering(0.5, 3), GrowthRate(0.1, 2))
    assert verdict(both, [0.0] * 9) == (3, "screened")  # both fire in this round
    assert rules.from_json(rules.to_json(rule)) == rule and rule.reads == ("distance", "update_norm")
    with pytest.raises(TypeError):
        TwoStages(Wandering())  # type: ignore[call-arg]
