"""Configurations that are known beforehand: all of a grid, random ones, the runs of the paper."""

from __future__ import annotations

from collections.abc import Iterable

from ...simulation.spec import RunSpec
from ..trial import Trial


class ListSampler:
    """Hands out labeled configurations, one after the other."""

    def __init__(self, labelled: Iterable[tuple[RunSpec, str]]) -> None:
        trials = [Trial(number, spec, label) for number, (spec, label) in enumerate(labelled)]
        self.total = len(trials)
        self._left = iter(trials)

    def ask(self) -> Trial | None:
        return next(self._left, None)

    def waits(self) -> bool:
        return False

    def tell(self, trial: Trial) -> None:
        """A list does not learn."""

    def others(self) -> list[Trial]:
        """None: every trial of a list is asked for, and one that was trained before is only read."""
        return []

    def close(self) -> None:
        """A list holds nothing."""
