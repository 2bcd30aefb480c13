"""Targets and budgets on the command line, and on the page, which leaves them out."""

import json

import pytest

from fedhalt import AnyOf, GrowthRate, Minutes, Trajectory, rules
from fedhalt.views.page.data import loaded


@pytest.fixture
def run(tmp_path):
    """Five rounds that were stopped by their time."""
    path = tmp_path / "run.jsonl"
    record = Trajectory.create(path, rule=rules.to_json(Minutes(2)))
    for r in range(1, 6):
        record.append({"distance": float(r), "seconds": 40.0, "bytes_up": 10**6, "bytes_down": 10**6, "acc": r / 10})
    return path


def test_replay_takes_them_by_their_names(fedhalt, run):
    status, output, errors = fedhalt("replay", run, "--rule", "minutes=2,megabytes=7,acc>=0.5,growth", "--json")
    assert status == 0, errors
    found = {verdict["rule"]: (verdict["stop_round"], verdict["reason"]) for verdict in json.loads(output)}
    assert found == {
        "minutes=2": (3, "time"), "megabytes=7": (4, "traffic"), "acc>=0.5": (5, "target"), "growth": (None, "")
    }  # fmt: skip


def test_replay_repeats_the_rule_that_stopped_the_run(fedhalt, run):
    status, output, _ = fedhalt("replay", run)
    assert status == 0 and "minutes=2" in output and "time spent" in output


@pytest.mark.parametrize(
    "name, message",
    [
        ("minutes", "did you mean 'minutes=90'"),
        ("minutes=0", "minutes must be a finite number above 0, not 0"),
        ("acc>=much", "'much' is not a number"),
        ("hours=3", "not 'hours=3'"),
    ],
)
def test_mistakes_name_the_option(fedhalt, run, name, message):
    status, _, errors = fedhalt("replay", run, "--rule", name)
    assert status == 2 and "--rule" in errors and message in errors.replace("\n", " ")


def test_the_page_shows_such_a_run_and_leaves_the_rule_out(run, tmp_path):
    page = loaded(run, "run")
    assert "problem" not in page and page["watched"] == [] and page["rounds"] == 5
    other = tmp_path / "any.jsonl"
    Trajectory.create(other, rule=rules.to_json(AnyOf(GrowthRate(), Minutes(2)))).append(
        {"distance": 1.0, "seconds": 1.0}
    )
    assert "problem" not in loaded(other, "any")
