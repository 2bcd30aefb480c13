"""Who holds which sample: pure functions from labels to one index array per client.

The paper's definitions (its section II-A); the authors' variants stand at the end under their own names.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .check import FedhaltError, known, positive, whole

Indices = NDArray[np.int64]
Parts = list[Indices]
Rng = np.random.Generator


def iid(labels: Indices, clients: int, rng: Rng) -> Parts:
    """Everybody alike: a shuffled deck dealt in equal parts."""
    enough(labels, clients)
    return np.array_split(rng.permutation(len(labels)), clients)


def dirichlet(labels: Indices, clients: int, rng: Rng, *, c: float, on_empty: str = "repair") -> Parts:
    """Label skew: for every class z, p ~ Dir_N(c) and client n gets p_n of it; each sample exactly once.

    Counts are by largest remainder. At c = 0.01 half of 100 clients get nothing: `on_empty` says
    whether each then takes one sample of the largest client ("repair"), stays empty and is never
    sampled ("skip"), or the split is refused ("error").
    """
    positive("c", c)
    known("on_empty", on_empty, ("repair", "skip", "error"))
    enough(labels, clients)
    parts: list[list[Indices]] = [[] for _ in range(clients)]
    for z in np.unique(labels):
        mine = rng.permutation(np.flatnonzero(labels == z))
        share = rng.dirichlet(np.full(clients, c))
        for part, piece in zip(parts, _slices(mine, largest_remainder(share, len(mine))), strict=True):
            part.append(piece)
    split = [np.concatenate(pieces) for pieces in parts]
    empty = sum(len(part) == 0 for part in split)
    if empty and on_empty == "error":
        raise FedhaltError(f"{empty} of {clients} clients got no sample at c={c}; take on_empty='repair' or 'skip'")
    return repaired(split, rng) if on_empty == "repair" else split


def pathological(labels: Indices, clients: int, rng: Rng, *, c: float) -> Parts:
    """Label skew: exactly c distinct classes per client; each sample of a class that anybody holds exactly once.

    The N * c slots are dealt over the classes as evenly as their sizes allow; each class goes to
    the clients with the most free slots (ties at random) and is split evenly among its holders.
    """
    if c != int(c):
        raise FedhaltError(f"c must be a whole number of classes for the pathological split, not {c!r}")
    per_client = whole("c", int(c))
    enough(labels, clients)
    classes, counts = np.unique(labels, return_counts=True)
    if per_client > len(classes):
        raise FedhaltError(f"c={per_client} classes per client, but there are only {len(classes)} classes")
    room = np.minimum(counts, clients)
    if room.sum() < clients * per_client:
        raise FedhaltError(
            f"{clients} clients with {per_client} distinct classes each need {clients * per_client} places; classes of "
            f"{', '.join(map(str, counts))} samples give {room.sum()}, for a class has no more holders than samples"
        )
    if clients * per_client < len(classes):
        warnings.warn(f"{clients} clients with {per_client} classes leave some of {len(classes)} out", stacklevel=2)
    holders = _quotas(room, clients * per_client, rng)
    free = np.full(clients, per_client)
    parts: list[list[Indices]] = [[] for _ in range(clients)]
    for index in rng.permutation(len(classes)):
        order = np.lexsort((rng.random(clients), -free))[: holders[index]]
        free[order] -= 1
        mine = rng.permutation(np.flatnonzero(labels == classes[index]))
        if len(order):
            for client, piece in zip(order, np.array_split(mine, len(order)), strict=True):
                parts[client].append(piece)
    return [np.concatenate(pieces) for pieces in parts]


def quantity(labels: Indices, clients: int, rng: Rng, *, c: float) -> Parts:
    """Quantity skew: q ~ Dir_N(c), sizes 1 + Multinomial(n - N, q); each sample once, natural label mix."""
    positive("c", c)
    enough(labels, clients)
    share = rng.dirichlet(np.full(clients, c))
    sizes = 1 + rng.multinomial(len(labels) - clients, share)
    return _slices(rng.permutation(len(labels)), sizes)


def natural(keys: NDArray[Any], rng: Rng) -> Parts:
    """One client per distinct key (patient, site, …), in the keys' order."""
    if keys.ndim != 1 or (keys != keys).any():
        raise FedhaltError("a natural key needs one value per sample, and none of them NaN")
    return [rng.permutation(np.flatnonzero(keys == key)) for key in np.unique(keys)]


