"""Rules that are scored but not offered: ideas that were not taken, so that nobody has to try them again.

Each is unchanged when the model or the rate is scaled, and needs no more than theta_0 and the model of the last round.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from ..rules import Row, State, Status, motion
from ..rules.base import next_round, number
from ..rules.growth import Saturation, relative


@dataclass(frozen=True)
class PathGrowth(Saturation):
    """||u_r|| / sum_{k <= r} ||u_k|| < tau: the growth of the whole path, forward or not."""

    reads: ClassVar[tuple[str, ...]] = ("update_norm",)

    def keep(self, before: float | None, now: tuple[float, ...]) -> float:
        return (before or 0.0) + now[0]

    def quantity(self, before: float | None, now: tuple[float, ...]) -> float | None:
        return relative(now[0], self.keep(before, now))


@dataclass(frozen=True)
class NetOverGross(Saturation):
    """delta_r / sum_{k <= r} ||u_k|| < tau: how much of the path was progress; 1 on a line, 1 / sqrt(r) on a walk."""

    reads: ClassVar[tuple[str, ...]] = ("distance", "update_norm")

    def keep(self, before: float | None, now: tuple[float, ...]) -> float:
        return (before or 0.0) + now[1]

    def quantity(self, before: float | None, now: tuple[float, ...]) -> float | None:
        return relative(now[0], self.keep(before, now))


@dataclass(frozen=True)
class Remembering(ABC):
    """Skeleton: a quantity of all rounds so far below the threshold for `patience` rounds in a row."""

    threshold: float
    patience: int
    reads: ClassVar[tuple[str, ...]] = ("distance",)

    @abstractmethod
    def memory(self) -> Any:
        """What is remembered before round 1."""

    @abstractmethod
    def held(self, memory: Any, r: int, now: tuple[float, ...]) -> tuple[Any, float | None]:
        """What is remembered after this round, and the quantity."""

    def below(self, quantity: float) -> bool:
        return quantity < self.threshold

    def begin(self) -> State:
        return {"round": 0, "streak": 0, "memory": self.memory()}

    def step(self, state: State, row: Row) -> tuple[State, Status]:
        r = next_round(state, row)
        now = tuple(number(row, column, r) for column in self.reads)
        diverged = not all(map(math.isfinite, now))
        memory, held = (state["memory"], None) if diverged else self.held(state["memory"], r, now)
        streak = state["streak"] + 1 if held is not None and self.below(held) else 0
        stop = diverged or streak >= self.patience
        reason = "" if not stop else "diverged" if diverged else "saturated"
        return {"round": r, "streak": streak, "memory": memory}, Status(r, now[0], held, streak, stop, reason)


@dataclass(frozen=True)
class Clock(Remembering):
    """1 / r <= tau: a fixed budget of 1 / tau rounds, in the form in which every threshold is answered at once."""

    def below(self, quantity: float) -> bool:
        return quantity <= self.threshold

    def memory(self) -> Any:
        return None

    def held(self, memory: Any, r: int, now: tuple[float, ...]) -> tuple[Any, float | None]:
        return None, 1 / r


@dataclass(frozen=True)
class Exponent(Remembering):
    """The local exponent d ln delta / d ln r below tau: no clock, because it does not fall by itself."""

    def memory(self) -> Any:
        return motion.begin()

    def held(self, memory: Any, r: int, now: tuple[float, ...]) -> tuple[Any, float | None]:
        after, moved = motion.step(memory, r, {"distance": now[0]})
        return after, moved.exponent


@dataclass(frozen=True)
class Alignment(Remembering):
    """(1 + c) / 2 < tau, c the cosine of u_r with the way so far v_{r-1}, averaged over about ten rounds.

    1 goes straight on, 1/2 at right angles (a random walk), 0 straight back; a round that does not move counts as 0.
    """

    reads: ClassVar[tuple[str, ...]] = ("distance", "update_norm", "alignment")

    def memory(self) -> Any:
        return [0.0, 0.0, 0.0]  # the distance before; the averaged share and its weight

    def held(self, memory: Any, r: int, now: tuple[float, ...]) -> tuple[Any, float | None]:
        before, total, weight = memory
        distance, update, product = now
        if before == 0:
            return [distance, total, weight], 0.0 if update == 0 else None
        share = (1 + product / (update * before)) / 2 if update else 0.0
        total, weight = 0.9 * total + share, 0.9 * weight + 1
        return [distance, total, weight], total / weight


@dataclass(frozen=True)
class Travelled(Remembering):
    """1 - delta_r / delta_inf < tau: the share of the way that is left, if the last two doublings of r go on.

    What the second half of the rounds added, over what the second quarter added, is the ratio q of a geometric series
    over the coming doublings; with q >= 1, as for every power law, there is no end and nothing is held.
    """

    def memory(self) -> Any:
        return []

    def held(self, memory: Any, r: int, now: tuple[float, ...]) -> tuple[Any, float | None]:
        distances = [*memory, now[0]]
        if len(distances) < 8:
            return distances, None
        quarter, half = distances[len(distances) // 4 - 1], distances[len(distances) // 2 - 1]
        first, second = half - quarter, now[0] - half
        if second <= 0:
            return distances, 0.0
        if second >= first:
            return distances, None
        left = second * second / (first - second)
        return distances, left / (now[0] + left)
