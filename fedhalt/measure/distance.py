"""delta_r = ||theta_r - theta_0||: one pass over both, in pieces that stay in the cache.

float32 inside a piece, float64 over the pieces: exact to 1e-6 up to 10^9 parameters, where
`torch.norm(a - b)` copies the model and is one per cent low (`benchmarks/criterion.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import Any

import numpy as np

from .arrays import CHUNK, Array, Patterns, chunks, copy, dense, leaves, shape
from .check import FedhaltError

MOVEMENT = ("update_norm", "alignment")
"""Columns that need theta_{r-1} besides theta_0."""

MEASURED = ("distance", "update_norm", "parameter_norm", "alignment")
"""Columns that come from the parameters alone."""


def squared_distance(params: Any, start: Any, include: Patterns = None, exclude: Patterns = None) -> float:
    """||params - start||^2, in float64: one shard's part where the parameters live in several places.

    >>> import numpy as np
    >>> squared_distance([np.ones(3)], [np.zeros(3)]) + squared_distance({"b": np.ones(1)}, {"b": np.zeros(1)})
    4.0
    """
    first = leaves(start, include, exclude)
    now = matched(leaves(params, include, exclude), first)
    return sum(_squared(dense(leaf), dense(first[name])) for name, leaf in now.items())


class Meter:
    """Measures a model against its start: the columns named in `columns`, nothing kept for the others."""

    def __init__(
        self, start: Any, columns: tuple[str, ...] = ("distance",), include: Patterns = None, exclude: Patterns = None
    ) -> None:
        self.columns = columns
        self.include, self.exclude = include, exclude
        self.start: dict[str, Array] = {name: copy(leaf) for name, leaf in leaves(start, include, exclude).items()}
        self.previous = self.start if any(column in MOVEMENT for column in columns) else None

    def leaves(self, params: Any) -> dict[str, Any]:
        """The chosen arrays, which must be those of the start by name and shape."""
        return matched(leaves(params, self.include, self.exclude), self.start)

    def measure(self, now: Mapping[str, Any]) -> dict[str, float]:
        """This round's columns."""
        sums = dict.fromkeys(MEASURED, 0.0)
        for name, leaf in now.items():
            array, start = dense(leaf), self.start[name]
            if "distance" in self.columns:
                sums["distance"] += _squared(array, start)
            if "parameter_norm" in self.columns:
                sums["parameter_norm"] += _squared(array, None)
            if self.previous is not None:
                before = self.previous[name]
                sums["update_norm"] += _squared(array, before)
                sums["alignment"] += _inner(array, before, start)
        return {
            column: sums[column] if column == "alignment" else math.sqrt(sums[column])
            for column in MEASURED
            if column in self.columns
        }

    def keep(self, now: Mapping[str, Any]) -> None:
        """Makes these parameters theta_{r-1} of the next round, if any column needs that."""
        if self.previous is not None:
            self.previous = {name: copy(leaf) for name, leaf in now.items()}


def matched(now: dict[str, Any], start: Mapping[str, Any]) -> dict[str, Any]:
    """`now`, once it is clear that it has the names and shapes of `start`."""
    for name in start:
        if name not in now:
            raise FedhaltError(f"{name!r} of shape {shape(start[name])} was there at the start and is missing now")
    for name, leaf in now.items():
        if name not in start:
            raise FedhaltError(f"{name!r} of shape {shape(leaf)} was not there at the start; leave it out by exclude=")
        if shape(leaf) != shape(start[name]):
            raise FedhaltError(f"{name!r} had shape {shape(start[name])} at the start and has {shape(leaf)} now")
    return now


@np.errstate(over="ignore", invalid="ignore")
def _squared(now: Array, start: Array | None) -> float:
    """The sum of squares of now - start (of now itself without a start)."""
    total = 0.0
    others: Iterable[Any] = chunks(start) if start is not None else repeat(np.float32(0))
    double = np.float64 in (now.dtype, start.dtype if start is not None else None)
    buffer = np.empty(min(CHUNK, now.size), np.float64 if double else np.float32)  # reused: a new one a piece is slower
    for piece, other in zip(chunks(now), others, strict=False):
        gap = np.subtract(piece, other, out=buffer if piece.size == buffer.size else buffer[: piece.size])
        part = float(np.dot(gap, gap))
        if not 1e-25 < part < math.inf:  # in float32 something may have under- or overflowed
            gap = piece.astype(np.float64) - other
            part = float(np.dot(gap, gap))
        total += part
    return total


@np.errstate(over="ignore", invalid="ignore")
def _inner(now: Array, before: Array, start: Array) -> float:
    """<now - before, before - start>, in float64 because it may cancel."""
    total = 0.0
    for x, y, z in zip(chunks(now), chunks(before), chunks(start), strict=True):
        y = y.astype(np.float64)
        total += float(np.dot(x - y, y - z))
    return total
