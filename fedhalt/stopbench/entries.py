"""Which rules take part, and the whole range of their settings: a new rule is one line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ..rules import RULES, Rule
from .candidates import Alignment, Clock, Exponent, NetOverGross, PathGrowth, Travelled


class Entry(NamedTuple):
    """A rule with the thresholds and patiences that it is scored at.

    What lets one replay answer many settings: a rule's `streak` is counted alike under every patience, and one with a
    method `below` holds a quantity (`Status.growth`) that does not depend on its threshold. tests/test_stopbench.py
    checks both for every entry. A rule for which the former is not true takes a single patience.
    """

    name: str
    make: Callable[[float, int], Rule]
    thresholds: Sequence[float]
    patiences: Sequence[int] = (1, 5, 10, 20)
    """In rising order."""


def log(first: float, last: float, number: int = 20) -> list[float]:
    """So many thresholds with equal ratios, rounded to three digits."""
    return [float(f"{value:.3g}") for value in np.geomspace(first, last, number)]


def _budget(rounds: float, patience: int) -> Rule:
    return Clock(1 / rounds, 1)


def _named(name: str, threshold: float, patience: int) -> Rule:
    return RULES[name](threshold=threshold, patience=patience)


RANGES = {
    "growth": log(5e-4, 0.5),
    "growth-authors": log(5e-4, 0.5),
    "difference": log(1e-5, 10),
    "relative-update": log(2e-3, 2),
    "weight-diff": log(1e-4, 1),
    "wandering": log(0.03, 3),
    "forward": log(5e-4, 0.5),
}
"""The rules of the command line: from never to at once on nearly every run, as far as the rule can."""

PLATEAUS = {"val-loss": log(1e-4, 1, 10), "val-accuracy": log(1e-2, 20, 10)}
LONG = (1, 5, 10, 20, 50)
"""A plateau waits for an improvement of any size: only its patience makes it go on for long."""

ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("budget", _budget, sorted({round(r) for r in log(1, 2000, 150)}), (1,)),
        *(Entry(name, partial(_named, name), thresholds) for name, thresholds in RANGES.items()),
        *(Entry(name, partial(_named, name), thresholds, LONG) for name, thresholds in PLATEAUS.items()),
        Entry("path", PathGrowth, log(5e-4, 0.5)),
        Entry("net-gross", NetOverGross, log(0.01, 1)),
        Entry("exponent", Exponent, log(0.02, 1.5)),
        Entry("alignment", Alignment, log(0.2, 0.95)),
        Entry("travelled", Travelled, log(1e-3, 1)),
    )
}
