"""What the partitioners share: whole numbers from shares, index arrays from whole numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..errors import FedhaltError, whole

Indices = NDArray[np.int64]
Parts = list[Indices]
Rng = np.random.Generator


def enough(labels: Indices, clients: int) -> None:
    whole("clients", clients)
    if clients > len(labels):
        raise FedhaltError(f"{clients} clients for {len(labels)} samples: at most one client per sample")


def largest_remainder(share: NDArray[np.float64], total: int) -> Indices:
    """Whole numbers that add up to `total`, as close to share * total as possible."""
    exact = share * total
    counts = np.floor(exact).astype(np.int64)
    short = total - int(counts.sum())
    counts[np.argsort(counts - exact, kind="stable")[:short]] += 1
    return counts


def repaired(parts: Parts, rng: Rng) -> Parts:
    """Gives every empty client one random sample of the currently largest client."""
    parts, sizes = list(parts), np.array([len(part) for part in parts])
    for client in np.flatnonzero(sizes == 0):
        giver = int(sizes.argmax())
        taken = int(rng.integers(sizes[giver]))
        parts[client] = parts[giver][taken : taken + 1]
        parts[giver] = np.delete(parts[giver], taken)
        sizes[giver] -= 1
        sizes[client] = 1
    return parts


def quotas(room: Indices, slots: int, rng: Rng) -> Indices:
    """Spreads the slots over the classes in rounds, none beyond its size."""
    quotas = np.zeros_like(room)
    while slots:
        open_ = rng.permutation(np.flatnonzero(quotas < room))
        step = max(1, min(slots // len(open_), int((room - quotas)[open_].min())))
        given = open_[: slots // step]
        quotas[given] += step
        slots -= step * len(given)
    return quotas


def slices(order: Indices, sizes: Indices) -> Parts:
    return np.split(order, np.cumsum(sizes)[:-1])


def resampled(labels: Indices, clients: int, rng: Rng, prior: Callable[[int], NDArray[np.float64]]) -> Parts:
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
