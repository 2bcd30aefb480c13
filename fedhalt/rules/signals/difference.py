"""The change of the distance itself, which the paper argues against (section II-B)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..base import Signal
from ..trigger import SignalRule


@dataclass(frozen=True)
class DistanceChange:
    """delta_r - delta_{r-1}, signed as in the paper; the state is delta_{r-1}."""

    reads: ClassVar[tuple[str, ...]] = ("distance",)
    signed: ClassVar[tuple[str, ...]] = ()

    def begin(self) -> None:
        return None

    def step(self, before: float | None, r: int, now: tuple[float, ...]) -> tuple[float, float | None]:
        return now[0], None if before is None else now[0] - before


@dataclass(frozen=True)
class Difference(SignalRule):
    """delta_r - delta_{r-1} <= tau for rho rounds in a row.

    The difference has the scale of the steps, so no single threshold fits two configurations. The paper argues against
    it.

    Args:
        threshold: tau.
        patience: rho.
        start_from_round: Earlier rounds are measured but do not count.
        check_finite: Whether a distance that is not finite stops the run at once as "diverged".

    Raises:
        FedhaltError: If a setting is out of range.

    Examples:
        >>> from fedhalt import Difference, stop_round
        >>> stop_round(Difference(threshold=0.5, patience=2), [1.0, 2.0, 2.4, 2.6])
        4
    """

    signal: ClassVar[Signal] = DistanceChange()

    def below(self, signal: Any) -> Any:
        return signal <= self.threshold
