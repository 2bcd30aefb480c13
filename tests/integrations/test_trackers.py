"""Trackers: what was written is read back, under the same names, every round once, however often the run went on."""

import json
import math
import sqlite3
import subprocess
import sys
from typing import ClassVar

import pytest
from helpers import commands
from helpers.specs import SMALL, as_options

from fedhalt import GrowthRate, Trajectory, replay
from fedhalt.errors import FedhaltError, MissingExtra
from fedhalt.integrations import trackers, wandb_files
from fedhalt.records.judging import metrics
from fedhalt.rules import named_rule

SPEC = {**SMALL, "lr": 0.05}
RULE = "--rule growth --threshold 0.9 --patience 3 --stop never --workers 1".split()


def from_tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0, "tensors": 0}).Reload()
    points = {tag: [(event.step, event.value) for event in found.Scalars(tag)] for tag in found.Tags()["scalars"]}
    return points, found.Tensors("config/text_summary")[0].tensor_proto.string_val[0].decode()


def from_mlflow(folder):
    with sqlite3.connect(folder.parent / "mlflow.db") as base:
        (run,) = base.execute("select run_uuid from tags where value = ?", [folder.name]).fetchone()
        rows = base.execute(
            "select key, step, value, is_nan from metrics where run_uuid = ? order by step", [run]
        ).fetchall()
        config = dict(base.execute("select key, value from params where run_uuid = ?", [run]).fetchall())
    base.close()
    points = {}
    for key, step, value, is_nan in rows:
        points.setdefault(key, []).append((step, math.nan if is_nan else value))
    return points, json.dumps(config)


def from_wandb(folder):
    points, config = {}, {}
    for file in sorted(folder.glob("wandb/offline-run-*/*.wandb")):
        for entry in wandb_files.records(file):
            if entry.WhichOneof("record_type") == "history":
                for item in entry.history.item:
                    key = item.key or "/".join(item.nested_key)
                    points.setdefault(key, []).append((entry.history.step.num, json.loads(item.value_json)))
            if entry.WhichOneof("record_type") == "run":
                config |= {item.key: json.loads(item.value_json) for item in entry.run.config.update}
    return {key: value for key, value in points.items() if not key.startswith("_")}, json.dumps(config)


READ = {"tensorboard": from_tensorboard, "mlflow": from_mlflow, "wandb": from_wandb}


def test_each_tracker_holds_every_round_once_under_the_same_names(tmp_path):
    for package in ("torch", "sklearn", "tensorboard", "mlflow", "wandb"):
        pytest.importorskip(package)
    from fedhalt.simulation.runner import run
    from fedhalt.simulation.spec import RunSpec

    run(RunSpec(**SPEC), tmp_path, rounds=2, watch=[], workers=1)  # begun without a tracker
    for rounds in (4, 6):
        more = ["--rounds", rounds, "--out", tmp_path, "--track", ",".join(READ), "--json"]
        summary = json.loads(commands.run("run", *as_options(SPEC), *RULE, *more).stdout)
        assert summary["rounds"] == rounds
    (path,) = tmp_path.glob("*/trajectory.jsonl")
    rows = Trajectory.load(path).rows
    recorded = {
        name: [(row["round"], row[name]) for row in rows if row[name] is not None] for name in metrics(rows[-1])
    }
    stop = summary["rules"][0]["stop_round"]
    assert stop in range(3, 7)
    for name, read in READ.items():
        points, config = read(path.parent)
        assert points.pop("stop_round/growth") == [(stop, stop)], name
        exponents = [(s.round, s.exponent) for s in replay(GrowthRate(), rows) if s.exponent is not None]
        assert dict(points.pop("exponent")) == pytest.approx(dict(exponents), rel=1e-6) and len(exponents) == 5, name
        assert points.keys() == recorded.keys(), name
        for column, expected in recorded.items():
            assert [step for step, _ in points[column]] == [step for step, _ in expected], (name, column)
            assert [v for _, v in points[column]] == pytest.approx([v for _, v in expected], rel=1e-6), (name, column)
        assert "dirichlet" in config and "growth threshold=0.9 patience=3" in config, name


