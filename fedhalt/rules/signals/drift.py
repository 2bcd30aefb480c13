"""Drift over the scatter of the last rounds: does the model still go somewhere, or only around one place?

drift_w is measured from the models (measure/drift.py) for w = 5, 10, 20 and recorded as columns; this signal reads one
of them. About 1: the rounds scatter around a fixed point. About 2 w: a random walk. 6 w^2 / (w + 1): a straight line.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from ...errors import FedhaltError
from ..base import Signal
from ..trigger import SignalRule


@dataclass(frozen=True)
class DriftOverScatter:
    """drift_w as it is recorded. It needs no state. The first 2 w rounds have no value."""

    window: int

    @property
    def reads(self) -> tuple[str, ...]:
        return ("distance", f"drift_{self.window}")

    @property
    def signed(self) -> tuple[str, ...]:
        return self.reads[1:]

    def begin(self) -> None:
        return None

    def step(self, before: None, r: int, now: tuple[float, ...]) -> tuple[None, float | None]:
        return None, None if math.isnan(now[1]) else now[1]


@dataclass(frozen=True)
class Drift(SignalRule):
    """Stops when drift_w stays below the threshold: the rounds only scatter around one point.

    Early in a run, the model then only jumps around, as with a learning rate that is too large: use the rule as a
    screen. Late in a run, the average of the rounds has settled. It needs no data.

    Args:
        threshold: The threshold.
        patience: For how many rounds in a row drift_w must stay below it.
        start_from_round: The first round that counts.
        check_finite: Whether parameters that are not finite stop the run as "diverged".
        window: w: 5, 10 or 20 rounds.

    Raises:
        FedhaltError: If a setting is out of range.

    Examples:
        >>> import fedhalt
        >>> rows = [{"distance": 1.0, "drift_10": None if r < 20 else 40 / r} for r in range(1, 31)]
        >>> fedhalt.stop_round(fedhalt.Drift(1.5, window=10), rows)
        27
    """

    threshold: float = 5.0
    patience: int = 1
    window: int = 20
    norms: ClassVar[int] = 1
    words: ClassVar[tuple[str, str]] = ("frozen", "stationary")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window not in WINDOWS:
            raise FedhaltError(f"window must be 5, 10 or 20 rounds, not {self.window!r}")

    @property
    def signal(self) -> Signal:  # type: ignore[override]
        return DriftOverScatter(self.window)

    @property
    def reads(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.signal.reads

    @property
    def late(self) -> tuple[str, ...]:  # type: ignore[override]
        return self.signal.signed

    def diverged(self, now: tuple[float, ...], after: Any) -> bool:
        return not math.isfinite(now[0])


WINDOWS = (5, 10, 20)
"""The windows that measure/drift.py records."""


def best_window(drift: float, window: int) -> float:
    """How many rounds to average, estimated from drift_w alone: the least error in the parameters.

    With d the drift per round and s the scatter without it, averaging k rounds errs by d^2 (k - 1)^2 / 4 + s^2 / k,
    least near k = (2 s^2 / d^2)^(1/3). 1: the last model; infinity: as many as there are. An estimate of distance, not
    of accuracy.

    >>> [round(best_window(drift, 20), 1) for drift in (5.0, 20.0, 80.0)]
    [12.4, 7.0, 3.1]
    """
    ratio = 2 * drift / window
    moved = ratio - 2 / window
    if moved <= 0:
        return math.inf
    free = window**2 - ratio * window * (window + 1) / 12
    return max(1.0, (2 * free / moved) ** (1 / 3)) if free > 0 else 1.0
