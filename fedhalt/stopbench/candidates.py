"""Signals that are scored but not offered: rejected ideas, kept so that they need not be tried again.

Each is unchanged when the model or the rate is scaled, and needs no more than theta_0 and the model of the last round.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from ..rules import Signal, SignalRule
from ..rules.base import relative
from ..rules.signals.exponent import LocalExponent


@dataclass(frozen=True)
class PathShare:
    """||u_r|| / sum_{k <= r} ||u_k||: the growth of the whole path, forward or not; the state is the sum."""

    reads: ClassVar[tuple[str, ...]] = ("update_norm",)
    signed: ClassVar[tuple[str, ...]] = ()

    def begin(self) -> float:
        return 0.0

    def step(self, before: float, r: int, now: tuple[float, ...]) -> tuple[float, float]:
        path = before + now[0]
        return path, relative(now[0], path)


@dataclass(frozen=True)
class NetShare:
    """delta_r / sum_{k <= r} ||u_k||: how much of the path was progress; 1 on a line, 1 / sqrt(r) on a walk."""

    reads: ClassVar[tuple[str, ...]] = ("distance", "update_norm")
    signed: ClassVar[tuple[str, ...]] = ()

    def begin(self) -> float:
        return 0.0

    def step(self, before: float, r: int, now: tuple[float, ...]) -> tuple[float, float]:
        path = before + now[1]
        return path, relative(now[0], path)


@dataclass(frozen=True)
class RoundShare:
    """1 / r: no information about the model at all."""

    reads: ClassVar[tuple[str, ...]] = ("distance",)
    signed: ClassVar[tuple[str, ...]] = ()

    def begin(self) -> None:
        return None

    def step(self, before: None, r: int, now: tuple[float, ...]) -> tuple[None, float]:
        return None, 1 / r


@dataclass(frozen=True)
class MeanAlignment:
    """(1 + c) / 2, c the cosine of u_r with the way so far v_{r-1}, averaged over about ten rounds.

    1 goes straight on, 1/2 at right angles (a random walk), 0 straight back; a round that does not move counts as 0.
    The state is the distance before, the averaged share and its weight.
    """

    reads: ClassVar[tuple[str, ...]] = ("distance", "update_norm", "alignment")
    signed: ClassVar[tuple[str, ...]] = ("alignment",)

    def begin(self) -> Any:
        return [0.0, 0.0, 0.0]

    def step(self, before: Any, r: int, now: tuple[float, ...]) -> tuple[Any, float | None]:
        last, total, weight = before
        distance, update, product = now
        if last == 0:
            return [distance, total, weight], 0.0 if update == 0 else None
        share = (1 + product / (update * last)) / 2 if update else 0.0
        total, weight = 0.9 * total + share, 0.9 * weight + 1
        return [distance, total, weight], total / weight


@dataclass(frozen=True)
class WayLeft:
    """1 - delta_r / delta_inf: the share of the distance still to go, extrapolated from the last two doublings of r.

    What the second half of the rounds added, over what the second quarter added, is the ratio q of a geometric series
    over the coming doublings; with q >= 1, as for every power law, there is no end and no signal. The state is all
    distances so far.
    """

    reads: ClassVar[tuple[str, ...]] = ("distance",)
    signed: ClassVar[tuple[str, ...]] = ()

    def begin(self) -> Any:
        return []

    def step(self, before: Any, r: int, now: tuple[float, ...]) -> tuple[Any, float | None]:
        distances = [*before, now[0]]
        if len(distances) < 8 or not math.isfinite(now[0]):
            return distances, None
        quarter, half = distances[len(distances) // 4 - 1], distances[len(distances) // 2 - 1]
        first, second = half - quarter, now[0] - half
        if second <= 0:
            return distances, 0.0
        if second >= first:
            return distances, None
        left = second * second / (first - second)
        return distances, left / (now[0] + left)


@dataclass(frozen=True)
class PathGrowth(SignalRule):
    """The growth of the whole path below tau."""

    signal: ClassVar[Signal] = PathShare()


@dataclass(frozen=True)
class NetOverGross(SignalRule):
    """The share of progress in the path below tau."""

    signal: ClassVar[Signal] = NetShare()


@dataclass(frozen=True)
class Clock(SignalRule):
    """1 / r <= tau: a fixed budget of 1 / tau rounds, in the form in which every threshold is answered at once."""

    signal: ClassVar[Signal] = RoundShare()

    def below(self, signal: Any) -> Any:
        return signal <= self.threshold


@dataclass(frozen=True)
class Exponent(SignalRule):
    """The local exponent below tau: no clock, because it does not fall by itself."""

    signal: ClassVar[Signal] = LocalExponent()


@dataclass(frozen=True)
class Alignment(SignalRule):
    """The averaged alignment below tau."""

    signal: ClassVar[Signal] = MeanAlignment()


@dataclass(frozen=True)
class Travelled(SignalRule):
    """The share of the way that is left below tau."""

    signal: ClassVar[Signal] = WayLeft()
