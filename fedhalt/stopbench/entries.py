"""Which rules take part, and the whole range of their settings: a new rule is one line here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .. import rules
from ..rules import Rule


class Entry(NamedTuple):
    """A rule, by its name on the command line, with the thresholds and patiences that it is scored at."""

    name: str
    thresholds: Sequence[float]
    patiences: Sequence[int] = (1, 5, 10, 20)
    """In rising order."""

    def make(self, threshold: float, patience: int) -> Rule:
        if self.name == "budget":
            return rules.create("budget", rounds=int(threshold))
        return rules.create(self.name, threshold=threshold, patience=patience)


def log(first: float, last: float, number: int = 14) -> list[float]:
    """So many thresholds with equal ratios, rounded to three digits."""
    return [float(f"{value:.3g}") for value in np.geomspace(first, last, number)]


ENTRIES: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("budget", log(3, 990, 30), (1,)),
        Entry("growth", log(5e-4, 0.5)),
        Entry("growth-authors", log(5e-4, 0.5)),
        Entry("difference", log(1e-5, 10)),
        Entry("relative-update", log(2e-3, 2)),
        Entry("weight-diff", log(1e-4, 1)),
        Entry("val-loss", log(1e-4, 1)),
        Entry("val-accuracy", log(1e-2, 20)),
        Entry("wandering", log(0.03, 3)),
    )
}
