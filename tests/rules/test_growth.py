"""The paper's rule against a literal transcription of its equations, and by hand."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedhalt
from fedhalt import GrowthAuthors, GrowthRate
from fedhalt.rules import Stepper


def transcription(delta, tau, rho):
    """Equations (3) to (5) of the paper; delta[r - 1] is the distance after round r."""
    kappa = 0
    for r in range(2, len(delta) + 1):
        before, now = delta[r - 2], delta[r - 1]
        g = abs(now - before) / before if before > 0 else (0.0 if now == 0 else math.inf)
        kappa = 1 * (kappa + 1) if g < tau else 0
        if kappa >= rho:
            return r
    return None


distances = st.lists(
    st.one_of(st.floats(0, 1e6), st.sampled_from([0.0, 1.0, 1.01, 1.0201]), st.floats(0.99, 1.01)), max_size=60
)


@given(distances, st.floats(1e-6, 2), st.integers(1, 12))
def test_stops_where_the_equations_say(delta, tau, rho):
    assert fedhalt.stop_round(GrowthRate(tau, rho), delta) == transcription(delta, tau, rho)


@given(distances, st.integers(1, 5), st.data())
def test_interrupted_anywhere_gives_the_same_statuses(delta, rho, data):
    rule = GrowthRate(0.05, rho)
    cut = data.draw(st.integers(0, len(delta)))
    stepper, statuses = Stepper([rule]), []
    for index, value in enumerate(delta):
        if index == cut:
            stepper.state = json.loads(json.dumps(stepper.state))
        stepper.step({"distance": value})
        statuses += stepper.statuses
    assert statuses == list(fedhalt.replay(rule, delta))


@given(distances, st.floats(1e-3, 1))
def test_step_is_pure(delta, tau):
    rule = GrowthRate(tau, 3)
    state = rule.begin()
    for value in delta:
        row, before = {"distance": value}, json.dumps(state)
        first = rule.step(state, row)
        assert rule.step(state, row) == first
        assert json.dumps(state) == before and row == {"distance": value}
        state = first[0]


NAN, INF = math.nan, math.inf
TABLE = [
    # threshold, patience, distances, stop round, reason
    (0.1, 2, [1, 2, 3, 3.1, 3.2], 5, "saturated"),
    (0.1, 2, [1, 2, 3, 3.1, 4, 4.1, 4.2], 7, "saturated"),  # round 5 resets the streak
    (0.1, 1, [10, 9.5], 2, "saturated"),  # shrinking by less than the threshold counts
    (0.1, 1, [10, 8, 7.9], 3, "saturated"),  # shrinking by more does not
    (0.5, 1, [1, 1.5], None, ""),  # strictly below: a growth of exactly the threshold does not count
    (0.5, 1, [1, 1.5, 1.5], 3, "frozen"),
    (0.1, 3, [0, 0, 0, 0], 4, "frozen"),  # never moved at all
    (0.1, 2, [0, 0, 1, 1.01, 1.02], 5, "saturated"),  # 0 after 0 counts, 1 after 0 is infinite growth
    (0.1, 2, [5, 5, 5.01], 3, "saturated"),  # not frozen: the second round of the streak moved
    (0.1, 2, [1, 2, NAN, 4], 3, "diverged"),
    (0.1, 2, [INF], 1, "diverged"),
    (0.1, 1, [1], None, ""),  # no growth at round 1
    (0.1, 1, [], None, ""),
]


@pytest.mark.parametrize("threshold, patience, values, stop, reason", TABLE)
def test_by_hand(threshold, patience, values, stop, reason):
    statuses = list(fedhalt.replay(GrowthRate(threshold, patience), values))
    fired = [status for status in statuses if status.stop]
    assert (fired[0].round if fired else None, fired[0].reason if fired else "") == (stop, reason)
    assert [status.round for status in statuses] == list(range(1, len(values) + 1))


def test_round_one_has_no_growth():
    first, second = fedhalt.replay(GrowthRate(0.1, 1), [2.0, 3.0])
    assert first == (1, 2.0, None, 0, False, "", None, "")
    assert second[:6] == (2, 3.0, 0.5, 0, False, "")


def test_start_from_round_delays_the_counting():
    assert fedhalt.stop_round(GrowthRate(0.1, 3), [1.0] * 20) == 4
    assert fedhalt.stop_round(GrowthRate(0.1, 3, start_from_round=10), [1.0] * 20) == 12


def test_without_check_finite_the_streak_is_reset():
    values = [1, 1, NAN, 1, 1, 1, 1]
    assert fedhalt.stop_round(GrowthRate(0.1, 3), values) == 3
    assert fedhalt.stop_round(GrowthRate(0.1, 3, check_finite=False), values) == 7
    assert fedhalt.stop_round(GrowthRate(0.1, 1, check_finite=False), [INF, INF, INF]) is None


@pytest.mark.parametrize(
    "line, tau, expected",  # the clock: AC's index t of methods.md section 6, r* = t + 1
    [(1.0, 0.1, 20), (1.0, 0.05, 30), (1.0, 0.01, 110), (0.8, 0.1, 17), (0.7, 0.05, 23), (0.8, 0.01, 89)],
)
def test_on_a_power_law_it_is_a_clock(line, tau, expected):
    assert fedhalt.stop_round(GrowthRate(tau, 10), [r**line for r in range(1, 400)]) == expected + 1


AUTHORS = [
    (0.1, 1, [1, 1.01, 1.02], 3),  # counting begins at round 3
    (0.1, 1, [10, 20, 5], 3),  # signed: any shrinking counts
    (0.1, 2, [1, 2, 2, 2, 2, 2], None),  # a growth of exactly zero never counts
    (0.1, 2, [1, 2, 2.1, 2.1, 2.2], 5),  # ... nor resets
    (0.1, 1, [0, 1e-7, 1e-7, 1e-7], None),  # below 1e-6 growth is 1
    (0.1, 2, [1, 2, 2.1, NAN, 2.2, 2.3], None),  # NaN resets and is never noticed
]


@pytest.mark.parametrize("threshold, patience, values, stop", AUTHORS)
def test_the_authors_variant(threshold, patience, values, stop):
    assert fedhalt.stop_round(GrowthAuthors(threshold, patience), values) == stop


def authors_transcription(delta, tau, rho):
    """The table of section 6 of the specification, in the authors' index t = r - 1."""
    counter = 0
    for t in range(2, len(delta)):
        g = 1.0 if delta[t - 1] <= 1e-6 else (delta[t] - delta[t - 1]) / delta[t - 1]
        if g == 0:
            continue
        counter = counter + 1 if g < tau else 0
        if counter >= rho:
            return t + 1
    return None


@given(distances, st.floats(1e-6, 2), st.integers(1, 12))
def test_the_authors_variant_everywhere(delta, tau, rho):
    assert fedhalt.stop_round(GrowthAuthors(tau, rho), delta) == authors_transcription(delta, tau, rho)
