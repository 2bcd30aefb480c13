"""The paper's rule, its skeleton, and the authors' variant of it.

Lee et al., "Beyond Fixed Rounds: Data-Free Early Stopping for Practical Federated Learning",
section II-B. Symbols: theta_r the global parameters after round r, delta_r = ||theta_r - theta_0||,
g_r the growth rate, kappa_r the streak, tau the threshold, rho the patience.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from ..check import FedhaltError, flag, positive, whole
from .base import Row, State, Status, next_round, number


@dataclass(frozen=True)
class Saturation(ABC):
    """Skeleton: stop once a quantity stayed below the threshold for `patience` rounds in a row.

    kappa_r = (kappa_{r-1} + 1) if quantity < tau else 0;  r* = min {r : kappa_r >= rho}.

    A column that is not finite stops at once with reason "diverged"; with `check_finite=False` it
    merely resets the streak. A quantity of exactly zero over the whole streak is "frozen".
    Rounds before `start_from_round` are measured but never counted.
    """

    threshold: float = 0.01
    patience: int = 10
    start_from_round: int = 1
    check_finite: bool = True
    reads: ClassVar[tuple[str, ...]] = ("distance",)
    signed: ClassVar[tuple[str, ...]] = ()
    """The last of these columns, which may be negative; norms may not."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", positive("threshold", self.threshold))
        object.__setattr__(self, "patience", whole("patience", self.patience))
        object.__setattr__(self, "start_from_round", whole("start_from_round", self.start_from_round))
        flag("check_finite", self.check_finite)

    @abstractmethod
    def quantity(self, before: Any, now: tuple[float, ...]) -> float | None:
        """What is held against the threshold, from what was kept of the rounds before and this round's columns."""

    def keep(self, before: Any, now: tuple[float, ...]) -> Any:
        """What the next round is told of the rounds before: unless a rule sums up, this round's first column."""
        return now[0]

    def below(self, quantity: float) -> bool:
        return quantity < self.threshold

    def begin(self) -> State:
        return {"round": 0, "value": None, "streak": 0, "still": 0}

    def step(self, state: State, row: Row) -> tuple[State, Status]:
        r = next_round(state, row)
        now = tuple([number(row, column, r) for column in self.reads])
        norms = now[: len(now) - len(self.signed)]
        if min(norms) < 0:
            names = " and ".join(self.reads[: len(norms)])
            raise FedhaltError(f"round {r}: {names} cannot be negative, got {norms}")
        growth = self.quantity(state["value"], now)
        streak = still = 0
        if growth is not None and r >= self.start_from_round and self.below(growth):
            streak = state["streak"] + 1
            still = state["still"] + 1 if growth == 0 else 0
        diverged = self.check_finite and not all(map(math.isfinite, now))
        stop = diverged or streak >= self.patience
        reason = "" if not stop else "diverged" if diverged else "frozen" if still >= streak else "saturated"
        after = {"round": r, "value": self.keep(state["value"], now), "streak": streak, "still": still}
        return after, Status(r, now[0], growth, streak, stop, reason)


@dataclass(frozen=True)
class GrowthRate(Saturation):
    """The paper's rule: g_r = |delta_r - delta_{r-1}| / delta_{r-1} < tau for rho rounds in a row.

    Equations (3) to (5). There is no growth at round 1 (None, streak 0). Where the paper is silent:
    0 after 0 is growth 0 and counts; anything after 0 is infinite growth.
    """

    def quantity(self, before: float | None, now: tuple[float, ...]) -> float | None:
        if before is None:
            return None
        return relative(abs(now[0] - before), before)


@dataclass(frozen=True)
class GrowthAuthors:
    """What the authors' published code computes instead, for comparing with their numbers.

    Growth is signed, so any shrinking counts; counting begins at round 3; a growth of exactly zero
    neither counts nor resets, so a frozen model never stops; below a distance of 1e-6 growth is set
    to 1; a distance that is not finite resets, so a diverged run never stops. Rounds are 1-based
    here as everywhere in fedhalt; the authors' files and their table 3 count from 0.
    """

    threshold: float = 0.01
    patience: int = 10
    reads: ClassVar[tuple[str, ...]] = ("distance",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", positive("threshold", self.threshold))
        object.__setattr__(self, "patience", whole("patience", self.patience))

    def begin(self) -> State:
        return {"round": 0, "value": None, "streak": 0}

    def step(self, state: State, row: Row) -> tuple[State, Status]:
        r = next_round(state, row)
        delta, before = number(row, "distance", r), state["value"]
        growth = None
        if before is not None:
            growth = (delta - before) / before if not before <= 1e-6 else 1.0
        streak = state["streak"]
        if growth is not None and r >= 3 and growth != 0:
            streak = streak + 1 if growth < self.threshold else 0
        stop = streak >= self.patience
        after = {"round": r, "value": delta, "streak": streak}
        return after, Status(r, delta, growth, streak, stop, "saturated" if stop else "")


def relative(change: float, before: float) -> float:
    """change / before, with 0 / 0 = 0 (nothing moved) and x / 0 = inf (everything did)."""
    if before != 0:
        return change / before
    return 0.0 if change == 0 else math.inf
