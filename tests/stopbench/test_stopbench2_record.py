"""How StopBench 2 is made: its list, what is recorded and left, a kill and a resume, and what a pack keeps of a run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest

from fedhalt import Trajectory
from fedhalt.stopbench.runs import EXACT, LATE, MORE, PACKED, PACKED2, load_packed, of_trajectory, pack

pytest.importorskip("torch")
from fedhalt.paper import plan
from fedhalt.paper.setting import METHODS, NETWORK, Need
from fedhalt.simulation.runner import run
from fedhalt.simulation.spec import RunSpec
from fedhalt.stopbench import setting2
from fedhalt.stopbench.record import missing, overview, pack_recorded

FEW = {"data": "digits", "clients": 10, "cohort": 2, "epochs": 1, "skew": "iid"}


def test_the_list_is_what_the_protocol_says():
    needs = list(setting2.needs())
    assert len({need.spec.id for need in needs}) == len(needs)
    assert all(need.average == 10 and need.rounds in (300, 400) for need in needs)
    good = [need.spec for need in needs if need.spec.lr == 0.1 and need.spec.model.startswith("probe:")]
    assert {spec.method for spec in good} == {*METHODS, "fedadam", "fedavgm"}
    assert {spec.gradient for spec in good} == {"closed"}
    for task in ("blood", "derma", "digits", "fashion"):
        mine = [spec for spec in good if spec.data == task]
        assert {spec.cohort for spec in mine} >= {5, 10, 50} and {spec.lr_decay for spec in mine} == {0.998, 1.0}
        plain = Counter((spec.method, spec.skew) for spec in mine if (spec.cohort, spec.lr_decay) == (10, 0.998))
        assert len(plain) == 36 and set(plain.values()) == {3}, "three seeds of every method under every skew"
    sites = [need.spec for need in needs if need.spec.key == "site"]
    assert {spec.model.partition(":")[0] for spec in sites} == {"probe", "cnn"}
    assert {spec.cohort for spec in sites} == {4}
    large = [need.spec for need in needs if need.spec.lr >= 1 and need.spec.data != "blood"]
    assert len(large) >= 100, "enough of them for forty hopeless runs"


def test_a_beginning_of_the_list_has_every_task_and_every_method():
    first = [need.spec for need in list(setting2.needs())[:156]]
    assert {(spec.data, spec.skew) for spec in first} == {
        *((task, skew) for task in setting2.TASKS for skew in ("dirichlet", "pathological", "quantity")),
        ("derma", "natural"),
    }
    assert {spec.method for spec in first[:48]} == set(setting2.EVERY)


def test_the_network_takes_part_once_it_has_its_rates():
    found = {need.spec.id for need in setting2.needs(NETWORK)} - {need.spec.id for need in setting2.needs()}
    assert found == {need.spec.id for need in plan.lines(NETWORK)}


def test_a_pack_keeps_what_a_run_with_an_average_recorded(tmp_path):
    spec = RunSpec(lr=0.1, **FEW)
    run(spec, tmp_path, rounds=45, watch=[], stop="never", average=10)
    before = of_trajectory(spec.id, Trajectory.load(tmp_path / spec.id / "trajectory.jsonl"))
    pack([before], tmp_path / "packs")
    (after,) = load_packed(tmp_path / "packs")
    assert before.columns == after.columns and set(MORE) <= after.columns
    assert before.rows[0]["drift_20"] is None and before.rows[-1]["drift_20"] > 0
    for old, new in zip(before.rows, after.rows, strict=True):
        for name in before.columns - {"round"}:
            close = 1e-7 if name in EXACT else 2.5e-4
            expected = None if old[name] is None else pytest.approx(old[name], rel=close)
            assert new[name] == expected, name
            assert old[name] is not None or name in LATE
    assert after.average == pytest.approx(before.average, rel=2.5e-4)
    assert after.accuracy == pytest.approx(before.accuracy, rel=2.5e-4)
    assert not np.array_equal(after.average, after.accuracy)
    assert [path.name for path in (tmp_path / "packs").iterdir()] == ["digits-cnn-0.1-iid.safetensors.gz"]


def test_rounds_between_evaluations_are_interpolated(tmp_path):
    spec = RunSpec(lr=0.1, evaluate_every=3, **FEW)
    run(spec, tmp_path, rounds=9, watch=[], stop="never", average=2)
    record = Trajectory.load(tmp_path / spec.id / "trajectory.jsonl")
    third, sixth = (record.rows[r - 1]["test_balanced_accuracy_average"] for r in (3, 6))
    found = of_trajectory(spec.id, record)
    assert found.average is not None
    assert found.average[3:5] == pytest.approx([(2 * third + sixth) / 3, (third + 2 * sixth) / 3])
    assert found.average[0] == third and not np.isnan(found.accuracy).any()


def test_what_is_recorded_and_what_is_left(tmp_path):
    needs = [Need(RunSpec(lr=rate, **FEW), 4, average=2) for rate in (0.1, 0.2)]
    run(needs[0].spec, tmp_path, rounds=4, watch=[], stop="never", average=2)
    assert missing(needs, tmp_path) == needs[1:]
    first, second = overview(needs, tmp_path)
    assert first[:6] == ("digits", "cnn", "0.1", 1, 1, 0) and first.hours == 0
    assert second[:6] == ("digits", "cnn", "0.2", 1, 0, 1) and second.hours > 0


def test_a_run_without_an_average_is_left_out_with_a_sentence(tmp_path):
    need, said = Need(RunSpec(lr=0.1, **FEW), 3, average=2), []
    run(need.spec, tmp_path, rounds=3, watch=[], stop="never")
    pack_recorded([need], tmp_path, tmp_path / "packs", said.append)
    assert "recorded without an average" in said[0] and said[1].startswith("0 of 1 runs packed")


def test_the_packs_of_the_package_stay_small():
    packs = [*PACKED.glob("*.gz"), *PACKED2.glob("*.gz")]
    assert sum(path.stat().st_size for path in packs) <= 12e6
    assert all(path.stat().st_size < 1e6 for path in packs)


SCRIPT = """
import sys
from fedhalt.paper.setting import Need
from fedhalt.simulation.spec import RunSpec
from fedhalt.stopbench import setting2

