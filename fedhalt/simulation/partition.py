"""Who holds which sample: pure functions from labels to one index array per client.

These are the paper's definitions (section II-A). The authors' variants are at the end, under their own names.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FedhaltError, positive, require_one_of, whole
from .shares import Indices, Parts, Rng, enough, largest_remainder, quotas, repaired, resampled, slices

__all__ = [
    "dirichlet",
    "dirichlet_authors",
    "iid",
    "natural",
    "pathological",
    "pathological_authors",
    "quantity",
]


def iid(labels: Indices, clients: int, rng: Rng) -> Parts:
    """Equal random parts.

    Args:
        labels: The label of every sample.
        clients: The number of clients.
        rng: The random generator.

    Returns:
        For each client, the indices of its samples.

    Raises:
        FedhaltError: If there are more clients than samples.

    Examples:
        >>> import numpy as np
        >>> from fedhalt.simulation.partition import iid
        >>> [len(part) for part in iid(np.zeros(10, dtype=int), 3, np.random.default_rng(0))]
        [4, 3, 3]
    """
    enough(labels, clients)
    return np.array_split(rng.permutation(len(labels)), clients)


def dirichlet(labels: Indices, clients: int, rng: Rng, *, c: float, on_empty: str = "repair") -> Parts:
    """Label skew: for every class z, p ~ Dir_N(c), and client n gets the share p_n of it. Each sample is used exactly
    once.

    Counts are rounded by largest remainder. At c = 0.01, half of 100 clients get nothing.

    Args:
        labels: The label of every sample.
        clients: The number of clients.
        rng: The random generator.
        c: The concentration; 0.1 is a strong skew, 100 is nearly iid.
        on_empty: What happens to clients without samples: "repair" gives each one sample of the largest client, "skip"
            leaves them empty and they are never sampled, "error" refuses the split.

    Returns:
        For each client, the indices of its samples.

    Raises:
        FedhaltError: If a setting is not valid, or clients are empty with `on_empty="error"`.

    Examples:
        >>> import numpy as np
        >>> from fedhalt.simulation.partition import dirichlet
        >>> labels = np.repeat(np.arange(4), 25)
        >>> parts = dirichlet(labels, 5, np.random.default_rng(0), c=0.5)
        >>> sorted(np.concatenate(parts)) == list(range(100))
        True
    """
    positive("c", c)
    require_one_of("on_empty", on_empty, ("repair", "skip", "error"))
    enough(labels, clients)
    parts: list[list[Indices]] = [[] for _ in range(clients)]
    for z in np.unique(labels):
        mine = rng.permutation(np.flatnonzero(labels == z))
        share = rng.dirichlet(np.full(clients, c))
        for part, piece in zip(parts, slices(mine, largest_remainder(share, len(mine))), strict=True):
            part.append(piece)
    split = [np.concatenate(pieces) for pieces in parts]
    empty = sum(len(part) == 0 for part in split)
    if empty and on_empty == "error":
        raise FedhaltError(f"{empty} of {clients} clients got no sample at c={c}; take on_empty='repair' or 'skip'")
    return repaired(split, rng) if on_empty == "repair" else split


def pathological(labels: Indices, clients: int, rng: Rng, *, c: float) -> Parts:
    """Label skew: exactly c distinct classes per client. Each sample of a class that any client holds is used exactly
    once.

    The N * c slots are spread over the classes as evenly as their sizes allow. Each class goes to the clients with the
    most free slots (ties are broken at random) and is split evenly among them.

    Args:
        labels: The label of every sample.
        clients: The number of clients.
        rng: The random generator.
        c: The number of classes per client.

    Returns:
        For each client, the indices of its samples.

    Raises:
        FedhaltError: If c is not a whole number, or there are too few classes or samples.

    Examples:
        >>> import numpy as np
        >>> from fedhalt.simulation.partition import pathological
        >>> labels = np.repeat(np.arange(4), 25)
        >>> parts = pathological(labels, 10, np.random.default_rng(0), c=2)
        >>> {len(np.unique(labels[part])) for part in parts}
        {2}
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
    holders = quotas(room, clients * per_client, rng)
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
    """Quantity skew: q ~ Dir_N(c), sizes 1 + Multinomial(n - N, q). Each sample is used once, with the natural mix of
    labels.

    Args:
        labels: The label of every sample.
        clients: The number of clients.
        rng: The random generator.
        c: The concentration.

    Returns:
        For each client, the indices of its samples.

    Raises:
        FedhaltError: If a setting is not valid, or there are more clients than samples.

    Examples:
        >>> import numpy as np
        >>> from fedhalt.simulation.partition import quantity
        >>> parts = quantity(np.zeros(100, dtype=int), 5, np.random.default_rng(0), c=0.5)
        >>> sum(len(part) for part in parts), min(len(part) for part in parts) >= 1
        (100, True)
    """
    positive("c", c)
    enough(labels, clients)
    share = rng.dirichlet(np.full(clients, c))
    sizes = 1 + rng.multinomial(len(labels) - clients, share)
    return slices(rng.permutation(len(labels)), sizes)


