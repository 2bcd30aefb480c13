"""Campaigns of faults, each in a process of its own: nothing that was recorded is lost, nothing ends in a traceback."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("torch")
from helpers.faults import ext4
from helpers.faults.kept import KEPT
from helpers.places import ROOT

pytestmark = pytest.mark.faults
NEEDS = {"flower": "flwr", "memory": "flwr", "client": "flwr", "study": "optuna"}
TESTS = ROOT / "tests"
MEMORY = Path("/dev/shm")
"""A file system in memory: a sync there takes no time, and there are tens of thousands."""


@pytest.fixture
def place(tmp_path):
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY, prefix="fedhalt-") as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    """The library that is loaded before libc and counts, fails or records its calls."""
    compiler = shutil.which("cc")
    if sys.platform != "linux" or compiler is None:
        pytest.skip("faults are injected by a library that a C compiler makes on Linux: install cc")
    made = tmp_path_factory.mktemp("shim") / "shim.so"
    source = TESTS / "helpers" / "faults" / "shim.c"
    subprocess.run([compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", made, source, "-ldl"], check=True)
    return made


@pytest.fixture
def told(record_property):
    """What a campaign printed, and into the summary of the tests."""

    def call(module, *words, **environment):
        if words[-2] in NEEDS:
            pytest.importorskip(NEEDS[words[-2]])
        paths = os.pathsep.join([str(TESTS), str(ROOT), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-m", f"helpers.faults.{module}", *map(str, words)], capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": paths, **environment}, timeout=3600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-5000:]
        found = json.loads(done.stdout.splitlines()[-1])
        counts = ", ".join(f"{what} {number}" for what, number in found["tried"].items())
        record_property("faults", f"{' '.join(map(str, words[:-1]))}: {counts}")
        return found

    return call


@pytest.mark.parametrize("kind, name", [
    *(("errors", name) for name in ("run", "save", "flower", "client", "grid", "study")),
    *(("kills", name) for name in ("run", "save", "flower", "memory", "grid", "study")),
    *(("power", name) for name in ("run", "save", "flower", "memory")),
])  # fmt: skip
def test_faults_at_every_call(kind, name, shim, place, told):
    found = told("campaign", kind, name, place, LD_PRELOAD=str(shim))
    assert found["wrongs"] == 0, json.dumps(found["wrong"], indent=2)
    assert sum(found["tried"].values()) >= 0.8 * found["calls"]


@pytest.mark.parametrize("name", ["run", "save", "flower"])
def test_power_cuts_on_ext4(name, shim, place, told):
    try:
        ext4.make(place / "probe.img")
        with ext4.mounted(place / "probe.img", place / "probe"):
            pass
    except ext4.NoRights as error:
        pytest.skip(f"power cuts on a real file system need the right to mount one: {error}")
    found = told("campaign", "ext4", name, place, LD_PRELOAD=str(shim))
    assert found["wrongs"] == 0, json.dumps(found["wrong"], indent=2)
    assert found["tried"]["cut"] >= 15 and found["tried"]["cut with rounds to keep"] > 5


@pytest.mark.parametrize("name", KEPT)
def test_damage_to_every_file(name, place, told):
    found = told("damage", name, place)
    assert found["wrongs"] == 0, json.dumps(found["wrong"], indent=2)
    assert sum(found["tried"].values()) > 90 * found["files"] / 2
