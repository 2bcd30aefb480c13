"""The paper's matrix of runs, rows that say what the runs say, and drawing from rows alone."""

import dataclasses
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("matplotlib")
pandas = pytest.importorskip("pandas")
ROOT = Path(__file__).parents[2]

from fedhalt import GrowthRate, Trajectory, stop_round
from fedhalt.paper import clock, gains, published, setting, table2
from fedhalt.paper.analysis import analysed
from fedhalt.paper.items import ITEMS
from fedhalt.paper.pace import pace
from fedhalt.paper.rows import RECORDED, Results, Stop, processor, stop, summarised
from fedhalt.paper.setting import CURVES, PAPER, SMALL, Need, Scale, merged
from fedhalt.rules import named_rule
from fedhalt.simulation.runner import run

DATA = Path(os.environ.get("FEDHALT_DATA", ROOT.parent / "shared" / "data"))
COMMITTED = ROOT / "docs" / "results"
TINY = Scale(
    "tiny", ("digits",), 4, {"good": 0.05, "middle": 0.5, "bad": 5.0},
    {"model": "cnn", "clients": 12, "cohort": 4, "epochs": 1}, "for tests",
)  # fmt: skip
MATRIX = (
    "table0",
    "table1",
    "table2",
    "table3",
    "fig-reason",
    "fig-result1",
    "fig-result2",
    "fig-result3",
    "fig-result4",
)


def theirs(name, scale):
    """The runs of an item that are the paper's, without what we set beside them."""
    beside = ("dirichlet-authors", "natural")
    return [n for n in merged(ITEMS[name].specs(scale)) if not n.spec.compat and n.spec.skew not in beside]


@pytest.mark.parametrize("name, count", [
    ("table0", 702), ("table1", 702), ("table2", 810), ("table3", 90), ("fig-result1", 9), ("fig-result2", 81),
    ("fig-result3", 90), ("fig-result4", 810),
])  # fmt: skip
def test_each_item_has_the_runs_of_the_paper(name, count):
    assert len(theirs(name, PAPER)) == count
    assert len(theirs(name, SMALL)) == count * 2 // 3  # two of the three tasks are at hand


def test_all_items_together_are_2430_distinct_trainings():
    together = merged(need for name in MATRIX for need in theirs(name, PAPER))
    assert len(together) == 2430
    assert sum(not need.until for need in together) == 1170
    assert {need.rounds for need in together} == {500} and {need.spec.seed for need in together} == {0, 1, 2}


def test_the_paper_scale_is_the_papers_setting():
    for need in theirs("table1", PAPER):
        spec = need.spec
        assert (spec.model, spec.pretrained, spec.size, spec.clients, spec.cohort) == (
            "convnextv2_nano",
            True,
            64,
            100,
            10,
        )
        assert (spec.epochs, spec.batch, spec.momentum, spec.lr_decay, spec.clip) == (5, 256, 0.9, 0.998, 10.0)
        assert spec.lr in (0.1, 0.01, 0.001) and (spec.skew, spec.c) == ("dirichlet", 0.1)
        assert setting.phi_of(spec) in ((None,) if spec.method in ("fedavg", "scaffold") else (0.1, 0.01, 0.001))
    assert {need.spec.data for need in theirs("table1", PAPER)} == {"derma", "blood", "path"}


def test_skin_lesions_by_site_are_one_more_line_of_table_0_and_of_figure_result1():
    found = {
        name: [n for n in ITEMS[name].specs(SMALL) if n.spec.skew == "natural"] for name in ("table0", "fig-result1")
    }
    assert len(found["table0"]) == 30 and {n.spec.method for n in found["table0"]} == set(setting.METHODS)
    assert [n.spec.seed for n in found["fig-result1"]] == [0, 1, 2] and all(n.curve for n in found["fig-result1"])
    for need in found["table0"]:
        assert (need.spec.data, need.spec.key, need.spec.cohort, need.rounds) == ("derma", "site", 4, 200)
    page = (COMMITTED / "small" / "fig-result1.md").read_text()
    assert page.count("| skin lesion, four sites |") == 3