few = {"data": "digits", "clients": 10, "cohort": 2, "epochs": 1, "skew": "iid"}
needs = [Need(RunSpec(lr=rate, **few), 30, average=10) for rate in (0.1, 0.2)]
setting2.needs = lambda network=None: iter(needs)
from fedhalt.cli.app import main
main()
"""


def test_a_kill_loses_nothing_and_the_same_command_resumes(tmp_path):
    asked = ["stopbench", "--set", "2", "--record", "--list", "--parallel", "1", "--results", str(tmp_path / "results")]
    command = [sys.executable, "-c", SCRIPT, *asked, "--out", str(tmp_path / "runs")]
    process = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len([*_lines(tmp_path)]) < 8:
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "results" / "stopbench2" / "trajectories").exists()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "2 of 2 runs packed into 2 files" in done.stderr
    found = load_packed(tmp_path / "results" / "stopbench2" / "trajectories")
    for each in found:
        spec = RunSpec(lr=each.spec["lr"], **FEW)
        run(spec, tmp_path / "whole", rounds=30, watch=[], stop="never", average=10)
        whole = Trajectory.load(tmp_path / "whole" / spec.id / "trajectory.jsonl")
        mine = Trajectory.load(tmp_path / "runs" / spec.id / "trajectory.jsonl")
        for name in ("distance", "drift_10", "test_balanced_accuracy_average"):
            assert np.array_equal(mine.column(name), whole.column(name), equal_nan=True), name


def _lines(folder):
    for path in (folder / "runs").glob("*/trajectory.jsonl"):
        yield from path.read_bytes().splitlines()
