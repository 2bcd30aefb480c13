"""While a run trains, glibc keeps what it frees; afterwards it is given back."""

import platform
import subprocess
import sys

import pytest

pytest.importorskip("torch")

CODE = """
import resource
from pathlib import Path

import torch

from fedhalt.simulation.heap import kept_heap
from fedhalt.simulation.model import Model, SmallCNN

torch.set_num_threads(1)
model = Model(SmallCNN(3, 8))
images, labels = torch.zeros(240, 3, 28, 28, dtype=torch.uint8), torch.zeros(240, dtype=torch.long)


def faults():
    for warm in (True, False):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(5):
            model.gradient(model.vector(), images, labels)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1])


before = faults()
with kept_heap():
    kept, high = faults(), resident()
print(before, kept, high - resident())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library than glibc")
def test_a_step_finds_the_memory_of_the_last_one_and_the_end_gives_it_back():
    found = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=300)
    before, kept, given_back = map(int, found.stdout.split())
    assert before > 5_000  # pages that are asked for again; without glibc's own habit there is nothing to gain
    assert kept < before / 4 and given_back > 1_000


def test_another_library_is_left_alone(monkeypatch):
    from fedhalt.simulation.heap import kept_heap

    monkeypatch.setattr(platform, "libc_ver", lambda: ("", ""))
    monkeypatch.setattr("ctypes.CDLL", None)
    with kept_heap():
        pass
