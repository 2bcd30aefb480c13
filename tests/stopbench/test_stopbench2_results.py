"""The committed results of StopBench 2 are those of the packed runs, and the page shows them."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from fedhalt.stopbench import draw, pairs
from fedhalt.stopbench.clusters import rate_words, task_of
from fedhalt.stopbench.runs import PACKED2, load
from fedhalt.stopbench.screening import HOPELESS, relative_accuracy

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results" / "stopbench2"


@pytest.fixture(scope="module")
def runs():
    return load(PACKED2)


@pytest.fixture(scope="module")
def scores(runs):
    return pairs.scores(pairs.measured(runs, ["growth-average"], "blood"))


def test_the_scores_are_made_again_from_the_packed_runs(scores):
    with open(RESULTS / "scores.csv", encoding="utf-8") as file:
        committed = {(row["rule"], row["ship"], row["part"]): row for row in csv.DictReader(file)}
    for row in scores:
        found = committed[row["rule"], row["ship"], row["part"]]
        assert int(found["runs"]) == row["runs"]
        for name, value in draw.flat(row).items():
            if isinstance(value, float):
                assert float(found[name]) == pytest.approx(value, rel=1e-3, abs=1e-3, nan_ok=True), name


def test_the_recommended_pair_and_the_goals_that_the_page_reports(scores):
    with open(RESULTS / "scores.csv", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["part"] == "tuned on" and not row["needs"]]
    sums = {(row["rule"], row["ship"]): sum(float(row[f"regret_{level}"]) for level in (0.1, 0.2, 0.3)) for row in rows}
    there = {pair: total for pair, total in sums.items() if total == total and pair[0] != "budget"}
    assert min(there, key=lambda pair: there[pair]) == ("growth-average", "average")
    found = pairs.goals(scores, pairs.Pair("growth-average", "average"))
    assert found == {"against_paper": True, "against_budget": False, "against_same_budget": False}


def test_what_the_protocol_asks_of_the_runs(runs):
    tasks = Counter(map(task_of, runs))
    assert set(tasks) == {"blood", "derma", "derma by site", "digits", "fashion"}
    assert {str(run.spec["model"]).partition(":")[0] for run in runs} == {"probe", "cnn", "tf_efficientnet_lite0"}
    assert len({run.spec["method"] for run in runs}) == 12 and {run.spec["cohort"] for run in runs} >= {4, 5, 10, 50}
    assert {run.spec["lr_decay"] for run in runs} == {0.998, 1.0}
    assert set(rate_words(runs)) == {"too small", "good", "too large"}
    hopeless = relative_accuracy(runs) < HOPELESS
    assert sum(bad and task_of(run) != "blood" for run, bad in zip(runs, hopeless, strict=True)) >= 40
    assert sum(path.stat().st_size for path in PACKED2.iterdir()) < 12e6


@pytest.mark.parametrize("mark, title", [("table2", "in short"), ("defaults2", "with their default settings")])
def test_the_page_shows_the_tables_of_the_results(mark, title):
    page = (ROOT / "docs" / "stopbench.md").read_text(encoding="utf-8")
    shown = page.split(f"<!-- {mark} -->\n")[1].split(f"<!-- /{mark} -->")[0].strip()
    table = (RESULTS / "table.md").read_text(encoding="utf-8")
    assert shown == table.split(f"## {title}")[1].split("\n\n")[1].strip()
