"""The update over the distance: the paper's upper bound on its growth rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..base import Signal, relative
from ..trigger import SignalRule


@dataclass(frozen=True)
class UpdateOverDistance:
    """||u_r|| / delta_{r-1}, u_r = theta_r - theta_{r-1}; the state is delta_{r-1}."""

    reads: ClassVar[tuple[str, ...]] = ("distance", "update_norm")
    signed: ClassVar[tuple[str, ...]] = ()

    def begin(self) -> None:
        return None

    def step(self, before: float | None, r: int, now: tuple[float, ...]) -> tuple[float, float | None]:
        return now[0], None if before is None else relative(now[1], before)


@dataclass(frozen=True)
class RelativeUpdate(SignalRule):
    """||u_r|| / delta_{r-1} < tau for rho rounds in a row, with u_r = theta_r - theta_{r-1}.

    Unlike the growth, it sees movement at a constant distance from the start.

    Args:
        threshold: tau.
        patience: rho.
        start_from_round: Earlier rounds are measured but do not count.
        check_finite: Whether a column that is not finite stops the run at once as "diverged".

    Raises:
        FedhaltError: If a setting is out of range.

    Examples:
        >>> from fedhalt import RelativeUpdate, stop_round
        >>> rows = [{"distance": 1.0, "update_norm": norm} for norm in (1.0, 0.5, 0.05, 0.04)]
        >>> stop_round(RelativeUpdate(threshold=0.1, patience=2), rows)
        4
    """

    signal: ClassVar[Signal] = UpdateOverDistance()
