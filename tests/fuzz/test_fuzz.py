"""Every reader, given anything: it reads what should be there, or refuses it in one sentence that names the file."""

import random

import numpy as np
import pytest
import safetensors.numpy
from helpers.fuzz.campaign import Campaign
from helpers.fuzz.reader import Sample, tree_of
from helpers.fuzz.readers import READERS
from helpers.places import ROOT

from fedhalt.measure import tensors

CASES = ROOT / "tests" / "fixtures" / "fuzz"
"""What was found: READER/CASE/FILES."""


def fuzzed(count, seed, folder):
    with Campaign(seed=seed, found=folder) as campaign:
        campaign.run(count)
    print(campaign.report())
    assert not campaign.failures, campaign.report()
    return campaign.counts


def test_two_thousand_inputs(tmp_path):
    counts = fuzzed(2000, seed=0, folder=tmp_path)
    assert sum(sum(found.values()) for found in counts.values()) == 2000
    for name, found in counts.items():
        assert found["read"] > 0, f"{name} reads none: the inputs are too wild to say anything"
        assert found["refused"] > 0 or name in ("page", "server", "cache"), (
            f"{name} refuses none: the inputs are too tame"
        )


@pytest.mark.faults
@pytest.mark.parametrize("part", range(4))
def test_a_hundred_thousand_more(part, tmp_path):
    fuzzed(25_000, seed=random.SystemRandom().randrange(2**32), folder=tmp_path)


def sample_of(case, valid):
    """The files of a case, beside the valid ones that it replaces some of. Damage is what checksums must show."""
    files = tree_of(case)
    tree = {**valid, **files} if files.keys() <= valid.keys() else files
    return Sample(tree, 0, forged=not case.name.startswith("damaged"))


@pytest.mark.parametrize(
    "name", [reader.name for reader in READERS if (CASES / reader.name.replace(" ", "-")).is_dir()]
)
def test_what_was_found_stays_found(name):
    """All cases of a reader; one that needs what is not installed is skipped."""
    (reader,) = [reader for reader in READERS if reader.name == name]
    if not reader.available():
        pytest.skip(f"{name} needs {' and '.join(reader.needs)}")
    cases = sorted((CASES / name.replace(" ", "-")).iterdir())
    with Campaign([reader]) as campaign:
        for case in cases:
            campaign.try_out(reader, case.name, sample_of(case, reader.trees[0]))
    assert not campaign.failures, campaign.report()
    assert campaign.counts[name].total() == len(cases) >= 1


def test_a_mistake_is_reported_with_its_input(tmp_path):
    """The fuzzer itself: what a reader does wrong is named, kept, and found again under the same number."""

    def read(place):
        return {"x": 1}[(place / "t.csv").read_text(encoding="latin-1")[:1]]

    (csv,) = [reader for reader in READERS if reader.name == "csv"]
    broken = type(csv)("broken", lambda place: [{"t.csv": b"x,1\n2,3\n"}], read)
    with Campaign([broken], seed=7, found=tmp_path) as campaign:
        campaign.run(200)
    ((key, text),) = campaign.failures.items()
    assert key.startswith("broken: KeyError") and campaign.counts["broken"]["failed"] > 10
    (kept,) = tmp_path.iterdir()
    number = int(kept.name.rpartition("-")[2])
    with Campaign([broken], seed=7) as again:
        again.one(broken, number)
    assert str(kept) in text and f"--seed 7 --only broken --at {number}" in text and list(again.failures) == [key]


def test_the_arrays_of_a_file_come_in_one_order(tmp_path):
    """The library's own order differs from call to call, and with it the last bit of a sum over them."""
    data = safetensors.numpy.save({name: np.zeros(1, np.float32) for name in "hgfedcba"})
    assert {tuple(tensors.to_arrays(data, tmp_path / "x")) for _ in range(20)} == {tuple("abcdefgh")}
