"""The candidates of StopBench 2: signals on columns that StopBench 1 did not record; see docs/stopbench.md.

Each has a threshold and a patience. The constants in them were committed with the protocol.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from ..rules import Signal, SignalRule
from ..rules.base import relative
from ..rules.signals.forward import Forward

FORWARD = Forward()
SETTLED = 20.0
"""The drift_20 below which the average does not lag (docs/choosing.md)."""
BLOCK = 10
"""The rounds over which a cohort's training loss is averaged."""


@dataclass(frozen=True)
class ForwardBelowDrift:
    """forward, once drift_20 is below 20; before that, no signal."""

    reads: ClassVar[tuple[str, ...]] = (*Forward.reads, "drift_20")
    signed: ClassVar[tuple[str, ...]] = (*Forward.signed, "drift_20")

    def begin(self) -> Any:
        return FORWARD.begin()

    def step(self, before: Any, r: int, now: tuple[float, ...]) -> tuple[Any, float | None]:
        after, share = FORWARD.step(before, r, now[:3])
        return after, share if now[3] < SETTLED else None


@dataclass(frozen=True)
class ForwardTimesLoss:
    """forward times the square root of the cohort's training loss before its round."""

    reads: ClassVar[tuple[str, ...]] = (*Forward.reads, "train_loss_before")
    signed: ClassVar[tuple[str, ...]] = (*Forward.signed, "train_loss_before")

    def begin(self) -> Any:
        return FORWARD.begin()

    def step(self, before: Any, r: int, now: tuple[float, ...]) -> tuple[Any, float | None]:
        after, share = FORWARD.step(before, r, now[:3])
        return after, share * math.sqrt(now[3]) if share is not None and now[3] >= 0 else None


@dataclass(frozen=True)
class ForwardAtFlatLoss:
    """forward, while the training loss of the last ten rounds is not below that of the ten before.

    The state is forward's and the last twenty losses.
    """

    reads: ClassVar[tuple[str, ...]] = ForwardTimesLoss.reads
    signed: ClassVar[tuple[str, ...]] = ForwardTimesLoss.signed

    def begin(self) -> Any:
        return [FORWARD.begin(), []]

    def step(self, before: Any, r: int, now: tuple[float, ...]) -> tuple[Any, float | None]:
        after, share = FORWARD.step(before[0], r, now[:3])
        losses = [*before[1], now[3]][-2 * BLOCK :]
        flat = len(losses) == 2 * BLOCK and sum(losses[BLOCK:]) >= sum(losses[:BLOCK])
        return [after, losses], share if flat else None


@dataclass(frozen=True)
class Agreement:
    """||u_r||^2 over the clients' mean squared update: 1 if all clients agree, 1/M if their updates are orthogonal."""

    reads: ClassVar[tuple[str, ...]] = ("update_norm", "cohort_squares")
    signed: ClassVar[tuple[str, ...]] = ()

    def begin(self) -> None:
        return None

    def step(self, before: None, r: int, now: tuple[float, ...]) -> tuple[None, float]:
        return None, relative(now[0] ** 2, now[1])


@dataclass(frozen=True)
class SignalToNoise:
    """The part of the update that the clients agree on over the part that is their noise: with M clients that scatter
    independently around one update, (||u_r||^2 - s^2) / s^2 and s^2 = (mean ||u_i||^2 - ||u_r||^2) / (M - 1).

    No signal of a single client.
    """

    reads: ClassVar[tuple[str, ...]] = ("update_norm", "cohort_squares", "cohort_size")
    signed: ClassVar[tuple[str, ...]] = ()

    def begin(self) -> None:
        return None

    def step(self, before: None, r: int, now: tuple[float, ...]) -> tuple[None, float | None]:
        square, clients = now[0] ** 2, now[2]
        if clients < 2:
            return None, None
        noise = max(now[1] - square, 0.0) / (clients - 1)
        return None, relative(max(square - noise, 0.0), noise)


@dataclass(frozen=True)
class Stationarity:
    """(1 + c) / 2, c the mean of the cosines of successive updates over about ten rounds: Pflug's test (1990) for
    stochastic approximation, in which steps turn back once they only circle around a point.

    A step that does not move counts as 0. The state is the length of the last step, the averaged share and its weight.
    """

    reads: ClassVar[tuple[str, ...]] = ("update_norm", "turn")
    signed: ClassVar[tuple[str, ...]] = ("turn",)

    def begin(self) -> Any:
        return [0.0, 0.0, 0.0]

    def step(self, before: Any, r: int, now: tuple[float, ...]) -> tuple[Any, float | None]:
        length, total, weight = before
        if math.isnan(now[1]):  # the first round has no step before it
            return [now[0], total, weight], None
        share = (1 + now[1] / (now[0] * length)) / 2 if now[0] * length else 0.0
        total, weight = (1 - 1 / BLOCK) * total + share, (1 - 1 / BLOCK) * weight + 1
        return [now[0], total, weight], total / weight


@dataclass(frozen=True)
class WithLate(SignalRule):
    """The last column may have no value in some rounds, so only the others can end a run."""

    def diverged(self, now: tuple[float, ...], after: Any) -> bool:
        return not all(map(math.isfinite, now[:-1]))


@dataclass(frozen=True)
class ForwardSettled(WithLate):
    """forward and drift together."""

    signal: ClassVar[Signal] = ForwardBelowDrift()
    late: ClassVar[tuple[str, ...]] = ("drift_20",)


@dataclass(frozen=True)
class ForwardLoss(WithLate):
    """forward times the square root of the training loss below tau."""

    signal: ClassVar[Signal] = ForwardTimesLoss()
    late: ClassVar[tuple[str, ...]] = ("train_loss_before",)


@dataclass(frozen=True)
class ForwardFlat(WithLate):
    """forward below tau while the training loss does not fall."""

    signal: ClassVar[Signal] = ForwardAtFlatLoss()
    late: ClassVar[tuple[str, ...]] = ("train_loss_before",)


@dataclass(frozen=True)
class CohortSignal(SignalRule):
    """The signal-to-noise of the cohort's update below tau."""

    signal: ClassVar[Signal] = SignalToNoise()


@dataclass(frozen=True)
class Stationary(WithLate):
    """Pflug's test below tau."""

    signal: ClassVar[Signal] = Stationarity()
    late: ClassVar[tuple[str, ...]] = ("turn",)


@dataclass(frozen=True)
class Diversity(SignalRule):
    """The agreement of the cohort's updates below tau."""

    signal: ClassVar[Signal] = Agreement()
