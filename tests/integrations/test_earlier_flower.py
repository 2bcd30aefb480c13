"""A Flower server that version 0.1.0 left in the middle goes on to the same model, verdicts and record."""

import logging
import shutil

import pytest

pytest.importorskip("flwr")
pytest.importorskip("torch")

from earlier import FIXTURES, check, read
from earlier_flower import FLOWER, run

from fedhalt import Trajectory


@pytest.mark.parametrize("name", FLOWER)
def test_goes_on_after_the_last_whole_round(name, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    folder = shutil.copytree(FIXTURES / "flower" / name, tmp_path / name)
    done = FLOWER[name][1] - 1
    expected, whole = read("flower", name, "expected.json"), Trajectory.load(folder / "expected.jsonl")
    assert Trajectory.load(folder / "trajectory.jsonl").rows == whole.rows[:done]
    found = run(name, folder)
    record = Trajectory.load(folder / "trajectory.jsonl")
    here = ("cpu", "numpy", "torch", "flwr")
    check(found["statuses"], expected["statuses"][done - 1 :], *here)
    check(found["model"], expected["model"], *here)
    check(record.rows, whole.rows, *here)
    assert record.header == whole.header
    assert f"holds this run up to round {done}, resuming with round {done + 1}" in caplog.text
    assert "begin anew" not in caplog.text  # no client's memory was lost
