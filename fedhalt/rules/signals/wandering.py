"""A signal for screening: do the updates add up, or do they cancel each other?

    w_r = ||v_r|| / sqrt(sum_{k <= r} ||u_k||^2),   v_r = theta_r - theta_0,   u_k = theta_k - theta_{k-1}

Updates at right angles to each other, as in a random walk, give w = 1. Updates that agree give up to sqrt(r). Updates
that undo each other give w < 1. If the steps are too large, the model jumps back and forth and w goes toward 0, while
any configuration that learns, fast or slowly, stays well above. docs/findings.md shows how the rule was chosen and how
often it is wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from ..base import Signal
from ..trigger import SignalRule


@dataclass(frozen=True)
class NetOverWalk:
    """w_r. The state is the sum of squares. A model that has not moved at all has w = 0."""

    reads: ClassVar[tuple[str, ...]] = ("distance", "update_norm")
    signed: ClassVar[tuple[str, ...]] = ()

    def begin(self) -> float:
        return 0.0

    def step(self, before: float, r: int, now: tuple[float, ...]) -> tuple[float, float]:
        distance, update = now
        squares = before + update * update
        if distance == 0:
            return squares, 0.0
        walked = math.sqrt(squares) if squares >= 0 else squares
        return squares, distance / walked if walked else math.inf


@dataclass(frozen=True)
class Wandering(SignalRule):
    """w_r < tau for rho rounds in a row: the updates cancel, and the run makes no progress. For screening.

    If the model has never moved, the reason is "frozen" instead of "wandering". The rule says nothing about a run that
    moves too slowly.

    Args:
        threshold: tau.
        patience: rho.
        start_from_round: Earlier rounds are measured but do not count.
        check_finite: Whether a column that is not finite stops the run at once as "diverged".

    Raises:
        FedhaltError: If a setting is out of range.

    Examples:
        >>> from fedhalt import Wandering, stop_round
        >>> back_and_forth = [{"distance": 1.0, "update_norm": 1.0}] * 30
        >>> stop_round(Wandering(threshold=0.5, patience=15), back_and_forth)
        19
    """

    threshold: float = 0.5
    patience: int = 15
    signal: ClassVar[Signal] = NetOverWalk()

    def diverged(self, now: tuple[float, ...], after: Any) -> bool:
        return not (math.isfinite(now[0]) and math.isfinite(after))

    def reason(self, still: bool, after: Any) -> str:
        return "wandering" if after else "frozen"
