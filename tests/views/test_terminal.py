"""What tables show: six or seven columns that fit 80 characters, readable names, the rest where it is asked for."""

import io
import json

import pytest
from rich.console import Console

from fedhalt import GrowthRate, Trajectory, stop_round
from fedhalt.rules import named_rules, to_json
from fedhalt.views.names import short_names
from fedhalt.views.terminal.display import Column, columns_table, print_table

SPEC = {"data": "digits", "method": "fedavg", "lr": 0.05, "skew": "dirichlet", "c": 0.5, "seed": 0,
        "hyperparameters": {"server_lr": 1.0}}  # fmt: skip


@pytest.fixture
def recorded(tmp_path):
    """Two runs of 60 of 200 rounds that differ in their learning rate."""
    for lr in (0.05, 0.1):
        folder = tmp_path / "runs" / f"digits-fedavg-dirichlet-0.5-s0-{'ab' * 8}-{lr}"
        header = {"spec": {**SPEC, "lr": lr}, "budget": 200}
        trajectory = Trajectory.create(folder / "trajectory.jsonl", **header)
        for r in range(1, 61):
            accuracy = 0.0 if r == 30 else r / 100
            trajectory.append({"distance": r**lr, "val_loss": 1 / r, "test_accuracy": accuracy, "extra": 2.0 * r})
    return tmp_path / "runs"


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def test_a_folder_of_runs_fits_80_columns(recorded, said, narrow):
    shown = said("replay", recorded)
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80 and lines[0].split() == ["run", "rule", "stop", "saved", "accuracy", "why"]
    assert lines[1].startswith("lr 0.05  growth") and lines[2].startswith("lr 0.1   growth") and "abab" not in shown
    assert "growth: threshold 0.01, patience 10, needs no data" in shown and "of 200 rounds" in shown


def test_saved_is_against_the_budget_and_accuracy_a_mean_of_five(recorded, said):
    first, _ = json.loads(said("replay", recorded, "--threshold", 0.002, "--patience", 3, "--json"))
    stop = stop_round(GrowthRate(0.002, 3), [r**0.05 for r in range(1, 61)])
    assert first["stop_round"] == stop and first["saved"] == 1 - stop / 200 and first["planned"] == 200
    values = [0.0 if r == 30 else r / 100 for r in range(stop - 4, stop + 1)]
    assert stop > 5 and first["accuracy"] == pytest.approx(sum(values) / 5) and first["metric"] == "test_accuracy"


def test_the_latest_budget_counts(recorded, said):
    for folder in recorded.iterdir():
        (folder / "summary.json").write_text(json.dumps({"budget": 400}))
    assert {one["planned"] for one in json.loads(said("replay", recorded, "--json"))} == {400}
    for folder in recorded.iterdir():
        (folder / "summary.json").write_text(json.dumps({"budget": 10}))  # fewer than are recorded
    assert {one["planned"] for one in json.loads(said("replay", recorded, "--json"))} == {60}


def test_columns_are_chosen_and_wide_shows_all(recorded, said, narrow):
    shown = said("replay", recorded, "--columns", "run,stop,extra").splitlines()
    assert shown[0].split() == ["run", "stop", "extra"]
    wide = said("replay", recorded, "--wide").splitlines()
    assert {"threshold", "model", "file", "extra", "val_loss"} <= set(wide[0].split()) and "abab" in wide[1]
    assert "did you mean 'stop'" in said("replay", recorded, "--columns", "stopp", code=2)


def test_rules_of_one_name_are_told_apart(recorded, said, narrow):
    shown = said("replay", recorded, "--threshold", "0.01,0.02", "--patience", "5,10")
    assert "growth 0.01/5" in shown and "growth 0.02/10" in shown and "growth: threshold, patience," in shown
    assert "growth 0.02 " in said("replay", recorded, "--threshold", "0.01,0.02")


