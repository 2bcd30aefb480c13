"""The pictures and tables of StopBench 2, on constructed runs."""

from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")
from helpers.drifting import made

from fedhalt.stopbench import draw2, pairs

PROBE = {"model": "probe:x", "lr": 0.1, "lr_decay": 0.998, "cohort": 10, "skew": "dirichlet", "c": 0.1}


def probes():
    """One run a task, and some that must not stand for it."""
    return [
        made("tuned", data="blood", **PROBE),
        made("fashion", data="fashion", **PROBE),
        made("derma", data="derma", **PROBE),
        made("site", data="derma", **{**PROBE, "skew": "natural", "cohort": 4}),
        made("other seed", data="derma", **{**PROBE, "seed": 1}),
        made("other rate", data="derma", **{**PROBE, "lr": 10.0}),
        made("large cohort", data="derma", **{**PROBE, "cohort": 50}),
        made("other method", data="derma", **{**PROBE, "method": "feddyn"}),
        made("network", data="derma", **{**PROBE, "model": "cnn"}),
    ]


def test_one_run_a_task_is_shown_and_none_that_is_tuned_on():
    assert [run.name for run in draw2.examples(probes())] == ["derma", "site", "fashion"]


def test_everything_is_written_and_by_task_says_what_each_gives_up(tmp_path):
    runs = probes()
    found = pairs.measured(runs, ["forward"], tune="blood")
    written = draw2.write_results(found, pairs.scores(found), [], tmp_path)
    assert {path.name for path in written} == {"table.md", "scores.csv", "curves.png", "stops.png"}
    assert all(path.stat().st_size > 500 for path in written)
    page = (tmp_path / "table.md").read_text(encoding="utf-8")
    assert "## in short: 8 deciding runs" in page and page.count("| budget | last |") == 1 + 2 + 4
    # 1/r: growth is below 0.01 from round 102 on, forward below 0.005 later still
    assert "| growth | 0.01 for 10 | average | 100% ±0 | 0.0 ±0.0 |" in page
    assert "| derma by site | 1 | forward | last | 30.0 ±0.0 |" in page
    assert "| derma by site | 1 | forward | average | 0.0 ±0.0 |" in page


def test_what_the_best_pair_gains_in_words():
    runs = [made("tune"), made("decide", data="derma"), made("digits", data="digits", last=0.4, average=0.7)]
    rows = pairs.scores(pairs.measured(runs, ["forward"], tune="blood"))
    told = draw2.gains(rows, pairs.Pair("forward", "average"))
    assert told.startswith("than the paper's rule with its last model: 30.0 (30.0 to 30.0), 30.0")
    assert "than a fixed budget with its last model: 30.0 (30.0 to 30.0)" in told
    assert draw2.gains(rows, pairs.Pair("unknown", "last")) == ""
