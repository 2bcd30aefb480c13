"""scripts/accept-results moves rows and packed runs into the package, tables and figures into the documentation."""

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")
pytest.importorskip("pandas")

from fedhalt.paper.rows import RECORDED, Results
from fedhalt.stopbench.runs import PACKED, load_packed, pack

ROOT = Path(__file__).parents[2]


@pytest.fixture
def repository(tmp_path):
    """A copy of what the script touches."""
    made = tmp_path / "repository"
    shutil.copytree(ROOT / "fedhalt", made / "fedhalt", ignore=shutil.ignore_patterns("__pycache__"))
    (made / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "accept-results", made / "scripts")
    (made / ".venv").symlink_to(sys.prefix)
    return made


def accept(repository, folder):
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [repository / "scripts" / "accept-results", folder]
    return subprocess.run(command, capture_output=True, text=True, env=clean, check=False)


def test_rows_and_files_are_moved(repository, tmp_path):
    row = dict(next(iter(Results(RECORDED / "small").rows.values())), id="new", final=12.5)
    given = Results(tmp_path / "results" / "small")
    given.rows["new"], given.own = row, {"new"}
    given.save()
    (given.folder / "table9.md").write_text("nine")
    done = accept(repository, tmp_path / "results")
    assert done.returncode == 0, done.stderr
    kept = Results(repository / "fedhalt" / "paper" / "recorded" / "small")
    assert kept.rows == Results(RECORDED / "small").rows | {"new": row}
    assert kept.curves == Results(RECORDED / "small").curves
    assert (repository / "docs" / "results" / "small" / "table9.md").read_text() == "nine"
    assert {path.name for path in given.folder.iterdir()} <= {".lock"}


def test_packed_runs_are_merged_and_those_of_no_set_left_out(repository, tmp_path):
    packed = repository / "fedhalt" / "stopbench" / "trajectories"
    before = {path.name: path.read_bytes() for path in packed.iterdir()}
    digits = [run for run in load_packed(PACKED) if run.task == "digits" and run.spec["model"] == "cnn"]
    pack((run for run in load_packed(PACKED) if run.name != digits[0].name), packed)
    stranger = dataclasses.replace(digits[1], name="stranger")
    pack([digits[0], stranger], tmp_path / "results" / "stopbench" / "trajectories")
    done = accept(repository, tmp_path / "results")
    assert done.returncode == 0, done.stderr
    assert "2 packed runs" in done.stdout
    names = {path.name for path in packed.iterdir()}
    assert names == set(before) and {run.name for run in load_packed(packed)} == {
        run.name for run in load_packed(PACKED)
    }


def test_what_is_packed_of_stopbench_2_is_added_to_what_is_there(repository, tmp_path):
    packed = repository / "fedhalt" / "stopbench" / "trajectories2"
    there = {run.name for run in load_packed(packed)}
    two = [dataclasses.replace(run, average=run.accuracy) for run in load_packed(PACKED)[:2]]
    for run in two:
        pack([run], tmp_path / "results" / "stopbench2" / "trajectories")
        done = accept(repository, tmp_path / "results")
        assert done.returncode == 0, done.stderr
    assert {run.name for run in load_packed(packed)} == there | {run.name for run in two}


MARKS = {"reproduction.md": ("claims", "claims-network"), "stopbench.md": ("table2", "defaults2")}


def test_the_pages_show_the_tables_that_were_accepted(repository, tmp_path):
    shutil.copytree(ROOT / "docs" / "results", repository / "docs" / "results")
    pages = {name: (ROOT / "docs" / name).read_text() for name in MARKS}
    for name, text in pages.items():
        for mark in MARKS[name]:
            before, after = text.split(f"<!-- {mark} -->")[0], text.split(f"<!-- /{mark} -->")[1]
            text = f"{before}<!-- {mark} -->\nan older table\n<!-- /{mark} -->{after}"
        (repository / "docs" / name).write_text(text)
    (tmp_path / "results" / "small").mkdir(parents=True)
    done = accept(repository, tmp_path / "results")
    assert done.returncode == 0, done.stderr
    assert {name: (repository / "docs" / name).read_text() for name in MARKS} == pages


def test_a_folder_without_results_is_named(repository, tmp_path):
    done = accept(repository, tmp_path)
    assert (
        done.returncode == 1 and f"{tmp_path} holds no results: none of small, network, paper, stopbench" in done.stderr
    )