def dirichlet_authors(labels: Indices, clients: int, rng: Rng, *, c: float) -> Parts:
    """The authors' label skew: equal sizes, a class prior ~ Dir_C(c) per client, classes refilled when exhausted.

    Samples repeat and others are never used; the class marginal becomes nearly uniform.
    """
    positive("c", c)
    return _resampled(labels, clients, rng, lambda classes: rng.dirichlet(np.full(classes, c)))


def pathological_authors(labels: Indices, clients: int, rng: Rng, *, c: float) -> Parts:
    """The authors' c classes: drawn per client, equal sizes, exactly c only with high probability."""
    if c != int(c) or not 1 <= c <= len(np.unique(labels)):
        raise FedhaltError(f"c must be a whole number from 1 to the {len(np.unique(labels))} classes, not {c!r}")
    per_client = int(c)

    def prior(classes: int) -> NDArray[np.float64]:
        chosen = np.zeros(classes)
        chosen[rng.choice(classes, per_client, replace=False)] = 1 / per_client
        return chosen

    return _resampled(labels, clients, rng, prior)


PARTITIONERS: dict[str, Callable[..., Parts]] = {
    "iid": iid,
    "dirichlet": dirichlet,
    "pathological": pathological,
    "quantity": quantity,
    "natural": natural,
    "dirichlet-authors": dirichlet_authors,
    "pathological-authors": pathological_authors,
}


def enough(labels: Indices, clients: int) -> None:
    whole("clients", clients)
    if clients > len(labels):
        raise FedhaltError(f"{clients} clients for {len(labels)} samples: at most one client per sample")


def largest_remainder(share: NDArray[np.float64], total: int) -> Indices:
    """Whole numbers that add up to `total`, as near to share * total as can be."""
    exact = share * total
    counts = np.floor(exact).astype(np.int64)
    short = total - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:short]] += 1
    return counts


def repaired(parts: Parts, rng: Rng) -> Parts:
    """Gives every empty client one random sample of the currently largest."""
    parts, sizes = list(parts), np.array([len(part) for part in parts])
    for client in np.flatnonzero(sizes == 0):
        giver = int(sizes.argmax())
        taken = int(rng.integers(sizes[giver]))
        parts[client] = parts[giver][taken : taken + 1]
        parts[giver] = np.delete(parts[giver], taken)
        sizes[giver] -= 1
        sizes[client] = 1
    return parts


def _quotas(room: Indices, slots: int, rng: Rng) -> Indices:
    """Deals the slots over the classes one by one in rounds, none beyond its room."""
    quotas = np.zeros_like(room)
    while slots:
        open_ = rng.permutation(np.flatnonzero(quotas < room))
        step = max(1, min(slots // len(open_), int((room - quotas)[open_].min())))
        given = open_[: slots // step]
        quotas[given] += step
        slots -= step * len(given)
    return quotas


def _slices(order: Indices, sizes: Indices) -> Parts:
    return np.split(order, np.cumsum(sizes)[:-1])


def _resampled(labels: Indices, clients: int, rng: Rng, prior: Callable[[int], NDArray[np.float64]]) -> Parts:
    enough(labels, clients)
    classes = np.unique(labels)
    full = [np.flatnonzero(labels == z) for z in classes]
    decks = [list(rng.permutation(mine)) for mine in full]
    left = np.full(clients, len(labels) // clients)
    left[0] += len(labels) % clients
    edges = [np.cumsum(prior(len(classes))) for _ in range(clients)]
    parts: list[list[int]] = [[] for _ in range(clients)]
    going = list(range(clients))
    while going:
        at = int(rng.integers(len(going)))
        client = going[at]
        z = min(int(np.searchsorted(edges[client], rng.random() * edges[client][-1], side="right")), len(classes) - 1)
        if not decks[z]:
            decks[z] = list(full[z])
        parts[client].append(decks[z].pop())
        left[client] -= 1
        if left[client] == 0:
            going[at] = going[-1]
            going.pop()
    return [np.array(part, dtype=np.int64) for part in parts]
