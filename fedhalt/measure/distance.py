"""delta_r = ||theta_r - theta_0||: one pass over both, in pieces that stay in the cache.

float32 inside a piece, float64 over the pieces: exact to 1e-5 up to 10^9 parameters (to 5e-5 at worst, where
all differences are the same number), where `torch.norm(a - b)` copies the model and is one percent low
(`benchmarks/criterion.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import repeat
from typing import Any

import numpy as np

from ..errors import FedhaltError
from .arrays import CHUNK, Array, Patterns, chunks, copy, dense, leaves, shape

MOVEMENT = ("update_norm", "alignment", "turn")
"""Columns that need theta_{r-1} besides theta_0; `turn` also needs the update before."""

MEASURED = ("distance", "update_norm", "parameter_norm", "alignment", "turn")
"""Columns that come from the parameters alone.

With u_r = theta_r - theta_{r-1}: `update_norm` is ||u_r||, `alignment` <u_r, theta_{r-1} - theta_0>, `turn`
<u_r, u_{r-1}>, which is 0 in round 1.
"""


def squared_distance(params: Any, start: Any, include: Patterns = None, exclude: Patterns = None) -> float:
    """||params - start||^2 in float64, for models whose parameters are in several places.

    Args:
        params: The parameters of this shard, in any form that `EarlyStopper` accepts.
        start: The same parameters before round 1.
        include: Glob patterns of the arrays to measure. Default: all floating-point arrays.
        exclude: Glob patterns of arrays to leave out.

    Returns:
        The squared distance. Add those of all shards and take the square root.

    Raises:
        FedhaltError: If names or shapes differ between `params` and `start`.

    Examples:
        >>> from fedhalt import squared_distance
        >>> import numpy as np
        >>> squared_distance([np.ones(3)], [np.zeros(3)]) + squared_distance({"b": np.ones(1)}, {"b": np.zeros(1)})
        4.0
    """
    first = leaves(start, include, exclude)
    now = matched(leaves(params, include, exclude), first)
    return sum(squared_gap(dense(leaf), dense(first[name])) for name, leaf in now.items())


class Meter:
    """Measures a model against its start.

    Args:
        start: The parameters before round 1; they are copied.
        columns: What to measure: "distance", "update_norm", "parameter_norm" and "alignment". The second and the fourth
            need a copy of the last model as well.
        include: Glob patterns of the arrays to measure. Default: all floating-point arrays.
        exclude: Glob patterns of arrays to leave out.

    Examples:
        >>> from fedhalt.measure import Meter
        >>> import numpy as np
        >>> meter = Meter(np.zeros(4), ("distance", "update_norm"))
        >>> now = meter.leaves(np.ones(4))
        >>> meter.measure(now)
        {'distance': 2.0, 'update_norm': 2.0}
        >>> meter.keep(now)
        >>> meter.measure(meter.leaves(np.full(4, 2.0)))
        {'distance': 4.0, 'update_norm': 2.0}
    """

    def __init__(
        self, start: Any, columns: tuple[str, ...] = ("distance",), include: Patterns = None, exclude: Patterns = None
    ) -> None:
        self.columns = columns
        self.include, self.exclude = include, exclude
        self.start: dict[str, Array] = {name: copy(leaf) for name, leaf in leaves(start, include, exclude).items()}
        self.previous = self.start if any(column in MOVEMENT for column in columns) else None
        self.update: dict[str, Array] = {}
        """u_{r-1}, if `turn` is measured; empty before round 2."""

    def leaves(self, params: Any) -> dict[str, Any]:
        """Selects the arrays to measure.

        Args:
            params: The parameters after this round.

        Returns:
            The arrays by name.

        Raises:
            FedhaltError: If names or shapes differ from those of the start.
        """
        return matched(leaves(params, self.include, self.exclude), self.start)

    def measure(self, now: Mapping[str, Any]) -> dict[str, float]:
        """Measures this round.

        Args:
            now: The arrays that `leaves` selected.

        Returns:
            The value of each column.
        """
        sums = dict.fromkeys(MEASURED, 0.0)
        for name, leaf in now.items():
            array, start = dense(leaf), self.start[name]
            if "distance" in self.columns:
                sums["distance"] += squared_gap(array, start)
            if "parameter_norm" in self.columns:
                sums["parameter_norm"] += squared_gap(array, None)
            if self.previous is not None:
                before = self.previous[name]
                sums["update_norm"] += squared_gap(array, before)
                sums["alignment"] += _inner(array, before, before, start)
                if name in self.update:
                    sums["turn"] += _inner(array, before, self.update[name], None)
        return {
            column: sums[column] if column in ("alignment", "turn") else math.sqrt(sums[column])
            for column in MEASURED
            if column in self.columns
        }

    def keep(self, now: Mapping[str, Any]) -> None:
        """Makes these parameters theta_{r-1} for the next round, if a column needs it.

        Args:
            now: The arrays that `leaves` selected.
        """
        if self.previous is None:
            return
        before, self.previous = self.previous, {name: copy(leaf) for name, leaf in now.items()}
        if "turn" in self.columns:
            self.update = {name: _difference(array, before[name]) for name, array in self.previous.items()}


def matched(now: dict[str, Any], start: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `now` after checking that it has the names and shapes of `start`."""
    for name in start:
        if name not in now:
            raise FedhaltError(f"{name!r} of shape {shape(start[name])} was there at the start and is missing now")
    for name, leaf in now.items():
        if name not in start:
            raise FedhaltError(
                f"{name!r} of shape {shape(leaf)} was not there at the start; leave it out with exclude="
            )
        if shape(leaf) != shape(start[name]):
            raise FedhaltError(f"{name!r} had shape {shape(start[name])} at the start and has {shape(leaf)} now")
    return now


@np.errstate(over="ignore", invalid="ignore")
def squared_gap(now: Array, start: Array | None) -> float:
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
def _inner(now: Array, before: Array, other: Array, start: Array | None) -> float:
    """<now - before, other - start>, in float64 because it may cancel; without a start <now - before, other>."""
    total = 0.0
    last: Iterable[Any] = chunks(start) if start is not None else repeat(np.float64(0))
    for x, y, a, b in zip(chunks(now), chunks(before), chunks(other), last, strict=False):
        total += float(np.dot(x - y.astype(np.float64), a.astype(np.float64) - b))
    return total


@np.errstate(over="ignore", invalid="ignore")
def _difference(now: Array, before: Array) -> Array:
    """now - before, in float32 or float64."""
    if now.dtype in (np.float32, np.float64):
        return np.subtract(now, before)
    return np.concatenate([x - y for x, y in zip(chunks(now), chunks(before), strict=True)]).reshape(now.shape)
