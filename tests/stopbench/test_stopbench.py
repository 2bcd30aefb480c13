"""StopBench: scores on constructed runs whose right answer is known, the packed copy, and the command."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedhalt import FedhaltError, Trajectory, stop_round
from fedhalt.stopbench import bench, screening
from fedhalt.stopbench.controls import controls
from fedhalt.stopbench.entries import ENTRIES
from fedhalt.stopbench.runs import Run, load, of_trajectory, pack, unpack
from fedhalt.stopbench.score import (  # fmt: skip
    LEVELS,
    Judged,
    at_costs,
    best_patience,
    draws,
    interval,
    judged,
    smoothed,
    stops,
    unstopped,
)


def run(accuracy, distance=None, task="blood", name="run", **spec):
    """A run with these accuracies; its distance is a straight line unless given."""
    distance = range(1, len(accuracy) + 1) if distance is None else distance
    rows = [{"round": r, "distance": float(d)} for r, d in enumerate(distance, start=1)]
    return Run(name, {"data": task, **spec}, rows, np.asarray(accuracy, float))


def entry(name, thresholds, patiences):
    return ENTRIES[name]._replace(thresholds=thresholds, patiences=patiences)


RISING = np.linspace(0.1, 0.9, 100)
BUDGETS = ENTRIES["budget"]._replace(thresholds=[10, 50, 100])


def test_smoothing_is_the_centred_mean_and_shorter_at_the_ends():
    values = np.array([0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 6.0])
    assert smoothed(values, 3).tolist() == [0, 0, 1, 1, 1, 2, 3]
    assert smoothed(values, 1).tolist() == values.tolist()
    assert smoothed(np.array([0.5]), 11).tolist() == [0.5]


def test_regret_and_cost_of_a_stop_are_what_one_computes_by_hand():
    found = judged(BUDGETS, [run(RISING)])
    assert found.stop[:, 0, 0].tolist() == [10, 50, 100]
    assert found.cost[:, 0, 0].tolist() == [0.1, 0.5, 1.0]
    best = 100 * RISING[94:].mean()  # the last round, smoothed over what is there of its window
    assert found.regret[0, 0, 0] == pytest.approx(best - 100 * RISING[9])
    assert found.regret[2, 0, 0] == 0


def test_a_rule_that_never_fires_pays_for_all_rounds_and_has_the_regret_of_the_end():
    collapsing = np.concatenate([np.full(50, 0.8), np.full(50, 0.2)])
    found = judged(entry("growth", [1e-9], (10,)), [run(collapsing)])
    assert (found.stop.item(), found.cost.item()) == (0, 1.0)
    assert found.regret.item() == pytest.approx(60) == unstopped([run(collapsing)]).item()


def test_the_best_round_has_no_regret():
    peak = 1 - np.abs(np.arange(1, 102) - 51) / 100
    found = judged(entry("budget", [51], (1,)), [run(peak)])
    assert found.regret.item() == 0


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0.001, 100), min_size=2, max_size=60), st.sampled_from([n for n in ENTRIES if n != "budget"]))
def test_one_replay_answers_every_patience(values, name):
    rows = [
        {"round": r, "distance": v, "update_norm": v / 3, "parameter_norm": v + 1, "alignment": v - 1, "lr": 0.1,
         "cohort_size": 10, "drift_20": v, "distance_average": v, "val_loss": v, "val_accuracy": v / 100}
        for r, v in enumerate(values, start=1)
    ]  # fmt: skip
    some = ENTRIES[name]._replace(thresholds=ENTRIES[name].thresholds[::4])
    found = stops(some, [Run("x", {}, rows, np.zeros(len(rows)))])
    for t, threshold in enumerate(some.thresholds):
        for p, patience in enumerate(some.patiences):
            assert found[t, p, 0] == (stop_round(some.make(threshold, patience), rows) or 0)


def test_between_two_settings_the_regret_is_interpolated_and_a_rule_that_cannot_be_so_cheap_has_none():
    costs, regrets, levels = np.array([[0.2], [0.6]]), np.array([[10.0], [2.0]]), (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
    found = at_costs(costs, regrets, np.array([0.0]), draws(1, 0), levels)[0]
    assert np.isnan(found[0])
    assert found[1:] == pytest.approx([10, 6, 2, 1, 0])


def test_the_patience_is_chosen_by_the_area():
    cost = np.array([[[0.05], [0.05]], [[0.9], [0.9]]])  # two thresholds, two patiences, one run
    regret = np.array([[[30.0], [20.0]], [[1.0], [1.0]]])
    assert best_patience(Judged((cost * 100).astype(int), cost, regret), np.array([0.0])) == 1


def test_intervals_cover_the_mean_as_often_as_they_say():
    rng, hits = np.random.default_rng(1), 0
    for seed in range(200):
        sample = rng.normal(3.0, 1.0, 60)
        _, low, high = interval((draws(60, 300, seed) @ sample)[:, None])[0]
        hits += low <= 3.0 <= high
    assert 0.88 <= hits / 200 <= 0.99


def noisy(seed, task="blood"):
    """A rising run with a distance that jumps: rules stop such runs at different rounds."""
    draw = np.random.default_rng(seed)
    steps = np.arange(1, 101)
    return run(RISING * draw.uniform(0.5, 1), steps ** draw.uniform(0.3, 1) * draw.uniform(0.97, 1.03, 100), task)


def test_a_rule_is_never_better_than_itself_because_both_have_the_same_draw(monkeypatch):
    monkeypatch.setitem(ENTRIES, "twin", ENTRIES["growth"]._replace(name="twin"))
    found = bench.measured([noisy(seed, task) for seed in range(6) for task in ("blood", "derma")], ["twin"], "blood")
    row = next(row for row in bench.scores(found) if row["rule"] == "twin" and row["part"] == bench.DECIDED)
    reached = [each for each in row["against_paper"] if not np.isnan(each[0])]
    assert reached and all(each == (0, 0, 0) for each in reached)
    assert any(high > low for _, low, high in row["regret"]), "while each of them has an interval"
    assert bench.recommended(bench.scores(found)) == []


def test_a_value_that_few_draws_have_has_no_interval():
    few = np.array([[1.0], *([[np.nan]] * 50), *([[2.0]] * 50)])
    assert np.isnan(interval(few)[0]).all()
    assert np.isnan(interval(np.array([[np.nan], [1.0], [2.0]]))[0]).all()


def test_a_run_that_diverged_was_meant_to_be_as_long_as_the_others():
    short = run(np.full(8, 0.1), [*range(1, 8), np.inf])
    found = judged(entry("growth", [0.01], (10,)), [run(RISING), short])
    assert found.stop[0, 0].tolist() == [0, 8]
    assert found.cost[0, 0].tolist() == [1.0, 0.08]


def test_the_share_of_runs_that_are_never_stopped():
    """Half of the runs stop at once, the others never: at the only cost there is, half are never stopped."""
    still, moving = run(RISING, np.full(100, 1.0)), run(RISING, 2.0 ** np.arange(100))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ENTRIES, "growth", entry("growth", [0.1], (10,)))
        found = bench.measured([still, moving] * 40, ["growth"], "blood")
    curve = found.curve("growth", bench.TUNED)
    assert curve.cost.mean() == pytest.approx((0.11 + 1) / 2)
    assert bench.scores(found)[1]["never"][LEVELS.index(0.7)][0] == pytest.approx(0.5 + 0.5 * (0.7 - 0.555) / 0.445)


def test_a_rule_that_sees_where_the_accuracy_ends_beats_every_fixed_budget(monkeypatch):
    """Runs rise to their end at different rounds, and their updates vanish soon after it; their distances are all one
    straight line, so that the paper's rule knows no more than a budget."""
    runs = []
    for index, end in enumerate(range(10, 70, 2)):
        made = run(np.minimum(np.arange(1, 101) / end, 1.0), task=("blood", "derma", "digits")[index % 3])
        for row in made.rows:
            row |= {"update_norm": float(row["round"] <= end + 5), "parameter_norm": 1.0}
        runs.append(made)
    monkeypatch.setitem(ENTRIES, "weight-diff", entry("weight-diff", [0.5, 2.0], (1,)))  # 2: at once
    monkeypatch.setitem(ENTRIES, "growth", entry("growth", [1 / r for r in range(2, 99)], (1,)))
    monkeypatch.setitem(ENTRIES, "budget", entry("budget", range(1, 100), (1,)))
    found = bench.measured(runs, ["weight-diff"], "blood")
    seeing = found.curve("weight-diff", bench.DECIDED)
    assert seeing.regret[0].max() == pytest.approx(0)
    rows = {row["rule"]: row for row in bench.scores(found) if row["part"] == bench.DECIDED}
    half = LEVELS.index(0.5)
    assert seeing.cost[0].mean() < 0.5
    assert rows["weight-diff"]["against_budget"][half][2] < 0, "the interval lies below zero"
    assert rows["growth"]["against_budget"][half][0] == pytest.approx(0, abs=0.05)
    assert rows["budget"]["regret"][half][0] > 1


