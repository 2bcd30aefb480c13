"""The mean of several models and their scatter around it, one model at a time (Welford), two blocks merged (Chan)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .arrays import CHUNK, Array, chunks, dense
from .distance import squared_gap

Arrays = dict[str, Array]


@dataclass(frozen=True)
class Block:
    """Models in a row: how many, their mean, and the sum of their squared distances from it.

    The mean is float32, or float64 where the model is; models in half precision are widened first.
    """

    count: int = 0
    scatter: float = 0.0
    mean: Arrays = field(default_factory=dict)

    def added(self, model: Mapping[str, Any]) -> Block:
        """With one more model: one pass over both."""
        count, scatter, mean = self.count + 1, self.scatter, {}
        for name, leaf in model.items():
            mean[name], more = _folded(dense(leaf), self.mean.get(name), count)
            scatter += more
        return Block(count, scatter, mean)

    def merged(self, other: Block) -> Block:
        """Both blocks as one."""
        count = self.count + other.count
        scatter = self.scatter + other.scatter + self.gap(other) * self.count * other.count / count
        share = other.count / count
        mean = {name: array + (other.mean[name] - array) * array.dtype.type(share) for name, array in self.mean.items()}
        return Block(count, scatter, mean)

    def gap(self, other: Block) -> float:
        """The squared distance between two means."""
        # in this order whatever order a file gave them in: the last bit of the sum depends on it
        return sum(squared_gap(self.mean[name], other.mean[name]) for name in sorted(self.mean))


@np.errstate(over="ignore", invalid="ignore")
def _folded(now: Array, mean: Array | None, count: int) -> tuple[Array, float]:
    """The mean of `count` arrays from that of `count - 1` and the last one, and what the scatter gains."""
    kind = np.float64 if now.dtype == np.float64 else np.float32
    made: Array = np.empty(now.shape, kind)
    flat, total = made.reshape(-1), 0.0
    pieces = zip(range(0, now.size, CHUNK), chunks(now), strict=True)
    if mean is None:
        for begin, piece in pieces:
            flat[begin : begin + piece.size] = piece
        return made, 0.0
    before, buffer = mean.reshape(-1), np.empty(min(CHUNK, now.size), kind)
    for begin, piece in pieces:
        place = slice(begin, begin + piece.size)
        gap = np.subtract(piece, before[place], out=buffer[: piece.size])
        part = float(np.dot(gap, gap))
        if not 1e-25 < part < math.inf:  # in float32 something may have under- or overflowed
            wide = gap.astype(np.float64)
            part = float(np.dot(wide, wide))
        total += part
        gap *= kind(1 / count)
        np.add(before[place], gap, out=flat[place])
    return made, total * (count - 1) / count
