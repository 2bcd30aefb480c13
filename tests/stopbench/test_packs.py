"""Packed runs that are damaged, inconsistent or far too large are refused in one sentence."""

import gzip
import json
import resource

import numpy as np
import pytest
import safetensors.numpy

from fedhalt import FedhaltError
from fedhalt.stopbench.runs import HIDDEN, SEEN, unpack

ABOUT = [{"name": "one", "spec": {}}, {"name": "two", "spec": {}}]


def write(path, about=ABOUT, rounds=(3, 2), **columns):
    """A pack of two runs, of three and two rounds, some of it replaced."""
    made = {name: np.arange(6, dtype=np.float32).reshape(2, 3) for name in (*SEEN, HIDDEN)}
    text = np.frombuffer(json.dumps(about).encode(), np.uint8)
    path.write_bytes(
        gzip.compress(safetensors.numpy.save({"about": text, "rounds": np.array(rounds), **made, **columns}))
    )
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "x.safetensors.gz"


def test_a_pack(path):
    one, two = unpack(write(path))
    assert [len(one.rows), len(two.rows)] == [3, 2] and two.rows[1]["distance"] == 4 and list(two.accuracy) == [3, 4]


@pytest.mark.parametrize("changed", [
    {"rounds": (3,)}, {"rounds": (3, 2, 1)}, {"rounds": (3, 4)}, {"rounds": (3, -1)}, {"rounds": (0, 2)},
    {"rounds": (3.0, 2.0)}, {"rounds": ((3, 2),)}, {"rounds": 3}, {"rounds": (10**12, 2)},
    {"about": ABOUT[:1]}, {"about": {}}, {"about": 5}, {"about": [1, 2]}, {"about": [{"name": 1, "spec": {}}] * 2},
    {"about": [{"name": "one"}] * 2}, {"about": [{"name": "one", "spec": []}] * 2}, {"about": None},
    {"distance": np.zeros((2, 1), np.float32)}, {"distance": np.zeros(6, np.float32)},
    {"distance": np.full((2, 3), np.nan, np.float32)}, {HIDDEN: np.full((2, 3), np.nan, np.float32)},
    {"lr": np.zeros((1, 3), np.float32)}, {"val_loss": np.zeros((2, 3, 1), np.float32)},
], ids=lambda changed: " ".join(f"{name}={np.shape(value)}" for name, value in changed.items()))  # fmt: skip
def test_inconsistent_packs_are_refused(path, changed):
    with pytest.raises(FedhaltError, match="is not a file of packed runs"):
        unpack(write(path, **changed))


def test_a_pack_that_unfolds_to_gigabytes_is_refused_before_it_does(path):
    with gzip.open(path, "wb") as file:
        for _ in range(2**11):
            file.write(bytes(2**20))
    assert path.stat().st_size < 4e6
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(FedhaltError, match="unfolds to more than 256 MB"):
        unpack(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20  # kilobytes: a gigabyte