def test_a_longer_need_wins_and_rules_add_up():
    spec, other = TINY.spec("digits", "fedavg"), TINY.spec("digits", "fedavg", seed=1)
    one, two = named_rule("growth", threshold=0.1), named_rule("val-loss", threshold=0.1)
    both = merged([Need(spec, 4, (one,)), Need(other, 4), Need(spec, 4, (two,), curve=CURVES)])
    assert [need.spec.seed for need in both] == [0, 1] and both[0].until == (one, two) and both[0].curve == CURVES
    assert merged([Need(spec, 4, (one,)), Need(spec, 4), Need(spec, 4, (two,))])[0].until == ()


def record(tmp_path, **settings):
    spec = TINY.spec("digits", "fedavg", lr=0.05, **settings)
    run(spec, tmp_path / "runs", rounds=4, watch=[], stop="never")
    return spec, Trajectory.load(tmp_path / "runs" / spec.id / "trajectory.jsonl")


def test_a_row_says_what_the_record_says_and_comes_back_from_its_file(tmp_path):
    spec, found = record(tmp_path)
    results = Results(tmp_path / "rows")
    assert results.add(Need(spec, 4, curve=CURVES), found)
    results.save()
    again = Results(tmp_path / "rows")
    assert again.rows == results.rows and again.curves == results.curves
    row, last = again.rows[spec.id], found.rows[-1]
    assert row["final"] == pytest.approx(100 * last["test_balanced_accuracy"], rel=1e-5)
    assert row["best"] == pytest.approx(100 * max(r["test_balanced_accuracy"] for r in found.rows), rel=1e-5)
    at = stop(row, "growth", 0.1, 1)
    r = stop_round(GrowthRate(0.1, 1), found)
    assert at is None if r is None else at.balanced == pytest.approx(100 * found.rows[r - 1]["test_balanced_accuracy"])
    assert [each["distance"] for each in again.curves[spec.id]] == pytest.approx(
        list(found.column("distance")), rel=1e-5
    )


def test_a_short_record_answers_only_who_asks_for_little(tmp_path):
    spec, found = record(tmp_path)
    results, rule = Results(tmp_path / "rows"), named_rule("growth", threshold=1e-9, patience=1)
    assert not results.add(Need(spec, 5), found) and not results.rows
    assert not results.has(Need(spec, 5))
    assert results.add(Need(spec, 4, (rule,)), found) and results.has(Need(spec, 4)) and not results.has(Need(spec, 9))
    assert not results.has(Need(spec, 4, curve=CURVES))


@pytest.mark.parametrize("change, broken", [(1.0, ["broken change", "broken growth"]), (0.0, [])])
def test_the_inequalities_are_checked_on_every_round(change, broken):
    steps = np.ones(30)
    distance = np.cumsum(steps) + change * (np.arange(30) == 20)  # one jump that no update explains
    rows = [{"round": r + 1, "distance": float(distance[r]), "update_norm": 1.0} for r in range(30)]
    found = analysed(Trajectory(rows))
    assert found["checked"] == 29
    assert [key for key in ("broken change", "broken growth", "broken condition") if found[key]] == broken


def test_a_stop_is_told_whether_the_condition_of_the_paper_held():
    straight = [{"round": r, "distance": float(r), "update_norm": 1.0} for r in range(1, 40)]
    assert analysed(Trajectory(straight))["enough 0.1"] == 1  # g = 1/r < 0.1 with updates as small as that
    sideways = [{"round": r, "distance": 1.0, "update_norm": 1.0} for r in range(1, 40)]
    assert analysed(Trajectory(sideways))["enough 0.1"] == 0  # as large as the distance, yet it never changes
    assert analysed(Trajectory(straight))["exponent 0.1"] == pytest.approx(1.0)


def test_the_clock_of_the_controls():
    straight, walk = clock.stops("straight drift"), clock.stops("random walk, decaying")
    assert straight[0.1] == [21.0] and straight[0.01][0] in (110.0, 111.0)  # 1/(r - 1) < tau for ten rounds
    assert clock.stops("straight drift, decaying")[0.01] == [102.0]
    assert all(14 <= r <= 16 for r in walk[0.1]) and all(50 <= r <= 80 for r in walk[0.01])


