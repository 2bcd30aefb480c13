"""The committed results of StopBench are those of the packed runs, and the page shows them."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from fedhalt.stopbench import bench, draw
from fedhalt.stopbench.runs import PACKED, load

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results" / "stopbench"


@pytest.fixture(scope="module")
def scores():
    return bench.scores(bench.measured(load(PACKED), ["forward", "path"], "blood"))


def test_the_scores_are_made_again_from_the_packed_runs(scores):
    with open(RESULTS / "scores.csv", encoding="utf-8") as file:
        committed = {(row["rule"], row["part"]): row for row in csv.DictReader(file)}
    for row in scores:
        found = committed[row["rule"], row["part"]]
        assert int(found["runs"]) == row["runs"]
        for name, value in draw.flat(row).items():
            if isinstance(value, float):
                assert float(found[name]) == pytest.approx(value, rel=1e-3, abs=1e-3, nan_ok=True), name


def test_the_recommended_rule_is_better_than_the_papers_at_every_cost(scores):
    assert bench.recommended(scores) == ["forward", "path"]


def test_the_page_shows_the_table_of_the_results():
    page = (ROOT / "docs" / "stopbench.md").read_text(encoding="utf-8")
    shown = page.split("<!-- table -->\n")[1].split("<!-- /table -->")[0].strip()
    table = (RESULTS / "table.md").read_text(encoding="utf-8")
    assert shown == table.split("\n\n", 3)[3].split("\n## ")[0].strip()
