"""What comes with the package is enough, wherever it is installed; it is read and never written."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fedhalt as package

ROOT = Path(__file__).parents[2]
PACKAGE = Path(package.__file__).parent


def contents(folder):
    """Every file with what tells whether it was written to."""
    skipped = "__pycache__"
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file() and skipped not in path.parts}


@pytest.fixture
def installed(tmp_path):
    """The package alone, as a wheel unpacks it, and the command on it in an empty folder."""
    shutil.copytree(PACKAGE, tmp_path / "site" / "fedhalt", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "empty").mkdir()

    def call(*args, first="pass"):
        code = f"{first}; from fedhalt.cli import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, *args], cwd=tmp_path / "empty", capture_output=True, text=True, check=False,
            env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


def test_tables_are_drawn_without_a_checkout_and_the_package_stays_as_it_was(installed, tmp_path):
    for name in ("torch", "matplotlib", "pandas"):
        pytest.importorskip(name)
    before = contents(tmp_path / "site")
    listed = json.loads(installed("reproduce", "--list", "--json"))["items"]
    assert {row["item"]: row["recorded"] for row in listed}["table2"] == 540
    installed("reproduce", "table3", "fig-problem", "--recorded")
    made = tmp_path / "empty" / "results" / "small"
    names = sorted(path.name for path in made.iterdir())
    assert names == ["fig-problem.md", "fig-problem.pdf", "fig-problem.png", "table3.md", "table3.tex"]
    for name in ("fig-problem.md", "table3.md", "table3.tex"):
        assert (made / name).read_bytes() == (ROOT / "docs" / "results" / "small" / name).read_bytes(), name
    assert contents(tmp_path / "site") == before


def test_rules_are_scored_without_a_checkout_and_without_torch(installed, tmp_path):
    before = contents(tmp_path / "site")
    out = installed("stopbench", "--set", "1", "--rule", "growth", first="import sys; sys.modules['torch'] = None")
    assert "decided on: 370 runs" in out and "tuned on: 182 runs" in out
    assert list((tmp_path / "empty").iterdir()) == [] and contents(tmp_path / "site") == before


def test_no_code_of_the_package_knows_the_checkout_around_it():
    outside = re.compile(r"\bexperiments\b|\bcheckout\b|sys\.path\b|docs/results")
    for path in PACKAGE.rglob("*.py"):
        assert not outside.search(path.read_text(encoding="utf-8")), path