def test_gains_against_the_better_rule_and_each_alone():
    ours, loss, accuracy = (
        Stop(50, 60.0, 70.0, 59.0),
        Stop(20, 40.0, 66.0, 41.0),
        Stop(30, 55.0, 60.0, 50.0),
    )
    pair = gains.Pair(ours, {"val-loss": loss, "val-accuracy": accuracy})
    assert (pair.gain(), pair.gain("plain"), pair.gain("smooth")) == (5.0, 4.0, 9.0)
    assert (pair.gain(rival="val-loss"), pair.gain(rival="val-accuracy"), pair.extra()) == (20.0, 5.0, 30)
    alone = gains.Pair(ours, {})
    assert alone.gain() is None and alone.extra() is None


def test_the_papers_numbers_are_found():
    row = published.find("table0_accuracy_by_skew", task="skin lesion", skew=published.SKEWS["Q"], method="SCAFFOLD")
    assert row is not None and row["accuracy_percent"] == "25.77"
    assert table2._paper("blood", "fedspeed", ("pathological", 1.0)) == 37.16
    assert math.isnan(table2._paper("digits", "fedavg", ("dirichlet", 0.1)))


def test_the_list(fedhalt):
    code, out, _ = fedhalt("reproduce", "--list")
    assert not code and all(name in out for name in ITEMS) and "together" in out
    code, out, _ = fedhalt("reproduce", "table2", "--list", "--scale", "paper", "--json")
    found = json.loads(out)
    assert found["scale"] == "paper" and found["items"][0]["runs"] == 810 and found["items"][0]["hours"] > 1000


def test_hours_are_those_of_this_machine(fedhalt, monkeypatch):
    hours = {}
    for slower in (1.0, 3.0):
        monkeypatch.setattr(setting, "pace", lambda slower=slower: slower)
        items = json.loads(fedhalt("reproduce", "table2", "--list", "--scale", "paper", "--json", "--parallel", 4)[1])
        hours[slower] = [items["items"][0][name] for name in ("hours", "hours_left", "hours_here")]
    assert hours[3.0] == pytest.approx([3 * each for each in hours[1.0]], rel=1e-3)
    assert hours[1.0][1] == pytest.approx(4 * hours[1.0][2], rel=1e-3)


@pytest.mark.parametrize("slower, shown", [(1e-6, "1 min"), (1e-4, "10 min"), (1e-3, "1.7 h"), (1, "1,704 h")])
def test_a_short_time_is_shown_in_minutes(fedhalt, monkeypatch, slower, shown):
    monkeypatch.setattr(setting, "pace", lambda: slower)
    lines = fedhalt("reproduce", "fig-result2", "--list", "--scale", "paper", "--parallel", 1)[1].splitlines()
    assert shown in next(line for line in lines if line.startswith("fig-result2"))


def test_the_pace_is_measured_and_leaves_no_trace():
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    assert 0.01 < pace.__wrapped__() < 1000
    assert torch.equal(state, torch.get_rng_state()) and torch.get_num_threads() == threads


@pytest.mark.parametrize("args, words", [
    (["table9"], "not 'table9'; did you mean 'table"), ([], "name what to draw: table0"),
    (["table0", "--scale", "huge"], "--scale must be one of small, network, paper, not 'huge'"),
    (["table0", "--executor", "slurm"], "--executor must be one of processes, ray, not 'slurm'"),
    (["table0", "--address", "x:1"], "add --executor ray to 'x:1'"), (["table0", "--parallel", "two"], "'two'"),
])  # fmt: skip
def test_mistakes_end_in_one_sentence(fedhalt, args, words):
    code, _, err = fedhalt("reproduce", *args)
    assert code == 2 and words in err and len(err.splitlines()) == 1