def natural(keys: NDArray[Any], rng: Rng) -> Parts:
    """One client per distinct key (patient, site, …), in the order of the keys.

    Args:
        keys: The key of every sample.
        rng: The random generator, for the order of a client's samples.

    Returns:
        For each client, the indices of its samples.

    Raises:
        FedhaltError: If there is not one key per sample, or one is NaN.

    Examples:
        >>> import numpy as np
        >>> from fedhalt.simulation.partition import natural
        >>> parts = natural(np.array(["a", "b", "a"]), np.random.default_rng(0))
        >>> [sorted(part.tolist()) for part in parts]
        [[0, 2], [1]]
    """
    if keys.ndim != 1 or (keys != keys).any():
        raise FedhaltError("a natural key needs one value per sample, and none of them NaN")
    return [rng.permutation(np.flatnonzero(keys == key)) for key in np.unique(keys)]


def dirichlet_authors(labels: Indices, clients: int, rng: Rng, *, c: float) -> Parts:
    """The authors' label skew: equal sizes, a class prior ~ Dir_C(c) per client, and classes that are refilled when
    empty.

    Some samples repeat and others are never used. Over all clients, the classes become nearly balanced.

    Args:
        labels: The label of every sample.
        clients: The number of clients.
        rng: The random generator.
        c: The concentration.

    Returns:
        For each client, the indices of its samples.

    Raises:
        FedhaltError: If a setting is not valid, or there are more clients than samples.

    Examples:
        >>> import numpy as np
        >>> from fedhalt.simulation.partition import dirichlet_authors
        >>> labels = np.repeat(np.arange(4), 25)
        >>> [len(part) for part in dirichlet_authors(labels, 5, np.random.default_rng(0), c=0.5)]
        [20, 20, 20, 20, 20]
    """
    positive("c", c)
    return resampled(labels, clients, rng, lambda classes: rng.dirichlet(np.full(classes, c)))


def pathological_authors(labels: Indices, clients: int, rng: Rng, *, c: float) -> Parts:
    """The authors' c classes: drawn per client, with equal sizes; exactly c classes only with high probability.

    Args:
        labels: The label of every sample.
        clients: The number of clients.
        rng: The random generator.
        c: The number of classes per client.

    Returns:
        For each client, the indices of its samples.

    Raises:
        FedhaltError: If c is not a whole number of classes, or there are more clients than samples.

    Examples:
        >>> import numpy as np
        >>> from fedhalt.simulation.partition import pathological_authors
        >>> labels = np.repeat(np.arange(4), 25)
        >>> [len(part) for part in pathological_authors(labels, 5, np.random.default_rng(0), c=2)]
        [20, 20, 20, 20, 20]
    """
    if c != int(c) or not 1 <= c <= len(np.unique(labels)):
        raise FedhaltError(f"c must be a whole number from 1 to the {len(np.unique(labels))} classes, not {c!r}")
    per_client = int(c)

    def prior(classes: int) -> NDArray[np.float64]:
        chosen = np.zeros(classes)
        chosen[rng.choice(classes, per_client, replace=False)] = 1 / per_client
        return chosen

    return resampled(labels, clients, rng, prior)


PARTITIONERS: dict[str, Callable[..., Parts]] = {
    "iid": iid,
    "dirichlet": dirichlet,
    "pathological": pathological,
    "quantity": quantity,
    "natural": natural,
    "dirichlet-authors": dirichlet_authors,
    "pathological-authors": pathological_authors,
}
