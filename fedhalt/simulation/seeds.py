"""Seeds are labels, not a stream: an independent generator for every purpose, round and client."""

from __future__ import annotations

import hashlib

import numpy as np


def rng(seed: int, *labels: object) -> np.random.Generator:
    """The generator of that purpose: `rng(0, "batches", round, client)`.

    Nothing else draws from it, so the order of clients, the number of workers, evaluation and
    resuming cannot change what it gives.

    >>> int(rng(0, "cohort", 3).integers(100)) == int(rng(0, "cohort", 3).integers(100))
    True
    """
    text = "\x1f".join(str(part) for part in (seed, *labels))
    return np.random.default_rng(np.frombuffer(hashlib.blake2b(text.encode(), digest_size=32).digest(), np.uint32))


def torch_seed(seed: int, *labels: object) -> int:
    """A seed for torch's own generators, for what only torch can draw (initial weights)."""
    return int(rng(seed, *labels).integers(2**63))