def test_recommended_is_who_is_better_at_every_cost_with_the_intervals_apart():
    better, touching = [(-2.0, -3.0, -1.0)] * 5, [(-2.0, -3.0, -1.0)] * 4 + [(-2.0, -5.0, 0.1)]
    impossible = [(float("nan"),) * 3, *better[1:]]
    rows = [
        {"rule": name, "part": part, "against_paper": values}
        for name, part, values in (
            ("a", bench.DECIDED, better), ("b", bench.DECIDED, touching), ("c", bench.TUNED, better),
            ("d", bench.DECIDED, impossible),
        )
    ]  # fmt: skip
    assert bench.recommended(rows) == ["a"]


def test_places_between_chance_and_the_best_of_the_group():
    runs = [run(np.full(20, a), model="cnn", skew="iid", c=1.0) for a in (0.8, 0.125, 0.125 + 0.675 / 2)]
    other = run(np.full(20, 0.3), model="probe:x", skew="iid", c=1.0)
    assert screening.relative_accuracy([*runs, other]) == pytest.approx([1, 0, 0.5, 1])
    assert np.isnan(screening.relative_accuracy([run(np.full(20, 0.3), task="somebody's")])).all()


def test_false_alarms_and_misses_are_counted():
    stop = np.array([[10, 0, 30, 15, 0]])  # of 100 rounds, so a fifth is 20
    cost = np.where(stop > 0, stop, 100) / 100
    place = np.array([1.0, 0.9, 0.1, 0.2, 0.7])
    found = screening.flags(stop, cost, place, draws(5, 0))
    assert found.false_alarms.item() == pytest.approx(1 / 2)  # 10 is early, and good
    assert found.misses.item() == pytest.approx(1 / 2)  # 30 is too late for a hopeless one
    assert screening.flagged_at(stop[0], cost[0], place, draws(5, 0)).tolist() == [15]


