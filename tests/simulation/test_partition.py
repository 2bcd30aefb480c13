"""The splits, over sizes, seeds, skews down to 0.01, rare classes, and more clients than a class has samples."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

from fedhalt import FedhaltError
from fedhalt.simulation import partition as p
from fedhalt.simulation.seeds import rng

labels = st.builds(
    lambda counts, seed: np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts)),
    st.lists(st.integers(1, 80), min_size=1, max_size=8),
    st.integers(0, 99),
)
seeds = st.integers(0, 2**32)
skews = st.sampled_from([0.01, 0.1, 0.5, 1.0, 100.0])


def covered(parts, y):
    return np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(y)))


@given(labels, st.integers(1, 120), seeds)
def test_iid(y, n, seed):
    if n > len(y):
        with pytest.raises(FedhaltError, match=f"{n} clients for {len(y)} samples"):
            p.iid(y, n, rng(seed))
        return
    parts = p.iid(y, n, rng(seed))
    sizes = [len(part) for part in parts]
    assert covered(parts, y) and max(sizes) - min(sizes) <= 1 and len(parts) == n


@given(labels, st.integers(1, 60), seeds, skews)
def test_dirichlet_gives_each_sample_once_and_nobody_nothing(y, n, seed, c):
    n = min(n, len(y))
    parts = p.dirichlet(y, n, rng(seed), c=c)
    assert covered(parts, y) and len(parts) == n and min(map(len, parts)) >= 1
    skipped = p.dirichlet(y, n, rng(seed), c=c, on_empty="skip")
    assert covered(skipped, y)
    if any(len(part) == 0 for part in skipped):
        with pytest.raises(FedhaltError, match=r"got no sample.*repair"):
            p.dirichlet(y, n, rng(seed), c=c, on_empty="error")
    else:
        assert all(np.array_equal(a, b) for a, b in zip(parts, skipped, strict=True))


@given(labels, st.integers(1, 60), seeds, skews)
def test_quantity(y, n, seed, c):
    n = min(n, len(y))
    parts = p.quantity(y, n, rng(seed), c=c)
    assert covered(parts, y) and len(parts) == n and min(map(len, parts)) >= 1


@settings(max_examples=200)
@given(labels, st.integers(1, 120), seeds, st.integers(1, 8))
@pytest.mark.filterwarnings("ignore:.*leave some of")
def test_pathological_gives_exactly_c_classes(y, n, seed, c):
    classes, counts = np.unique(y, return_counts=True)
    feasible = n <= len(y) and c <= len(classes) and np.minimum(counts, n).sum() >= n * c
    if not feasible:
        with pytest.raises(FedhaltError):
            p.pathological(y, n, rng(seed), c=c)
        return
    parts = p.pathological(y, n, rng(seed), c=c)
    assert len(parts) == n and all(len(np.unique(y[part])) == c for part in parts)
    every = np.concatenate(parts)
    assert len(np.unique(every)) == len(every)
    if n * c >= len(classes) and (np.minimum(counts, n) == n).all():
        assert covered(parts, y)


@given(labels, seeds)
def test_natural(y, seed):
    parts = p.natural(y, rng(seed))
    assert covered(parts, y) and all(len(np.unique(y[part])) == 1 for part in parts)


@given(labels, st.integers(1, 30), seeds, skews)
def test_the_authors_variant_has_equal_sizes(y, n, seed, c):
    n = min(n, len(y))
    parts = p.dirichlet_authors(y, n, rng(seed), c=c)
    sizes = [len(part) for part in parts]
    assert sizes[1:] == [len(y) // n] * (n - 1) and sizes[0] == len(y) // n + len(y) % n


def derma():
    return np.repeat(np.arange(7), [228, 359, 769, 80, 779, 4693, 99])


def test_facts_of_the_specification():
    """Section 5 of methods.md, on the class counts of DermaMNIST with 100 clients, 20 seeds."""
    y = derma()
    empty = {c: np.mean([sum(len(part) == 0 for part in p.dirichlet(y, 100, rng(seed), c=c, on_empty="skip"))
                         for seed in range(20)]) for c in (0.01, 0.1, 1.0)}  # fmt: skip
    assert empty[0.01] == pytest.approx(62.9, abs=4) and empty[0.1] == pytest.approx(8.0, abs=3) and empty[1.0] < 0.5
    single = [sum(len(part) == 1 for part in p.quantity(y, 100, rng(seed), c=0.1)) for seed in range(20)]
    assert 30 < np.mean(single) < 60
    used = [len(np.unique(np.concatenate(p.dirichlet_authors(y, 100, rng(seed), c=0.1)))) / len(y) for seed in range(5)]
    assert np.mean(used) == pytest.approx(0.47, abs=0.04)


def test_the_same_seed_gives_the_same_split_and_another_does_not():
    y = derma()
    for name, split in p.PARTITIONERS.items():
        if name == "natural":
            continue
        options = {} if name == "iid" else {"c": 2}
        one, two, other = (split(y, 50, rng(seed, "partition"), **options) for seed in (0, 0, 1))
        assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
        assert any(not np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("make, words", [
    (lambda: p.dirichlet(derma(), 10, rng(0), c=0), ["c", "0"]),
    (lambda: p.dirichlet(derma(), 10, rng(0), c=-1), ["c", "-1"]),
    (lambda: p.dirichlet(derma(), 10, rng(0), c=1, on_empty="ignore"), ["ignore", "repair"]),
    (lambda: p.pathological(derma(), 10, rng(0), c=1.5), ["1.5", "whole"]),
    (lambda: p.pathological(derma(), 10, rng(0), c=8), ["8", "7 classes"]),
    (lambda: p.quantity(derma(), 0, rng(0), c=1), ["clients", "0"]),
    (lambda: p.iid(derma(), 8000, rng(0)), ["8000", "7007"]),
])  # fmt: skip
def test_mistakes_get_a_sentence(make, words):
    with pytest.raises(FedhaltError) as error:
        make()
    assert all(word in str(error.value) for word in words), str(error.value)


def test_fewer_slots_than_classes_warns():
    with pytest.warns(UserWarning, match="leave some of 7 out"):
        p.pathological(derma(), 2, rng(0), c=2)
