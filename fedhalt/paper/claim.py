"""What a claim of the paper is, and the numbers that several of them need."""

from __future__ import annotations

import math
from typing import NamedTuple

from . import accuracy
from .gains import Pair, pairs
from .rows import Results, mean
from .setting import TAU, Scale

VERDICTS = ("holds", "holds partly", "does not hold")


class Claim(NamedTuple):
    """What the paper says and where, what the rows say, and the item that shows it; `met` are its tests."""

    words: str
    ours: str
    met: list[bool]
    item: str

    @property
    def verdict(self) -> str:
        if not self.met:
            return "not run yet"
        return VERDICTS[0 if all(self.met) else 1 if any(self.met) else 2]


def cell_of(results: Results, scale: Scale, task: str, method: str, skew: tuple[str, float]) -> list[Pair]:
    return pairs(results, scale, method, TAU, task=task, skew=skew[0], c=skew[1], lr=scale.rates["good"])


def gains_of(found: list[Pair], measure: str) -> list[float]:
    return [gain for each in found if (gain := each.gain(measure)) is not None]


def average(results: Results, scale: Scale, method: str, **where: object) -> float:
    """The mean over tasks of the best phi, as the paper averages."""
    cells = [
        accuracy.cell(results, scale, method, "final", task=task, lr=scale.rates["good"], **where)
        for task in scale.tasks
    ]
    return mean([cell.mean for cell in cells if cell]) if all(cells) else math.nan


def said(parts: list[str], after: str = "") -> str:
    return "; ".join(parts) + after if parts else "–"
