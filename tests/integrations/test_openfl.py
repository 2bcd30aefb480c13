"""OpenFL itself: an aggregator and two collaborators as processes, talking over 127.0.0.1."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack

import numpy as np
import pytest

pytest.importorskip("openfl", reason="OpenFL has an environment of its own: make test-adapters")

import yaml
from helpers.commands import LIMIT, free_port, started, wait_for
from helpers.places import ROOT
from openfl.pipelines import NoCompressionPipeline
from openfl.protocols import utils

from fedhalt import EarlyStopper, FedhaltError, Trajectory
from fedhalt.integrations.openfl import Aggregator

pytestmark = pytest.mark.adapters

RULE = {"threshold": 0.15, "patience": 2}
ROUNDS, SITES = 9, ("one", "two")
FX = [sys.executable, "-m", "openfl.interface.cli"]
AGGREGATOR = [sys.executable, ROOT / "tests" / "helpers" / "openfl_aggregator.py"]


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """The example with its initial model, made by OpenFL's own command."""
    folder = tmp_path_factory.mktemp("openfl") / "example"
    shutil.copytree(ROOT / "examples" / "openfl", folder)
    for name in ("save", "logs", "cert", "local_state"):
        (folder / name).mkdir()
    done = subprocess.run([*FX, "plan", "initialize"], cwd=folder, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def prepare(example, folder, early_stopping):
    """A copy of the example under another rule, or without fedhalt."""
    shutil.copytree(example, folder)
    plan = yaml.safe_load((folder / "plan" / "plan.yaml").read_text())
    if early_stopping is None:
        plan["aggregator"]["template"] = "openfl.component.Aggregator"
        del plan["aggregator"]["settings"]["early_stopping"]
    else:
        plan["aggregator"]["settings"]["early_stopping"] = early_stopping
    plan["aggregator"]["settings"]["rounds_to_train"] = ROUNDS
    plan["network"]["settings"]["agg_port"] = free_port()
    (folder / "plan" / "plan.yaml").write_text(yaml.safe_dump(plan))
    return folder


def process(folder, name, *line):
    output = (folder / f"{name}.log").open("w")
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])}
    return started(*line, limit=4 * LIMIT, cwd=folder, stdout=output, stderr=output, env=env)


def federate(folder, kill_after=None):
    """Runs the experiment to its end; the aggregator may be killed after a round and started again."""
    with ExitStack() as processes:
        for site in SITES:
            processes.enter_context(process(folder, site, *FX, "collaborator", "start", "-n", site))
        if kill_after is not None:
            with process(folder, "killed", *AGGREGATOR, folder / "first") as aggregator:
                kept = folder / "first" / f"{kill_after}.npz"
                wait_for(f"round {kill_after}", kept.exists, aggregator, seconds=4 * LIMIT)
                aggregator.send_signal(signal.SIGKILL)
        with process(folder, "aggregator", *AGGREGATOR, folder / "kept") as aggregator:
            assert aggregator.wait(4 * LIMIT) == 0, (folder / "aggregator.log").read_text()
    return models(folder / "kept")


def models(kept):
    return {int(path.stem): dict(np.load(path)) for path in kept.glob("*.npz")}


def saved(path):
    return utils.deconstruct_model_proto(utils.load_proto(path), NoCompressionPipeline())[0]


def same(a, b):
    return all(np.array_equal(a[name], b[name]) for name in ("linear.weight", "linear.bias"))


@pytest.fixture(scope="module")
def full(example, tmp_path_factory):
    """A run of full length without fedhalt, its models replayed: the round at which the rule stops, and its models."""
    folder = prepare(example, tmp_path_factory.mktemp("full") / "run", None)
    kept = federate(folder)
    assert sorted(kept) == list(range(1, ROUNDS + 1))
    start = saved(folder / "save" / "init.pbuf")
    names = [name for name in start if name.startswith("linear")]
    stopper = EarlyStopper({name: start[name] for name in names}, **RULE)
    stop = next(r for r in range(1, ROUNDS) if stopper.update({name: kept[r][name] for name in names}).stop)
    return stop, kept


def test_an_experiment_stops_where_the_full_run_replayed_says_with_that_rounds_model(example, full, tmp_path):
    stop, kept = full
    options = {**RULE, "trajectory": "logs/trajectory.jsonl", "average": 3}
    folder = prepare(example, tmp_path / "run", options)
    assert sorted(federate(folder)) == list(range(1, stop + 1))
    record = Trajectory.load(folder / "logs" / "trajectory.jsonl")
    assert len(record) == stop and record.header["budget"] == ROUNDS
    assert 0 <= record.rows[-1]["client_accuracy_aggregated_model_validation"] <= 1
    assert same(saved(folder / "save" / "last.pbuf"), kept[stop])
    assert len((folder / "kept" / "sent").read_text().splitlines()) == stop * len(SITES), "tasks after the stop"
    mean = np.mean([kept[r]["linear.weight"] for r in range(stop - 2, stop + 1)], axis=0)
    assert saved(folder / "save" / "average.pbuf")["linear.weight"] == pytest.approx(mean)


def test_a_killed_aggregator_goes_on_as_if_it_had_not_been(example, full, tmp_path):
    stop, kept = full
    options = {**RULE, "trajectory": "logs/trajectory.jsonl", "state": "save/fedhalt"}
    folder = prepare(example, tmp_path / "run", options)
    federate(folder, kill_after=3)
    assert [row["round"] for row in Trajectory.load(folder / "logs" / "trajectory.jsonl").rows] == [*range(1, stop + 1)]
    assert same(saved(folder / "save" / "last.pbuf"), kept[stop])


def test_mistakes_are_said_before_the_experiment():
    with pytest.raises(FedhaltError, match="threshold"):
        Aggregator(early_stopping={"threshold": -1})
