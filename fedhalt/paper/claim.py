"""What a claim of the paper is, and the numbers that several of them need."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from . import accuracy
from .gains import Pair, pairs
from .rows import Results, mean
from .setting import TAU, Scale


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
        if all(self.met):
            return "holds"
        return "holds partly" if any(self.met) else "does not hold"


def cell_of(results: Results, scale: Scale, task: str, method: str, skew: tuple[str, float]) -> list[Pair]:
    return pairs(results, scale, method, TAU, task=task, skew=skew[0], c=skew[1], lr=scale.rates["good"])


def gains_of(found: list[Pair], measure: str) -> list[float]:
    return [gain for each in found if (gain := each.gain(measure)) is not None]


def tasks_with(results: Results, scale: Scale, methods: Sequence[str], **where: object) -> list[str]:
    """The tasks in which all these methods are recorded: a mean over tasks is of the same ones for every method."""
    return [task for task in scale.tasks if all(_cell(results, scale, method, task, **where) for method in methods)]


def average(results: Results, scale: Scale, method: str, tasks: Sequence[str], **where: object) -> float:
    """The mean over tasks of the best phi, as the paper averages."""
    cells = [_cell(results, scale, method, task, **where) for task in tasks]
    return mean([cell.mean for cell in cells if cell]) if all(cells) else math.nan


def _cell(results: Results, scale: Scale, method: str, task: str, **where: object) -> accuracy.Cell | None:
    return accuracy.cell(results, scale, method, "final", task=task, lr=scale.rates["good"], **where)


def said(parts: list[str], after: str = "") -> str:
    return "; ".join(parts) + after if parts else "–"