def test_trained_drawn_and_drawn_again_from_the_rows_alone(fedhalt, tmp_path, monkeypatch):
    monkeypatch.setitem(setting.SCALES, "tiny", TINY)
    where = ["--scale", "tiny", "--out", tmp_path / "runs", "--results", tmp_path / "results", "--parallel", 1]
    code, out, _ = fedhalt("reproduce", "collapse", *where)
    assert not code and "run 45/45" in out and "left 0:00:00" in out
    first = {path.name: path.read_bytes() for path in (tmp_path / "results" / "tiny").glob("collapse.*")}
    code, out, _ = fedhalt("reproduce", "collapse", *where, "--out", tmp_path / "elsewhere")
    assert not code and "run 1/" not in out and not (tmp_path / "elsewhere").exists()
    assert first == {path.name: path.read_bytes() for path in (tmp_path / "results" / "tiny").glob("collapse.*")}
    assert set(first) == {"collapse.md", "collapse.tex"} and first["collapse.md"].count(b"| digits |") == 8


@pytest.mark.filterwarnings("ignore")  # Ray's own
def test_on_ray(fedhalt, tmp_path, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setitem(setting.SCALES, "tiny", TINY)
    where = ["--scale", "tiny", "--out", tmp_path / "runs", "--results", tmp_path, "--executor", "ray", "--parallel", 2]
    code, out, errors = fedhalt("reproduce", "fig-result1", *where)
    assert code == 0, errors
    assert "run 3/3" in out and (tmp_path / "tiny" / "fig-result1.pdf").exists()


def test_a_run_that_fails_ends_all_with_its_reason(fedhalt, tmp_path, monkeypatch):
    monkeypatch.setitem(setting.SCALES, "tiny", dataclasses.replace(TINY, tasks=("derma",)))
    where = ["--scale", "tiny", "--data-root", tmp_path, "--out", tmp_path / "runs", "--results", tmp_path]
    code, _, err = fedhalt("reproduce", "table3", *where, "--parallel", 1)
    assert code == 2 and "dermamnist.npz is not in" in err and len(list((tmp_path / "runs").glob("*/"))) <= 1


def test_what_is_missing_is_an_empty_cell_and_said(fedhalt, tmp_path, monkeypatch):
    monkeypatch.setitem(setting.SCALES, "tiny", TINY)
    results = Results(tmp_path / "tiny")
    spec, found = record(tmp_path, phi=None, skew="dirichlet", c=0.1)
    results.add(Need(spec, 4), found)
    results.save()
    code, out, _ = fedhalt(
        "reproduce", "table0", "--scale", "tiny", "--recorded", "--results", tmp_path, "--out", tmp_path / "r"
    )
    assert not code and "runs are not recorded" in out
    assert f"{100 * found.rows[-1]['test_balanced_accuracy']:.1f} ▲" in (tmp_path / "tiny" / "table0.md").read_text()


def test_every_latex_table_is_plain_ascii_with_balanced_braces():
    found = sorted((COMMITTED / "small").glob("*.tex"))
    assert len(found) >= 20
    for path in found:
        text = path.read_text(encoding="ascii")
        assert text.count("{") == text.count("}") and text.count("$") % 2 == 0, path.name
        lines = [line for line in text.splitlines() if line.endswith(r"\\")]
        assert len({line.count(" & ") for line in lines}) == 1, path.name  # as many cells in every line


KILLED = """
import sys; sys.path.insert(0, sys.argv[1])
from tests.paper.test_reproduce import TINY, needs_of
from fedhalt.paper.recording import collect, record
from fedhalt.paper.rows import Results
from fedhalt.tuning.plans import Execution
from pathlib import Path
out = Path(sys.argv[2])
results = Results(out / "rows")
needs = needs_of()
collect(results.missing(needs), results, out / "runs")
execution = Execution(out=str(out / "runs"), parallel=2)
record(results.missing(needs), results, execution, lambda *_: None, lambda: False)
"""


def needs_of():
    return list(setting.needs(TINY, skews=[("dirichlet", 0.1)], rates=["good"], methods=["fedavg", "scaffold"]))


def test_killed_and_called_again_gives_the_same_rows(tmp_path):
    from helpers.commands import started, wait_for  # the processes import this file from elsewhere

    command = [sys.executable, "-c", KILLED, str(ROOT)]
    subprocess.run([*command, str(tmp_path / "whole")], check=True)
    broken = tmp_path / "broken"
    for recorded in (1, 3):
        with started(*command, broken) as process:
            wait_for("runs", lambda: len(list(broken.glob("runs/*/trajectory.jsonl"))) >= recorded, process)  # noqa: B023
    subprocess.run([*command, str(broken)], check=True)
    timed = ("seconds",)
    rows = [Results(tmp_path / name / "rows").rows for name in ("whole", "broken")]
    plain = [{key: {n: v for n, v in row.items() if n not in timed} for key, row in each.items()} for each in rows]
    assert plain[0] == plain[1] and len(plain[0]) == 6


def committed():
    return Results(RECORDED / "small")


def test_a_committed_table_is_what_its_rows_say(fedhalt, tmp_path):
    folder = tmp_path / "small"
    code, _, _ = fedhalt(
        "reproduce", "table2", "fig-reason", "--recorded", "--results", tmp_path, "--out", tmp_path / "none"
    )
    assert not code and (folder / "fig-reason-blood.png").stat().st_size > 20_000
    assert (folder / "table2.md").read_text() == (COMMITTED / "small" / "table2.md").read_text()
    frame = pandas.read_csv(RECORDED / "small" / "rows.csv")
    mine = frame[
        (frame.task == "blood") & (frame.method == "fedavg") & (frame["skew"] == "quantity") & (frame.c == 1.0)
        & (frame.lr == 0.1) & (frame.model == SMALL.model["model"]) & frame.compat.isna()
    ]  # fmt: skip
    rivals = mine[["val-loss 0.01x10 balanced", "val-accuracy 0.01x10 balanced"]].max(axis=1)
    gain = (mine["growth 0.01x10 balanced"] - rivals).dropna()
    assert f"{gain.mean():+.1f} ± {gain.std():.1f}" in (folder / "table2.md").read_text()


has_data = pytest.mark.skipif(not (DATA / "dermamnist.npz").exists(), reason=f"no dermamnist.npz in {DATA}")


@has_data
def test_a_committed_run_begins_again_with_the_same_numbers(tmp_path):
    spec = SMALL.spec("derma", "fedavg", skew="dirichlet", c=0.1, lr=SMALL.rates["good"], seed=0)
    run(spec, tmp_path, rounds=4, watch=[], stop="never", data_root=str(DATA))
    fresh = Trajectory.load(tmp_path / spec.id / "trajectory.jsonl").rows
    for kept, row in zip(committed().curves[spec.id][:4], fresh, strict=True):
        for name in ("distance", "update_norm", "val_loss"):
            assert row[name] == pytest.approx(kept[name], rel=1e-3), (row["round"], name)
        assert row["test_balanced_accuracy"] == pytest.approx(kept["test_balanced_accuracy"], abs=0.01)


@has_data
def test_a_committed_cell_retrained_from_scratch(tmp_path):
    rule = named_rule("growth", threshold=0.1, patience=10)
    spec = SMALL.spec("derma", "fedavg", skew="quantity", c=1.0, lr=SMALL.rates["bad"], seed=0)
    kept = committed().rows[spec.id]
    if kept["cpu"] != processor():
        pytest.skip(f"recorded on {kept['cpu']}: here sums are rounded differently, and such differences grow")
    run(spec, tmp_path, rounds=SMALL.rounds, watch=[rule], stop="all", data_root=str(DATA))
    fresh = summarised(spec, Trajectory.load(tmp_path / spec.id / "trajectory.jsonl"))
    for name in set(fresh) & set(kept) - {"seconds"}:
        exact = (
            fresh[name] == pytest.approx(kept[name], rel=1e-5)
            if isinstance(fresh[name], float)
            else fresh[name] == kept[name]
        )
        assert exact, name


@pytest.mark.parametrize("scale, mark", [("small", "claims"), ("network", "claims-network")])
def test_the_document_shows_the_claims_as_they_are_drawn(scale, mark):
    drawn = (COMMITTED / scale / "claims.md").read_text()
    shown = (ROOT / "docs" / "reproduction.md").read_text().split(f"<!-- {mark} -->")[1].split(f"<!-- /{mark} -->")[0]
    assert shown.strip() == drawn[drawn.index("|  |") :].strip()
