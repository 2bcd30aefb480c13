"""The comparison of all ways of stopping: every number can be had by replaying a rule on a record."""

import json
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from fedhalt import GrowthRate, Plateau, Trajectory, stop_round
from fedhalt.cli import app as cli
from fedhalt.rules import named_rule
from fedhalt.tuning import plans as plan
from fedhalt.tuning.compare import compare, stop_of, strategies
from fedhalt.tuning.trial import Cost, Outcome, Trial


def record(distances, updates, losses, accuracy):
    return [
        {"round": r, "distance": d, "update_norm": u, "val_loss": loss, "val_accuracy": 1 / (1 + loss), "seconds": 2.0,
         "bytes_up": 10, "bytes_down": 30, "growth": None, "test_balanced_accuracy": accuracy}
        for r, (d, u, loss) in enumerate(zip(distances, updates, losses, strict=True), start=1)
    ]  # fmt: skip


GOOD = record([float(r**0.9) for r in range(1, 101)], [1.0] * 100, [1 / r for r in range(1, 101)], 0.9)
SLOW = record([float(r**0.5) for r in range(1, 101)], [1.0] * 100, [0.5 / r**0.1 for r in range(1, 101)], 0.6)
THROWN = record([1.0] * 100, [1.0] * 100, [0.3] * 100, 0.1)


@pytest.fixture
def recorded(tmp_path):
    read = plan.plan({"space": {"lr": [0.1, 0.2, 0.3]}, "rounds": 100, "out": str(tmp_path)})
    trials = []
    for number, (spec, rows) in enumerate(zip(read.space.grid(), (GOOD, SLOW, THROWN), strict=True)):
        trajectory = Trajectory.create(tmp_path / spec.id / "trajectory.jsonl")
        for row in rows:
            trajectory.append(row)
        trials.append(Trial(number, spec, read.space.label(spec), Outcome("complete")))
    return read, trials


def test_costs_picks_and_quality_by_hand(recorded):
    rows = {row.strategy: row for row in compare(*recorded)}
    full = rows["no stopping"]
    assert full.cost == Cost(300, 600.0, 12000) and full.share.rounds == 1
    assert (full.pick, full.quality, full.regret) == ("lr=0.1", pytest.approx(0.9), pytest.approx(0))
    loss = rows["validation loss"]
    stops = [stop_round(Plateau("val_loss"), record) for record in (GOOD, SLOW, THROWN)]
    assert loss.cost.rounds == sum(stop or 100 for stop in stops) and loss.pick == "lr=0.1"
    fast = rows["paper, threshold 0.1"]
    assert fast.cost.rounds == sum(stop_round(GrowthRate(0.1), record) for record in (GOOD, SLOW, THROWN))
    ours = rows["wandering alone"]
    assert ours.screened == 1 and ours.best_screened == pytest.approx(0.1)
    assert ours.cost.rounds == 200 + 19 and ours.pick == "lr=0.1"  # w = 1 / sqrt(r) < 0.5 from round 5 on


def test_a_wrong_pick_shows_as_regret(recorded):
    read, trials = recorded
    stages = [named_rule("budget", rounds=2)]  # at round 2 the thrown one has the smallest loss
    assert stop_of(stages, THROWN) == (2, False)
    assert THROWN[1]["val_loss"] < min(GOOD[1]["val_loss"], SLOW[1]["val_loss"])
    accuracy = plan.plan({"space": {"lr": [0.1, 0.2, 0.3]}, "rounds": 2, "out": read.out, "objective": "val_accuracy"})
    (full, *_) = compare(accuracy, trials)
    assert full.pick == "lr=0.3" and full.regret == pytest.approx(0.8)


def test_screened_trials_are_never_picked(recorded):
    read, trials = recorded
    rows = {row.strategy: row for row in compare(read, trials[2:])}
    assert rows["wandering alone"].pick is None and rows["wandering alone"].quality is None
    assert rows["no stopping"].pick == "lr=0.3"


def test_the_plans_own_rules_are_the_ones_compared():
    mine = plan.plan(
        {"space": {"lr": [1.0]}, "screen": {"rule": "growth", "threshold": 0.2}, "converge": {"patience": 7}}
    )
    assert [str(stage) for stage in strategies(mine)["growth, then growth"]] == [
        "growth threshold=0.2 patience=10", "growth threshold=0.01 patience=7",
    ]  # fmt: skip


def test_one_command_records_compares_and_draws(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    text = f"""rounds = 8\nout = "{tmp_path / "runs"}"\n[screen]\nthreshold = 0.95\npatience = 3
    [space]\ndata = "digits"\nclients = 12\ncohort = 4\nepochs = 1\nc = 0.5\nlr = [0.05, 2.0]"""
    (tmp_path / "sweep.toml").write_text(text)

    def call(*args):
        monkeypatch.setattr(sys, "argv", ["fedhalt", "sweep", str(tmp_path / "sweep.toml"), "--compare", *args])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        assert ended.value.code == 0
        return capsys.readouterr()

    rows = json.loads(call("--json").out)["strategies"]
    assert rows[0]["cost"]["rounds"] == 16 > rows[-1]["cost"]["rounds"]
    assert rows[-1]["pick"] == "lr=0.05" and rows[-2]["screened"] == 1
    lengths = [len(Trajectory.load(path)) for path in (tmp_path / "runs").glob("*/trajectory.jsonl")]
    assert lengths == [8, 8]  # recorded to the full budget, once
    shown = call("--picture", str(tmp_path / "mine.png")).out
    assert "no stopping" in shown and "picks" in shown and (tmp_path / "mine.png").stat().st_size > 5000
    assert (tmp_path / "runs" / "compare.png").read_bytes()[:4] == b"\x89PNG"
