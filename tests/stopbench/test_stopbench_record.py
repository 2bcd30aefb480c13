"""How StopBench is made: trained, interrupted, gone on with, packed; and what the package holds of it."""

from __future__ import annotations

import numpy as np
import pytest

from fedhalt import Trajectory
from fedhalt.stopbench.runs import PACKED, load

pytest.importorskip("torch")
from fedhalt.paper.setting import METHODS, Need
from fedhalt.simulation.runner import run
from fedhalt.simulation.spec import RunSpec
from fedhalt.stopbench import setting
from fedhalt.stopbench.record import missing, pack_recorded

FEW = {"data": "digits", "clients": 10, "cohort": 2, "epochs": 1, "skew": "iid"}


@pytest.fixture
def two(monkeypatch):
    """A set of two short runs."""
    needs = [Need(RunSpec(lr=rate, **FEW), 4) for rate in (0.1, 0.2)]
    monkeypatch.setattr(setting, "needs", lambda: iter(needs))
    monkeypatch.setattr(setting, "ROUNDS", 4)
    return needs


def test_runs_that_are_not_at_their_end_are_missing_and_not_packed(two, tmp_path):
    said = []
    folder = tmp_path / "set"
    run(two[0].spec, tmp_path, rounds=2, watch=[], stop="never")
    assert missing(two, tmp_path, folder) == two
    run(two[0].spec, tmp_path, rounds=6, watch=[], stop="never")
    assert missing(two, tmp_path, folder) == two[1:]
    pack_recorded(two, tmp_path, folder, said.append)
    assert said[0].startswith("1 of 2 runs packed into 1 files")
    assert [path.name for path in (tmp_path / "set").iterdir()] == ["digits-cnn-0.1.safetensors.gz"]
    assert [len(each.rows) for each in load(folder)] == [4], "cut to the rounds of the set"


def test_what_is_packed_stays_without_its_run_folders_until_it_leaves_the_set(two, tmp_path):
    folder, said = tmp_path / "set", []
    for need in two:
        run(need.spec, tmp_path / "runs", rounds=4, watch=[], stop="never")
    pack_recorded(two, tmp_path / "runs", folder, said.append)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    pack_recorded(two, tmp_path / "nowhere", folder, said.append)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before and len(before) == 2
    assert missing(two, tmp_path / "nowhere", folder) == []
    pack_recorded(two[:1], tmp_path / "nowhere", folder, said.append)
    assert [path.name for path in folder.iterdir()] == ["digits-cnn-0.1.safetensors.gz"]


def test_one_command_trains_what_is_missing_and_packs_it(two, fedhalt, tmp_path, monkeypatch):
    monkeypatch.setattr("fedhalt.stopbench.runs.PACKED", tmp_path / "none" / "trajectories")
    run(two[0].spec, tmp_path / "runs", rounds=2, watch=[], stop="never")
    where = ["--out", tmp_path / "runs", "--results", tmp_path]
    code, out, errors = fedhalt(
        "stopbench", "--set", 1, "--record", *where, "--tune", "digits", "--rule", "growth", "--parallel", 1
    )
    assert code == 0, errors
    assert "2 of 2 runs packed into 2 files" in errors and "tuned on: 2 runs" in out
    whole = RunSpec(lr=0.1, **FEW)
    run(whole, tmp_path / "whole", rounds=4, watch=[], stop="never")
    recorded = Trajectory.load(tmp_path / "whole" / whole.id / "trajectory.jsonl")
    again = next(each for each in load(tmp_path / "stopbench" / "trajectories") if each.name == whole.id)
    assert [row["distance"] for row in again.rows] == pytest.approx(recorded.column("distance").tolist(), rel=1e-6)


def test_the_set_is_what_its_card_says():
    needs = list(setting.needs())
    assert len({need.spec.id for need in needs}) == len(needs)
    assert all(need.rounds >= 300 for need in needs)
    assert {need.spec.data for need in needs} == {"blood", "derma", "digits"}
    for task in ("blood", "derma", "digits"):
        probes = [need.spec for need in needs if need.spec.data == task and need.spec.model.startswith("probe:")]
        assert {spec.method for spec in probes} == set(METHODS)
        assert {spec.skew for spec in probes} == {"dirichlet", "pathological", "quantity"}
        assert len({spec.lr for spec in probes}) == 4 and len({spec.seed for spec in probes}) == 3


def test_runs_of_the_package_are_neither_trained_nor_packed_again(two, fedhalt, tmp_path, monkeypatch):
    for need in two:
        run(need.spec, tmp_path / "runs", rounds=4, watch=[], stop="never")
    pack_recorded(two[:1], tmp_path / "runs", tmp_path / "packaged" / "trajectories", print)
    monkeypatch.setattr("fedhalt.stopbench.runs.PACKED", tmp_path / "packaged" / "trajectories")
    where = ["--out", tmp_path / "runs", "--results", tmp_path / "results", "--tune", "digits", "--rule", "growth"]
    code, out, errors = fedhalt("stopbench", "--set", 1, "--record", *where)
    assert code == 0 and "1 of 1 runs packed into 1 files" in errors and "tuned on: 2 runs" in out
    assert "with 1 runs of" in errors
    assert [each.name for each in load(tmp_path / "results" / "stopbench" / "trajectories")] == [two[1].spec.id]


def test_the_package_holds_every_run_of_the_set_and_no_large_file():
    assert all(path.stat().st_size < 1e6 for path in PACKED.iterdir())
    found = load(PACKED)
    assert sorted(each.name for each in found) == sorted(need.spec.id for need in setting.needs())
    for each in found:
        assert len(each.rows) >= 300 or not np.isfinite(each.rows[-1]["distance"])
        assert RunSpec(**{**each.spec, "hyperparameters": tuple(each.spec["hyperparameters"].items())}).id == each.name