def test_the_setting_for_screening_is_the_one_that_separates():
    stop = np.array([[[5, 5]], [[0, 5]], [[0, 0]]])  # thresholds by one patience by a good and a hopeless run
    cost = np.where(stop > 0, stop, 100) / 100
    at = Judged(stop, cost, cost)
    assert screening.best_setting(at, np.array([1.0, 0.0])) == (1, 0)
    assert screening.best_setting(at, np.array([1.0, 1.0])) == (2, 0), "nothing to find: no alarm"
    either = Judged(stop[[0, 2]], cost[[0, 2]], cost[[0, 2]])
    assert screening.best_setting(either, np.array([1.0, 0.0])) == (1, 0), "all or none: none"


def test_the_right_answers_on_the_controls():
    made = controls()
    growth = entry("growth", [0.01], (10,))
    found = {name: int(stops(growth, [each]).item()) for name, each in made.items()}
    assert found["straight drift"] == 111, "the clock: 1 / threshold + patience + 1"
    assert found["frozen"] == 11
    assert found["diverging"] == 250
    walk = np.array([row["distance"] for row in made["random walk"].rows])
    assert np.polyfit(np.log(np.arange(10, 301)), np.log(walk[9:]), 1)[0] == pytest.approx(0.5, abs=0.03)