def test_wandb_has_written_everything_when_it_is_closed(tmp_path):
    pytest.importorskip("wandb")
    record = Trajectory.create(tmp_path / "trajectory.jsonl")
    for r in range(1, 91):  # more than two of its blocks of 32 KiB
        record.append({f"column_{k}": r + k / 7 for k in range(20)})
    code = (
        "import sys; from pathlib import Path; from fedhalt.integrations import trackers, wandb_files\n"
        "folder = Path(sys.argv[1])\nwith trackers.Tracking(['wandb'], folder, [], {}): pass\n"
        "print(sorted(step for file in folder.glob('wandb/offline-run-*/*.wandb') for step in wandb_files.steps(file)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, timeout=commands.LIMIT
    )
    assert done.stdout.splitlines()[-1] == str(list(range(1, 91))), done.stderr
    (file,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    assert file.stat().st_size > 2 * 32_768
    file.write_bytes(file.read_bytes()[:-100])  # as a kill may leave it
    assert max(wandb_files.steps(file)) in (89, 90)


class Listing(trackers.Tracker):
    """Writes to a list, for the questions that have nothing to do with a package."""

    package = "json"
    written: ClassVar = []

    def __init__(self, folder, config):
        self.last = max((r for r, _ in self.written), default=0)

    def log(self, r, values):
        self.written.append((r, values))

    def close(self):
        self.written.append((-1, {}))


def test_rounds_that_a_killed_process_did_not_tell_are_told_by_the_next(tmp_path, monkeypatch):
    monkeypatch.setitem(trackers.TRACKERS, "list", Listing)
    record = Trajectory.create(tmp_path / "trajectory.jsonl")
    for r in range(1, 4):
        record.append({"distance": float(r), "growth": None, "val_loss": math.nan, "cohort": [1]})
    Listing.written = [(1, {})]  # it was killed after the first
    with trackers.Tracking(["list", "list"], tmp_path, [named_rule("budget", rounds=3)], {}) as tracking:
        record.append({"distance": 4.0})
        tracking(record.rows[-1])
    assert [r for r, _ in Listing.written] == [1, 2, 3, 4, -1]
    assert Listing.written[1][1].keys() == {"distance", "val_loss", "exponent"}
    assert Listing.written[2][1]["stop_round/budget"] == 3.0 and "stop_round/budget" not in Listing.written[3][1]


def test_a_run_that_never_began_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setitem(trackers.TRACKERS, "list", Listing)
    Listing.written = []
    with pytest.raises(FedhaltError), trackers.Tracking(["list"], tmp_path / "run", [], {}):
        raise FedhaltError("a mistake in the settings")
    assert Listing.written == [] and not (tmp_path / "run").exists()


def test_a_tracker_that_is_unknown_or_not_installed_is_named_before_anything_trains(tmp_path, monkeypatch):
    with pytest.raises(FedhaltError, match="did you mean 'mlflow'"):
        trackers.Tracking(["mlfow"], tmp_path, [], {})
    monkeypatch.setattr(trackers.WandB, "package", "no_such_package")
    with pytest.raises(MissingExtra, match=r"pip install '\.\[no_such_package\]'"):
        trackers.available(["wandb"])


def test_a_sweep_tracks_each_trial_as_a_run(tmp_path):
    for package in ("torch", "sklearn", "tensorboard"):
        pytest.importorskip(package)
    from fedhalt.tuning.plans import plan
    from fedhalt.tuning.sweeps import sweep

    table = {"rounds": 3, "screen": False, "out": str(tmp_path), "space": {**SPEC, "lr": [0.05, 0.1]}}
    for trial in sweep(plan(table), observers=[trackers.Trackers(["tensorboard"])]):
        assert [step for step, _ in from_tensorboard(tmp_path / trial.spec.id)[0]["distance"]] == [1, 2, 3]
    with pytest.raises(FedhaltError, match="did you mean 'wandb'"):
        trackers.Trackers(["wanb"])
