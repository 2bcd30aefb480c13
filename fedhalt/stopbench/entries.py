"""The rules that take part, with the whole range of their settings. To add a candidate, add one line here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from ..rules import RULES, Rule
from .candidates import Alignment, Clock, Exponent, NetOverGross, PathGrowth, Travelled


class Entry(NamedTuple):
    """A rule with the thresholds and patiences at which it is scored.

    One replay answers every patience, because a streak is counted in the same way for all of them. For a rule on a
    signal, one signal also answers every threshold. A rule whose streak depends on its patience takes a single
    patience.

    Attributes:
        name: The name of the rule.
        make: Creates the rule from a threshold and a patience.
        thresholds: The thresholds.
        patiences: The patiences, in rising order.

    Examples:
        >>> from fedhalt.stopbench import ENTRIES
        >>> entry = ENTRIES["growth"]
        >>> entry.patiences, len(entry.thresholds)
        ((1, 5, 10, 20), 20)
    """

    name: str
    make: Callable[[float, int], Rule]
    thresholds: Sequence[float]
    patiences: Sequence[int] = (1, 5, 10, 20)
    """In rising order."""


def log(first: float, last: float, number: int = 20) -> list[float]:
    """Thresholds with equal ratios, rounded to three digits."""
    return [float(f"{value:.3g}") for value in np.geomspace(first, last, number)]


def _budget(rounds: float, patience: int) -> Rule:
    return Clock(1 / rounds, 1)


def _named(name: str, threshold: float, patience: int) -> Rule:
    return RULES[name].make(threshold=threshold, patience=patience)


PLATEAUS = ("val-loss", "val-accuracy")
LONG = (1, 5, 10, 20, 50)
"""A plateau waits for an improvement of any size, so only its patience makes it continue for long."""


def _listed(name: str) -> Entry:
    """A rule of the command line over the range of its threshold."""
    low, high = RULES[name].thresholds or (0.0, 0.0)
    if name in PLATEAUS:
        return Entry(name, partial(_named, name), log(low, high, 10), LONG)
    return Entry(name, partial(_named, name), log(low, high))


ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("budget", _budget, sorted({round(r) for r in log(1, 2000, 150)}), (1,)),
        *(_listed(name) for name, rule in RULES.items() if rule.thresholds and name not in PLATEAUS),
        *(_listed(name) for name in PLATEAUS),
        Entry("path", PathGrowth, log(5e-4, 0.5)),
        Entry("net-gross", NetOverGross, log(0.01, 1)),
        Entry("exponent", Exponent, log(0.02, 1.5)),
        Entry("alignment", Alignment, log(0.2, 0.95)),
        Entry("travelled", Travelled, log(1e-3, 1)),
    )
}
"""The entries by name."""