def trajectory(rounds=30, seed=0, **spec):
    rng = np.random.default_rng(seed)
    made = Trajectory(header={"spec": {"data": "blood", "model": "cnn", "lr": 0.1, **spec}})
    for r in range(1, rounds + 1):
        made.append({
            "round": r, "distance": r**0.5, "update_norm": 1.0, "parameter_norm": 2.0, "alignment": rng.normal(),
            "lr": 0.1, "cohort": [1, 2, 3], "val_loss": rng.random(), "val_accuracy": rng.random(),
            "test_balanced_accuracy": rng.random(), "test_accuracy": 0.99, "seconds": 1.0,
        })  # fmt: skip
    return made


def test_a_rule_is_not_given_what_it_may_not_see():
    seen = of_trajectory("a", trajectory()).rows[0]
    assert not any("test" in name for name in seen)
    assert seen["cohort_size"] == 3


def test_packed_runs_are_the_recorded_ones_and_stop_where_they_did(tmp_path):
    runs = [
        of_trajectory(f"run-{seed}", trajectory(30 - seed, seed, lr=rate)) for seed, rate in enumerate((0.1, 0.1, 1))
    ]
    paths = pack(runs, tmp_path)
    assert [path.name for path in paths] == ["blood-cnn-0.1.safetensors.gz", "blood-cnn-1.safetensors.gz"]
    again = {each.name: each for each in load(tmp_path)}
    for each in runs:
        assert again[each.name].spec == each.spec
        assert again[each.name].accuracy == pytest.approx(each.accuracy, rel=1e-6)
        for before, after in zip(each.rows, again[each.name].rows, strict=True):
            assert after == pytest.approx(before, rel=1e-6)
    some = entry("val-loss", [0.01, 0.1], (1, 3))
    assert (stops(some, runs) == stops(some, [again[each.name] for each in runs])).all()


def test_the_controls_at_the_setting_that_costs_a_third(monkeypatch):
    monkeypatch.setitem(ENTRIES, "growth", entry("growth", [0.5, 0.01], (10,)))
    line = [run(RISING, np.arange(1, 101)) for _ in range(3)]
    stopped = bench.on_controls(bench.measured(line, ["growth"], "blood"))["growth"]
    assert stopped["straight drift"] == 13, "0.5 costs 0.13, 0.01 everything"
    assert "val-loss" not in bench.on_controls(bench.measured(line, ["growth"], "blood"))


def test_run_folders_are_read_as_they_are(tmp_path):
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    made = Trajectory.create(folder / "trajectory.jsonl", **trajectory().header)
    for row in trajectory().rows:
        made.append(row)
    assert [each.name for each in load(tmp_path / "runs")] == ["one"]
    (tmp_path / "runs" / "two").mkdir()
    Trajectory.create(tmp_path / "runs" / "two" / "trajectory.jsonl")
    with pytest.warns(UserWarning, match="left out: two: no round is recorded yet"):
        assert [each.name for each in load(tmp_path / "runs")] == ["one"]


def test_what_is_missing_is_said(tmp_path):
    with pytest.raises(FedhaltError, match="not a folder of recorded runs"):
        load(tmp_path / "nowhere")
    with pytest.raises(FedhaltError, match=r"no packed runs .* and no run folders"):
        load(tmp_path)
    with pytest.raises(FedhaltError, match="'test_balanced_accuracy' is not recorded"):
        of_trajectory("mine", Trajectory([{"distance": 1.0}]))
    with pytest.raises(FedhaltError, match="some rounds are not recorded"):
        of_trajectory("mine", Trajectory([{"round": 2, "distance": 1.0, "test_balanced_accuracy": 0.5}]))
    (tmp_path / "x.safetensors.gz").write_bytes(b"no zip")
    with pytest.raises(FedhaltError, match="is not a file of packed runs"):
        unpack(tmp_path / "x.safetensors.gz")
    with pytest.raises(FedhaltError, match="the task 'path' is not among blood; choose one with --tune"):
        bench.measured([run(RISING)], ["growth"], "path")


