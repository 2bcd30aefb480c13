"""Fed-BioMed itself: a researcher and two nodes as processes on 127.0.0.1."""

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack

import numpy as np
import pytest

pytest.importorskip("fedbiomed", reason="Fed-BioMed has an environment of its own: make test-adapters")

import psutil
from helpers.commands import LIMIT, free_port, started
from helpers.places import ROOT

from fedhalt import EarlyStopper, FedhaltError, Trajectory
from fedhalt.integrations.fedbiomed import run_until

pytestmark = pytest.mark.adapters

RULE = {"threshold": 0.15, "patience": 2}
ROUNDS, NODES = 9, ("one", "two")
FEDBIOMED = [sys.executable, "-c", "from fedbiomed.cli import run; run()"]
RESEARCHER = [sys.executable, ROOT / "tests" / "helpers" / "fedbiomed_researcher.py"]


def call(folder, *line):
    done = subprocess.run([*map(str, line)], cwd=folder, capture_output=True, text=True, timeout=4 * LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr


def configured(folder, port):
    path = folder / "etc" / "config.ini"
    path.write_text(path.read_text().replace("port = 50051", f"port = {port}"))  # on localhost, as its certificate says


def end_children(process):
    """The command `node start` keeps the node itself as a child."""
    for child in psutil.Process(process.pid).children(recursive=True):
        child.kill()


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """Two nodes with their data, running; the folder of the researcher beside them."""
    folder, port = tmp_path_factory.mktemp("fedbiomed"), free_port()
    create = [*FEDBIOMED, "component", "create", "-c"]
    call(folder, *create, "RESEARCHER", "-p", folder / "researcher")
    configured(folder / "researcher", port)
    with ExitStack() as processes:
        for number, name in enumerate(NODES, 1):
            call(folder, *create, "NODE", "-p", folder / name, "-n", name)
            configured(folder / name, port)
            call(folder, sys.executable, ROOT / "examples" / "fedbiomed" / "hospital.py", folder / name, number)
            node = [*FEDBIOMED, "node", "-p", folder / name]
            call(folder, *node, "dataset", "add", "--file", folder / name / "patients.json")
            output = (folder / f"{name}.log").open("w")
            process = started(*node, "start", limit=12 * LIMIT, cwd=folder, stdout=output, stderr=output)
            processes.callback(end_children, processes.enter_context(process))
        yield folder


def run(folder, what, kept, *dies, **options):
    """A researcher's program from its beginning to its end, which may be a kill: the models it has kept, by round."""
    log = folder / f"{kept.name}.log"
    env = {**os.environ, "FBM_RESEARCHER_COMPONENT_ROOT": str(folder / "researcher")}
    line = [*RESEARCHER, what, kept, json.dumps(options), *dies]
    with (
        log.open("w") as output,
        started(*line, limit=4 * LIMIT, cwd=folder, stdout=output, stderr=output, env=env) as process,
    ):
        assert process.wait() == (-signal.SIGKILL if dies else 0), log.read_text()
    return {int(path.stem): dict(np.load(path)) for path in kept.glob("[0-9]*.npz")}


def same(a, b):
    return a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module")
def full(federation):
    """A run of full length without fedhalt, its models replayed: the round at which the rule stops, and its models."""
    models = run(federation, "full", federation / "full")
    assert sorted(models) == list(range(ROUNDS + 1))
    stopper = EarlyStopper(models[0], **RULE)
    return next(r for r in range(1, ROUNDS) if stopper.update(models[r]).stop), models


def test_an_experiment_stops_where_the_full_run_replayed_says_with_that_rounds_model(federation, full, tmp_path):
    stop, models = full
    kept = federation / "stopped"
    found = run(federation, "stop", kept, **RULE, average=3, trajectory=str(tmp_path / "trajectory.jsonl"))
    assert sorted(found) == list(range(stop + 1)) and all(same(found[r], models[r]) for r in found)
    assert same(dict(np.load(kept / "final.npz")), models[stop])
    mean = np.mean([models[r]["weight"] for r in range(stop - 2, stop + 1)], axis=0)
    assert np.load(kept / "average.npz")["weight"] == pytest.approx(mean)
    record = Trajectory.load(tmp_path / "trajectory.jsonl")
    assert len(record) == stop and record.header["budget"] == ROUNDS
    told, replies = (kept / "told").read_text().splitlines()
    assert told.startswith(f"stopped after round {stop} ") and int(replies) == stop
    log = (federation / "stopped.log").read_text()
    assert log.count(": TRAIN\n") == stop * len(NODES), "something was sent after the stop"


@pytest.mark.parametrize(("dies", "restored"), [("round", 4), ("breakpoint", 3)])
def test_a_killed_researcher_goes_on_from_the_last_breakpoint(federation, full, tmp_path, dies, restored):
    stop, models = full
    trajectory = tmp_path / "trajectory.jsonl"
    options = {**RULE, "state": str(tmp_path / "state"), "trajectory": str(trajectory)}
    run(federation, "stop", federation / f"killed-{dies}", dies, **options)
    assert len(Trajectory.load(trajectory)) == 4
    found = run(federation, "resume", federation / f"resumed-{dies}", **options)
    assert sorted(found) == list(range(restored, stop + 1)) and all(same(found[r], models[r]) for r in found)
    assert [row["round"] for row in Trajectory.load(trajectory).rows] == list(range(1, stop + 1))


class Unlimited:
    def round_limit(self):
        return None


def test_an_experiment_without_a_limit_is_refused():
    with pytest.raises(FedhaltError, match="has no round limit"):
        run_until(Unlimited())
