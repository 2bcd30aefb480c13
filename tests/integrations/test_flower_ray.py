"""On Flower's simulation engine, real Ray actors: three strategies always, everything by `make test-flower`."""

import itertools
import json
import logging
import os
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

from helpers import on_ray
from helpers.places import ROOT
from test_flower import STRATEGIES, start

from fedhalt import methods as ours
from fedhalt.integrations.flower import EarlyStopping
from fedhalt.simulation import engine
from fedhalt.simulation.federation import Federation
from fedhalt.simulation.spec import RunSpec

SHORT = ["FedAvg", "FedAdam", "DifferentialPrivacyServerSideFixedClipping"]
TESTS = ROOT / "tests"


def ray(*arguments):
    """The lines that a simulation in a process of its own printed."""
    path = os.pathsep.join([str(TESTS), str(TESTS / "integrations"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    env = {**os.environ, "PYTHONPATH": path, "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    line = [sys.executable, "-c", "from helpers.on_ray import main; main()", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, env=env, timeout=900)
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"name"')]
    assert len(found) == len(arguments) - 1, done.stderr[-3000:]
    return {line["name"]: line for line in found}


def agrees(name, line):
    """The same stop and the same model as on the grid of this process."""
    logging.getLogger("flwr").setLevel("ERROR")
    strategy = EarlyStopping(STRATEGIES[name](), threshold=0.05, patience=3)
    result, _ = start(strategy, name)
    assert line["evaluated"] == list(range(1, line["round"] + 1))
    assert abs(line["round"] - strategy.status.round) <= ("Privacy" in name)
    if "Privacy" in name:  # noise from numpy's global generator, which Flower's threads share: another draw
        assert line["value"] == pytest.approx(strategy.status.value, rel=0.1), name
        return
    assert line["value"] == pytest.approx(strategy.status.value, rel=1e-5), name
    for one, other in zip(line["model"], result.arrays.values(), strict=True):
        np.testing.assert_allclose(one, other.numpy().ravel(), rtol=1e-4, atol=1e-5)


def test_three_strategies_on_ray_actors():
    found = ray("strategies", *SHORT)
    for name in SHORT:
        agrees(name, found[name])


@pytest.mark.flower
def test_all_strategies_on_ray_actors():
    names = [name for name in STRATEGIES if name not in SHORT]
    found = ray("strategies", *names)
    for name in names:
        agrees(name, found[name])


@pytest.mark.flower
def test_all_methods_on_ray_actors_agree_with_our_engine():
    found = ray("methods", *ours.METHODS)
    for name in ours.METHODS:
        spec = {"data": "digits", "clients": 6, "cohort": 3, "epochs": 1, "batch": 64, "lr": 0.05, "evaluate_every": 0}
        task = Federation(RunSpec(**spec, method=name))
        *_, last = itertools.islice(engine.rounds(task.method(), task), on_ray.ROUNDS)
        expected = task.state_dict(last.state["x"], last.shared).values()
        for one, other in zip(found[name]["model"], expected, strict=True):
            np.testing.assert_allclose(one, other.numpy().ravel(), rtol=0, atol=1e-6)
