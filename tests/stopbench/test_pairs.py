"""The scores of StopBench 2 on constructed runs whose answers are known."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from helpers.drifting import ROUNDS, made

from fedhalt import AverageGrowth, FedhaltError, stop_round
from fedhalt.stopbench import Run, pairs
from fedhalt.stopbench.bench import DECIDED, TUNED
from fedhalt.stopbench.candidates2 import (
    CohortSignal,
    Diversity,
    ForwardFlat,
    ForwardLoss,
    ForwardSettled,
    Stationary,
)
from fedhalt.stopbench.clusters import draws, rate_words, task_of, weights_of
from fedhalt.stopbench.pairs import ENTRIES2
from fedhalt.stopbench.score import Judged, best_patience


def test_both_models_are_compared_with_the_best_of_either():
    found = pairs.judged(ENTRIES2["budget"], [made(last=0.5, average=0.8), made(last=0.7, average=0.6)])
    assert found["last"].regret[..., 0] == pytest.approx(30) and found["average"].regret[..., 0] == pytest.approx(0)
    assert found["last"].regret[..., 1] == pytest.approx(0) and found["average"].regret[..., 1] == pytest.approx(10)
    assert np.array_equal(found["last"].stop, found["average"].stop)


def test_regret_is_that_of_the_smoothed_accuracy_at_the_stop():
    rising = np.arange(1, ROUNDS + 1) / 200
    lagging = np.concatenate([np.zeros(10), rising[:-10]])
    entry = ENTRIES2["budget"]._replace(thresholds=[50])
    found = pairs.judged(entry, [made(last=rising, average=lagging)])
    best = 100 * rising[-6:].mean()
    assert found["last"].stop.item() == 50 and found["last"].cost.item() == 0.5
    assert found["last"].regret.item() == pytest.approx(best - 25)
    assert found["average"].regret.item() == pytest.approx(best - 20)
    end = pairs.unstopped([made(last=rising, average=lagging)])
    assert end["last"].item() == pytest.approx(0) and end["average"].item() == pytest.approx(5)


def test_a_diverged_run_is_charged_as_part_of_the_rounds_it_was_meant_to_have():
    rows = made(rounds=30).rows
    rows[-1] = {**rows[-1], "distance": math.nan}
    broken = Run("broken", made(lr=10.0).spec, rows, np.full(30, 0.1), np.full(30, 0.1))
    runs = [broken, made("whole", lr=10.0), made("slow", lr=1e-4, rounds=200)]
    found = pairs.judged(ENTRIES2["budget"]._replace(thresholds=[80]), runs)["last"]
    assert found.cost.ravel().tolist() == [0.3, 0.8, 0.4]


def test_the_average_has_a_validation_curve_of_its_own():
    run = made()
    own, other = ("val-loss-average", 1e-4), ("val-loss", 1e-4)
    stops = [
        pairs.judged(ENTRIES2[name]._replace(thresholds=[tau], patiences=[5]), [run])["average"].stop.item()
        for name, tau in (own, other)
    ]
    assert stops[0] == 45, "its loss stops falling at round 40"
    assert stops[1] == 0, "the last model's goes on falling: by 1/9900 in round 100, with fewer than 5 such rounds"


def test_a_run_without_an_average_is_refused():
    with pytest.raises(FedhaltError, match="mine: blood without an average"):
        pairs.judged(ENTRIES2["budget"], [Run("mine", {"data": "blood"}, made().rows, made().accuracy)])


def test_tasks_count_equally_then_models_then_runs():
    runs = [
        made(data="blood"), made(data="derma", model="cnn"), made(data="derma", model="probe:x"),
        made(data="derma", model="probe:x", seed=1), made(data="derma", skew="natural"),
    ]  # fmt: skip
    assert [task_of(run) for run in runs][-1] == "derma by site"
    assert weights_of(runs) == pytest.approx([1 / 3, 1 / 6, 1 / 12, 1 / 12, 1 / 3])
    found = draws(runs, 50)
    assert found.sum(axis=1) == pytest.approx(1) and found[0] == pytest.approx(weights_of(runs))
    assert found[:, 0] == pytest.approx(1 / 3), "a task with one cluster always counts the same"


def test_runs_of_a_cluster_are_drawn_together():
    """Ten configurations with five seeds each that agree: as uncertain as ten runs, not as fifty."""
    values = np.repeat(np.arange(10.0), 5)
    runs = [made(method=f"m{n // 5}", seed=n % 5) for n in range(50)]
    together = draws(runs, 4000)
    assert np.allclose(together.reshape(-1, 10, 5), together.reshape(-1, 10, 5)[:, :, :1])
    spread = (together[1:] @ values).std()
    apart = (draws([made(method=f"m{n}") for n in range(50)], 4000)[1:] @ values).std()
    expected = np.arange(10.0).std() / math.sqrt(10)
    assert spread == pytest.approx(expected, rel=0.1) and apart == pytest.approx(expected / math.sqrt(5), rel=0.1)


def test_scores_with_known_answers():
    runs = [made("tune"), made("decide", data="derma"), made("digits", data="digits", last=0.4, average=0.7)]
    found = pairs.measured(runs, ["forward"], tune="blood")
    assert [*found.parts] == [DECIDED, TUNED]
    rows = {(row["rule"], row["ship"]): row for row in pairs.scores(found) if row["part"] == DECIDED}
    assert set(rows) == {(rule, ship) for rule in ("budget", "growth", "forward") for ship in ("last", "average")}
    for rule in ("growth", "forward"):
        assert rows[rule, "last"]["regret"] == [pytest.approx((30, 30, 30))] * 5
        assert rows[rule, "average"]["against_paper"] == [pytest.approx((-30, -30, -30))] * 5
        assert rows[rule, "average"]["against_budget"] == [pytest.approx((-30, -30, -30))] * 5
        assert rows[rule, "average"]["against_same_budget"] == [pytest.approx((0, 0, 0))] * 5
    rows = pairs.scores(found)
    best = pairs.recommended(rows)
    assert best.ship == "average"
    assert pairs.goals(rows, best) == {
        "against_paper": True,
        "against_budget": True,
        "against_same_budget": False,  # a budget that ships the average loses nothing either
    }
    assert not any(pairs.goals(rows, pairs.Pair("forward", "last")).values())


def test_a_patience_is_chosen_where_all_are_expensive():
    """Of two patiences that both use most rounds, the one that gives up less; there is no level that both reach."""
    cost = np.array([[[0.75], [0.8]], [[0.9], [0.9]]])
    regret = np.array([[[9.0], [2.0]], [[9.0], [1.0]]])
    judged = Judged(np.ones(cost.shape, dtype=np.int64), cost, regret)
    assert best_patience(judged, np.array([0.0]), np.ones((1, 1))) == 1


def test_every_rule_can_be_read_of_these_runs():
    runs = [made("tune"), made("decide", data="derma")]
    assert pairs.readable(runs) == list(ENTRIES2)
    found = pairs.measured(runs, pairs.readable(runs), tune="blood")
    marks = {row["rule"]: row["needs"] for row in pairs.scores(found)}
    assert marks["forward-loss"] == "clients" and marks["val-loss-average"] == "data" and marks["forward-drift"] == ""
    with pytest.raises(FedhaltError, match=r"'path' is not among blood, derma; choose one with --tune"):
        pairs.measured(runs, [], tune="path")


def test_the_candidates_on_a_straight_drift():
    rows = made().rows
    # forward is 1/r on a line: below 0.1 from round 11 on
    assert stop_round(ForwardSettled(0.1, 1), rows) == 41, "drift_20 is below 20 from round 41 on"
    assert stop_round(ForwardLoss(0.1, 1), rows) == 21, "twice as large, for a loss of 4"
    assert stop_round(ForwardFlat(0.1, 1), rows) == 20, "a constant loss: flat as soon as there are twenty"
    falling = [{**row, "train_loss_before": 1 / row["round"]} for row in rows]
    assert stop_round(ForwardFlat(0.1, 1), falling) is None
    assert stop_round(AverageGrowth(0.1, 1), rows) == 16, "1 / 10.5 is the first growth below 0.1"
    assert stop_round(Diversity(0.6, 3), rows) == 3 and stop_round(Diversity(0.5, 1), rows) is None
    # ten clients with a mean square of 2 and a mean of square 1: noise 1/9, signal 8/9
    assert stop_round(CohortSignal(8.01, 1), rows) == 1 and stop_round(CohortSignal(7.99, 1), rows) is None
    assert stop_round(Stationary(0.99, 1), rows) is None, "every step goes on in the direction of the last"


def test_steps_that_turn_back_are_stationary():
    """Straight on until round 10, then back and forth: the mean of (1 + c) / 2 falls from 1 by a tenth of itself."""
    rows = [{**row, "turn": row["turn"] and (1.0 if row["round"] <= 10 else -1.0)} for row in made().rows]
    weight = sum(0.9**k for k in range(9))
    assert stop_round(Stationary(0.5, 1), rows) == 10 + next(
        n for n in range(1, 90) if 0.9**n * weight < 0.5 * (0.9**n * weight + sum(0.9**k for k in range(n)))
    )
    longer = [{**row, "update_norm": 3.0, "turn": row["turn"] and 9 * row["turn"]} for row in rows]
    assert stop_round(Stationary(0.5, 1), longer) == stop_round(Stationary(0.5, 1), rows), "the scale does not count"


def test_a_single_client_has_no_noise_to_compare_with():
    assert stop_round(CohortSignal(1e9, 1), [{**row, "cohort_size": 1} for row in made().rows]) is None


def test_a_diverged_run_ends_every_candidate():
    rows = [*made(rounds=5).rows]
    rows[-1] = {**rows[-1], "distance": math.nan, "update_norm": math.nan}
    for rule in (ForwardSettled(1e-9, 1), ForwardLoss(1e-9, 1), ForwardFlat(1e-9, 1), Diversity(1e-9, 1)):
        assert stop_round(rule, rows) == 5


def test_what_a_rate_was_meant_to_be():
    runs = [made(lr=rate) for rate in (1e-4, 0.05, 100.0)]
    assert rate_words(runs).tolist() == ["too small", "good", "too large"]
    tuned = [made(lr=rate, model="tf_efficientnet_lite0") for rate in (0.003, 0.03)]
    assert rate_words(tuned).tolist() == ["good", "too large"]


def test_pairs_need_no_torch():
    import subprocess
    import sys

    code = "import sys, fedhalt.stopbench.pairs; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def bumpy(name, accuracy, **spec):
    """A run that is thrown about: drift_10 near 2."""
    run = made(name, last=accuracy, average=accuracy, **spec)
    return Run(
        name, run.spec, [{**row, "drift_10": row["drift_10"] and 2.0} for row in run.rows], run.accuracy, run.average
    )


def test_screening_counts_alarms_misses_and_rates_too_small():
    from fedhalt.stopbench.screening2 import screened

    runs = []
    for task, method in itertools.product(("blood", "derma"), ("fedavg", "feddyn", "fedsam")):
        about = {"data": task, "method": method}
        runs += [made("good", 0.9, 0.9, **about), bumpy("thrown", 0.2, **about, lr=10.0)]
        runs += [made("slow", 0.2, 0.2, **about, lr=1e-4)]
        if task == "derma":
            runs += [made("missed", 0.15, 0.15, **about, lr=10.0)]
    rows = {(row["screen"], row["part"]): row for row in screened(pairs.measured(runs, [], tune="blood"))}
    drift = rows["drift-10", DECIDED]
    assert (drift["good"], drift["hopeless"]) == (3, 9)
    assert drift["false_alarms"][0] == 0 and drift["misses"][0] == pytest.approx(0.5)
    assert drift["too_small_flagged"][0] == 0
    assert rows["drift-10", TUNED]["misses"][0] == 0
    paper = rows["growth, as published", DECIDED]
    assert paper["false_alarms"][0] == 1 and paper["misses"][0] == 0, "1 / r is below 0.1 long before round 50"


def test_one_command_scores_whatever_is_packed(fedhalt, tmp_path):
    pytest.importorskip("matplotlib")
    from fedhalt.stopbench.runs import pack

    runs = [made("a"), made("b", data="derma"), made("c", data="derma", lr=10.0)]
    pack(runs, tmp_path / "packed")
    rules = "forward,forward-drift,val-loss-average"
    code, out, errors = fedhalt(
        "stopbench", "--runs", tmp_path / "packed", "--results", tmp_path, "--rule", rules, "--by", "lr"
    )
    assert code == 0, errors
    assert "decided on: 2 runs" in out and "tuned on: 1 runs" in out and "forward-drift" in out
    assert "screening by round 50" in out and "ships average" in out
    assert (
        "by lr, tuned and deciding runs: regret in points" in out
        and "than the paper's rule with its last model: 30.0 (30.0 to 30.0)" in out
    )
    assert {path.name for path in (tmp_path / "stopbench2").iterdir()} == {
        "table.md", "scores.csv", "screening.csv", "curves.png"
    }  # fmt: skip
    code, out, errors = fedhalt("stopbench", "--set", 1, "--rule", "forward-drift")
    assert code != 0 and "rule of StopBench 1" in errors
