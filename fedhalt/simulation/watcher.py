"""The watched rules of a run, stepped over its rows, recorded or fresh: which have fired, and when the run ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..rules import NamedRule, Status, Stepper


class Watcher:
    """Steps the watched rules over rows, recorded or fresh, and says when the run ends."""

    def __init__(self, watch: Sequence[NamedRule], stop: str, rounds: int) -> None:
        self.watch, self.stop, self.rounds = watch, stop, rounds
        self.stepper = Stepper([named.rule for named in watch])
        self.round = 0
        self.distance: float | None = None
        self.diverged = False

    def replay(self, rows: list[dict[str, Any]]) -> None:
        """Steps over a record up to the round in which this run would have ended."""
        for row in rows:
            if self.ended:
                break
            self.step(row)

    def step(self, row: dict[str, Any]) -> list[NamedRule]:
        """The rules that fired for the first time in this round."""
        self.round, self.distance = row["round"], row["distance"]
        self.diverged = self.diverged or not math.isfinite(row["distance"])
        return [self.watch[index] for index in self.stepper.step(row)]

    @property
    def fired(self) -> dict[int, Status]:
        return self.stepper.fired

    @property
    def stopped(self) -> bool:
        """Whether the rules end the run."""
        if self.stop == "never" or not self.watch:
            return False
        return len(self.fired) >= (1 if self.stop == "first" else len(self.watch))

    @property
    def spent(self) -> bool:
        """Whether it is the budget that ends the run."""
        return self.round >= self.rounds and not self.stopped and not self.diverged

    @property
    def ended(self) -> bool:
        return self.spent or self.stopped or self.diverged

    @property
    def reason(self) -> str:
        """Why the run ended, or that it was interrupted."""
        if self.stopped:
            return " and ".join(dict.fromkeys(status.reason for status in self.fired.values()))
        if self.diverged:
            return "diverged"
        return "budget" if self.spent else "interrupted"