@pytest.fixture
def small(tmp_path):
    """A few packed runs of two tasks."""
    folder = tmp_path / "set"
    pack(
        [
            of_trajectory(f"{task}-{seed}", trajectory(40, seed, data=task))
            for task in ("blood", "derma")
            for seed in range(4)
        ],
        folder,
    )
    return folder


def test_the_command_prints_one_table_and_writes_the_rest(fedhalt, small, tmp_path):
    pytest.importorskip("matplotlib")
    code, out, _ = fedhalt(
        "stopbench", "--set", 1, "--wide", "--runs", small, "--rule", "growth,val-loss", "--results", tmp_path / "to"
    )
    assert code == 0
    for word in ("decided on: 4 runs, ", "tuned on: 4 runs, ", "budget", "val-loss", "straight", "every cost"):
        assert word in out
    assert "wandering" not in out
    assert sorted(path.name for path in (tmp_path / "to" / "stopbench").iterdir()) == [
        "curves.csv", "curves.png", "scores.csv", "screening.png", "table.md",
    ]  # fmt: skip


def test_rules_that_the_runs_cannot_answer_are_left_out_and_an_asked_one_is_refused(fedhalt, tmp_path):
    rows = [{"distance": float(r), "test_balanced_accuracy": 0.5} for r in range(1, 20)]
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        made = Trajectory.create(tmp_path / name / "trajectory.jsonl", spec={"data": "mine"})
        for row in rows:
            made.append(row)
    code, out, errors = fedhalt("stopbench", "--runs", tmp_path, "--tune", "mine")
    assert code == 0 and "val-loss" in errors and "forward" in errors and "travelled" in out
    code, _, errors = fedhalt("stopbench", "--runs", tmp_path, "--tune", "mine", "--rule", "val-loss")
    assert code == 2 and "the rule val-loss reads val_loss, which not every run has recorded" in errors


def test_the_scores_as_json(fedhalt, small):
    _, out, _ = fedhalt("stopbench", "--runs", small, "--rule", "growth", "--json")
    found = json.loads(out)
    assert found["levels"] == [0.1, 0.2, 0.3, 0.5, 0.7]
    assert {row["rule"] for row in found["scores"]} == {"budget", "growth"}


def test_a_rule_apart_by_a_field_of_the_runs():
    """A budget of 30 of 100 rounds on a run that is done by then, and on one that rises to its end."""
    soon, late = np.minimum(np.arange(1, 101) / 10, 1), np.arange(1, 101) / 100
    found = bench.measured([run(soon, lr=0.1), run(late, lr=0.001)], ["growth"], "blood")
    t, _ = found.setting("budget", 0.3)
    apart = bench.by_field(found, "lr")["budget"]
    assert list(apart) == ["0.001", "0.1"]
    assert apart["0.1"] == (ENTRIES["budget"].thresholds[t] / 100, 0)
    assert apart["0.001"][1] == pytest.approx(97.5 - 100 * apart["0.001"][0])
    with pytest.raises(FedhaltError, match=r"data, lr, not 'color'"):
        bench.by_field(found, "color")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--by", "colour"], "'colour'"),
        (["--rule", "nonsense"], "nonsense"),
        (["--tune", "path"], "not among blood, derma"),
        (["--record"], "leave out --runs"),
    ],
)
def test_wrong_arguments_are_answered_by_a_sentence(fedhalt, small, arguments, said):
    code, _, errors = fedhalt("stopbench", "--runs", small, *arguments)
    assert code == 2
    assert said in errors
