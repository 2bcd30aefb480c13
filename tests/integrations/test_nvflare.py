"""NVIDIA FLARE itself: jobs in its simulator and in a deployment of real processes on 127.0.0.1."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("nvflare", reason="FLARE has an environment of its own: make test-adapters")

import psutil
from helpers.commands import LIMIT, started, wait_for
from helpers.places import ROOT
from safetensors.numpy import load_file

from fedhalt import AnyOf, Budget, EarlyStopper, FedhaltError, GrowthRate, Trajectory, stop_round
from fedhalt.integrations.nvflare import EarlyStopping

pytestmark = pytest.mark.adapters

JOB = ROOT / "tests" / "helpers" / "flare" / "job.py"
RULE = {"threshold": 0.1, "patience": 2}
ROUNDS, CLIENTS = 9, 2


def line(folder, **given):
    folder.mkdir(exist_ok=True)
    return [sys.executable, JOB, json.dumps({"rounds": ROUNDS, "folder": str(folder), **given})]


def run(folder, **given):
    """A job from its beginning to its end: its folder on the server."""
    env = {**os.environ, "HOME": str(folder), "NVFLARE_POC_WORKSPACE": str(folder / "poc")}
    done = subprocess.run(line(folder, **given), capture_output=True, text=True, timeout=4 * LIMIT, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "workspace" / "server" / "simulate_job"


def models(folder):
    kept = {int(path.stem): np.load(path) for path in folder.glob("*.npy")}
    return [kept[r] for r in sorted(kept)]


def sent(folder):
    return len((folder / "sent").read_text().splitlines())


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A run of full length without fedhalt, its models replayed: the round at which the rule stops, and its models."""
    folder = tmp_path_factory.mktemp("full")
    run(folder, controller="FedAvg")
    kept = models(folder)
    assert len(kept) == ROUNDS and sent(folder) == ROUNDS * CLIENTS
    stopper = EarlyStopper(np.zeros(4, np.float32), **RULE)
    stop = next(r for r, model in enumerate(kept, 1) if stopper.update(model).stop)
    assert 3 < stop < ROUNDS
    return stop, kept


@pytest.mark.parametrize("controller", ["FedAvg", "Scaffold", "ScatterAndGather"])
def test_a_job_stops_where_the_full_run_replayed_says_with_that_rounds_model(full, tmp_path, controller):
    stop, kept = full
    stopping = {**RULE, "trajectory": "trajectory.jsonl", "average": 3}
    folder = run(tmp_path, controller=controller, stopping=stopping)
    record = Trajectory.load(folder / "trajectory.jsonl")
    assert len(record) == stop and record.header["budget"] == ROUNDS
    assert all(map(np.array_equal, models(tmp_path), kept[:stop])) and len(models(tmp_path)) == stop
    assert np.array_equal(np.load(folder / "models" / "server.npy"), kept[stop - 1])
    assert sent(tmp_path) == stop * CLIENTS, "something was sent after the stop"
    average = load_file(folder / "average.safetensors")["numpy_key"]
    assert average == pytest.approx(np.mean(kept[stop - 3 : stop], axis=0))
    if controller != "ScatterAndGather":
        assert record.rows[0]["client_loss"] > record.rows[-1]["client_loss"]


def test_a_killed_job_is_continued_by_the_next_one(full, tmp_path):
    stop, kept = full
    trajectory = tmp_path / "trajectory.jsonl"
    stopping = {**RULE, "state": str(tmp_path / "state"), "trajectory": str(trajectory)}
    first = tmp_path / "first"
    output = (tmp_path / "output").open("w")
    given = line(first, controller="FedAvg", stopping=stopping)
    with started(*given, stdout=output, stderr=output) as process:
        # the model of round 3 is saved before round 4 is sent
        wait_for("round 4", lambda: (first / "3.npy").exists() and sent(first) > 3 * CLIENTS, process)
        for part in psutil.Process(process.pid).children(recursive=True):  # the server is one of them
            part.kill()
    server = np.load(first / "workspace" / "server" / "simulate_job" / "models" / "server.npy")
    done = next(r for r, model in enumerate(kept, 1) if np.array_equal(model, server))
    np.save(tmp_path / "resumed.npy", server)
    left = {"start": done, "rounds": ROUNDS - done, "model": str(tmp_path / "resumed.npy")}
    run(tmp_path / "second", controller="FedAvg", stopping=stopping, **left)
    assert [row["round"] for row in Trajectory.load(trajectory).rows] == list(range(1, stop + 1))
    assert np.array_equal(models(tmp_path / "second")[-1], kept[stop - 1])
    assert sent(tmp_path / "second") == (stop - done) * CLIENTS


def test_a_deployment_of_real_processes_stops_in_the_same_round(full, tmp_path):
    stop, kept = full
    stopping = {"rule": {"type": "GrowthRate", **RULE}, "trajectory": str(tmp_path / "trajectory.jsonl")}
    run(tmp_path, controller="FedAvg", stopping=stopping, env="poc")
    assert len(Trajectory.load(tmp_path / "trajectory.jsonl")) == stop
    assert np.array_equal(models(tmp_path)[-1], kept[stop - 1]) and sent(tmp_path) == stop * CLIENTS


def test_the_example_with_a_recipe_stops_by_itself(tmp_path):
    shutil.copytree(ROOT / "examples" / "nvflare", tmp_path / "example")
    script = tmp_path / "example" / "job.py"
    here = f"(num_clients=2, workspace_root={str(tmp_path / 'workspace')!r})"
    script.write_text(script.read_text().replace("(num_clients=2)", here))
    line = [sys.executable, script]
    done = subprocess.run(line, cwd=script.parent, capture_output=True, text=True, timeout=4 * LIMIT)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    record = Trajectory.load(next((tmp_path / "workspace").rglob("trajectory.jsonl")))
    assert record.header["budget"] == 100
    assert len(record) == stop_round(GrowthRate(0.05, 3), [row["distance"] for row in record.rows])
    assert output.count("trained in round") == len(record) * CLIENTS


def test_an_error_ends_the_job_instead_of_letting_it_run_unwatched(tmp_path):
    given = line(tmp_path, controller="FedAvg", stopping={**RULE, "include": ["no-such-array"]})
    done = subprocess.run(given, capture_output=True, text=True, timeout=LIMIT)
    assert "no-such-array" in done.stdout + done.stderr and not (tmp_path / "sent").exists()


def test_mistakes_are_said_where_the_job_is_made():
    with pytest.raises(FedhaltError, match="threshold"):
        EarlyStopping(threshold=-1)
    with pytest.raises(FedhaltError, match="state='here' must be absolute"):
        EarlyStopping(state="here")
    rule = AnyOf(GrowthRate(0.1, 2), Budget(5))
    assert EarlyStopping(rule=EarlyStopping(rule=rule).rule).watch.rule == rule