def test_a_run_is_judged_by_the_rules_that_watched_it(tmp_path, said):
    path = tmp_path / "flower.jsonl"
    trajectory = Trajectory.create(path, rule=to_json(GrowthRate(0.02, 5, start_from_round=9)), budget=100)
    for r in range(1, 101):
        trajectory.append({"distance": r**0.42})
    (found,) = json.loads(said("replay", path, "--json"))
    assert (found["threshold"], found["patience"]) == (0.02, 5)
    assert found["stop_round"] == stop_round(GrowthRate(0.02, 5, start_from_round=9), trajectory)
    (other,) = json.loads(said("replay", path, "--rule", "growth", "--json"))
    assert (other["threshold"], other["patience"]) == (0.01, 10)


def test_the_rules_of_a_summary_are_the_default(recorded, said):
    rules = [
        {"rule": named.name, **named.settings} for named in named_rules(["growth", "val-loss"], {"threshold": [0.2]})
    ]
    for folder in recorded.iterdir():
        (folder / "summary.json").write_text(json.dumps({"rules": rules, "rounds": 60}))
    found = json.loads(said("replay", recorded, "--json"))
    assert [(one["rule"], one["threshold"]) for one in found] == [("growth", 0.2), ("val-loss", 0.2)] * 2


def test_a_column_of_another_name_is_suggested(tmp_path, said):
    (tmp_path / "other.csv").write_text("dist,loss\n1,2\n2,1\n")
    assert "add --column dist" in said("replay", tmp_path / "other.csv", code=2)
    assert "add --column dist" in said("report", tmp_path / "other.csv", code=2)
    said("report", tmp_path / "other.csv", "--column", "dist", "-o", tmp_path / "page.html")
    assert "1 run" in said("report", tmp_path / "other.csv", "--column", "dist", "-o", tmp_path / "page.html")


def test_saved_models_become_a_report(tmp_path, said):
    import numpy as np

    (tmp_path / "models").mkdir()
    for r in range(8):
        np.save(tmp_path / "models" / f"{r}.npy", np.full(3, r**0.5))
    out = tmp_path / "page.html"
    assert "1 run" in said("report", tmp_path / "models", "--checkpoints", "-o", out) and out.stat().st_size > 1000
    assert "--start needs --checkpoints" in said("report", tmp_path / "models", "--start", "x", code=2)


@pytest.mark.parametrize("changes, names", [
    ([{}], ["digits fedavg"]),
    ([{"lr": 0.1}, {"lr": 0.01}], ["lr 0.1", "lr 0.01"]),
    ([{"method": "fedprox", "hyperparameters": {"lam": 0.1}}, {}], ["fedprox", "fedavg"]),
    ([{"c": 0.1, "seed": 1}, {"skew": "iid", "c": 1.0}], ["dirichlet 0.1 seed 1", "iid seed 0"]),
    ([{"hyperparameters": {"lam": 0.1}}, {"hyperparameters": {"lam": 0.2}}], ["lam 0.1", "lam 0.2"]),
    ([{}, {}], ["run-0", "run-1"]),
])  # fmt: skip
def test_runs_are_called_by_what_differs(changes, names):
    assert short_names([{**SPEC, **change} for change in changes], ["run-0", "run-1"][: len(changes)]) == names


def test_runs_without_a_configuration_keep_their_names():
    assert short_names([None, SPEC, {"lr": []}], ["a", "b", "c"]) == ["a", "digits fedavg", "c"]


def test_a_log_of_ci_is_not_redrawn(monkeypatch):
    from rich.console import Console

    from fedhalt.views.terminal.display import redraws

    console = Console(force_terminal=True)
    monkeypatch.setenv("TERM", "xterm")
    assert redraws(console)
    monkeypatch.setenv("CI", "true")
    assert not redraws(console)


def test_a_table_that_is_a_little_too_wide_has_narrow_gaps_and_whole_words():
    columns = [Column("rule", str), Column("why", lambda _: "growth below threshold", words=True)]
    for width, gap in ((29, "  "), (28, " ")):
        out = io.StringIO()
        console = Console(file=out, width=width, color_system=None)
        print_table(columns_table(["drift"], columns), console, wide=False)
        assert out.getvalue().splitlines()[-1].rstrip() == f"drift{gap}growth below threshold"
