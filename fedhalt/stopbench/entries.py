"""Which rules take part, and the whole range of their settings: a new rule is one line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ..rules import RULES, Budget, Rule
from .candidates import Alignment, Exponent, NetOverGross, PathGrowth, Travelled


class Entry(NamedTuple):
    """A rule with the thresholds and patiences that it is scored at."""

    name: str
    make: Callable[[float, int], Rule]
    thresholds: Sequence[float]
    patiences: Sequence[int] = (1, 5, 10, 20)
    """In rising order."""


def log(first: float, last: float, number: int = 20) -> list[float]:
    """So many thresholds with equal ratios, rounded to three digits."""
    return [float(f"{value:.3g}") for value in np.geomspace(first, last, number)]


def _budget(rounds: float, patience: int) -> Rule:
    return Budget(int(rounds))


def _named(name: str, threshold: float, patience: int) -> Rule:
    return RULES[name](threshold=threshold, patience=patience)


RANGES = {
    "growth": log(5e-4, 0.5),
    "growth-authors": log(5e-4, 0.5),
    "difference": log(1e-5, 10),
    "relative-update": log(2e-3, 2),
    "weight-diff": log(1e-4, 1),
    "val-loss": log(1e-4, 1),
    "val-accuracy": log(1e-2, 20),
    "wandering": log(0.03, 3),
    "forward": log(5e-4, 0.5),
}
"""The rules of the command line: from never to at once on nearly every run."""

ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("budget", _budget, log(3, 990, 24), (1,)),
        *(Entry(name, partial(_named, name), thresholds) for name, thresholds in RANGES.items()),
        Entry("path", PathGrowth, log(5e-4, 0.5)),
        Entry("net-gross", NetOverGross, log(0.01, 1)),
        Entry("exponent", Exponent, log(0.02, 1.5)),
        Entry("alignment", Alignment, log(0.2, 0.95)),
        Entry("travelled", Travelled, log(1e-3, 1)),
    )
}
