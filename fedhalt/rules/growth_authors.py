"""What the authors' published code computes in place of the paper's rule."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import positive, whole
from .base import Signal, State, Status
from .trigger import OnSignal


@dataclass(frozen=True)
class SignedGrowth:
    """(delta_r - delta_{r-1}) / delta_{r-1}, set to 1 after a distance of 1e-6 or less; the state is delta_{r-1}."""

    reads: ClassVar[tuple[str, ...]] = ("distance",)
    signed: ClassVar[tuple[str, ...]] = ("distance",)

    def begin(self) -> None:
        return None

    def step(self, before: float | None, r: int, now: tuple[float, ...]) -> tuple[float, float | None]:
        delta = now[0]
        if before is None:
            return delta, None
        return delta, 1.0 if before <= 1e-6 else (delta - before) / before


@dataclass(frozen=True)
class GrowthAuthors(OnSignal):
    """The authors' variant of the paper's rule, for comparison with their numbers.

    Growth is signed, so any shrinking counts. Counting begins at round 3. A growth of exactly zero neither counts nor
    resets the streak, so a frozen model never stops. A distance that is not finite resets the streak, so a diverged run
    never stops. Below a distance of 1e-6, growth is set to 1. Rounds count from 1 here, as everywhere in fedhalt; the
    authors' files and their Table 3 count from 0.

    Args:
        threshold: tau.
        patience: rho.

    Raises:
        FedhaltError: If a setting is out of range.

    Examples:
        >>> from fedhalt import GrowthAuthors, GrowthRate, stop_round
        >>> frozen = [1.0] * 20
        >>> stop_round(GrowthAuthors(), frozen), stop_round(GrowthRate(), frozen)
        (None, 11)
    """

    threshold: float = 0.01
    patience: int = 10
    signal: ClassVar[Signal] = SignedGrowth()
    words: ClassVar[tuple[str, str]] = ("saturated", "saturated")

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", positive("threshold", self.threshold))
        object.__setattr__(self, "patience", whole("patience", self.patience))

    def diverged(self, now: tuple[float, ...], after: Any) -> bool:
        return False

    def begin(self) -> State:
        return {"round": 0, "value": self.signal.begin(), "streak": 0}

    def run(self, state: State, rounds: Iterable[tuple[int, tuple[float, ...]]]) -> tuple[State, Status]:
        r, after, streak = state["round"], state["value"], state["streak"]
        now: tuple[float, ...] = (math.nan,)
        growth, stop = None, False
        for r, now in rounds:
            after, growth = self.signal.step(after, r, now)
            if growth is not None and r >= 3 and growth != 0:
                streak = streak + 1 if growth < self.threshold else 0
            stop = streak >= self.patience
            if stop:
                break
        kept = {"round": r, "value": after, "streak": streak}
        return kept, Status(r, now[0], growth, streak, stop, "saturated" if stop else "")
