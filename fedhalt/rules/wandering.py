"""The screening verdict: does the model get anywhere, or do its updates only cancel each other?

    w_r = ||v_r|| / sqrt(sum_{k <= r} ||u_k||^2),   v_r = theta_r - theta_0,   u_k = theta_k - theta_{k-1}

Updates at right angles to each other, a random walk, give w = 1; updates that agree give up to sqrt(r); updates that
undo each other give w < 1. A configuration that is thrown about by too large steps goes toward 0, while any that
learns, fast or slowly, stays clearly above. docs/findings.md says how it was chosen, and how often it is wrong.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from ..check import FedhaltError, positive, whole
from .base import Row, State, Status, next_round, number


@dataclass(frozen=True)
class Wandering:
    """Stop once w_r stayed below the threshold for `patience` rounds in a row: the run is going nowhere.

    A model that has not moved at all has w = 0 and counts, with reason "frozen"; a column that is not finite stops at
    once with reason "diverged". It says nothing about a run that moves too slowly.
    """

    threshold: float = 0.5
    patience: int = 15
    reads: ClassVar[tuple[str, ...]] = ("distance", "update_norm")

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", positive("threshold", self.threshold))
        object.__setattr__(self, "patience", whole("patience", self.patience))

    def below(self, share: float) -> bool:
        return share < self.threshold

    def begin(self) -> State:
        return {"round": 0, "squares": 0.0, "streak": 0}

    def step(self, state: State, row: Row) -> tuple[State, Status]:
        r = next_round(state, row)
        distance, update = (number(row, column, r) for column in self.reads)
        if min(distance, update) < 0:
            raise FedhaltError(f"round {r}: distance and update_norm cannot be negative, got {(distance, update)}")
        squares = state["squares"] + update * update
        diverged = not (math.isfinite(distance) and math.isfinite(squares))
        walked = math.sqrt(squares) if squares >= 0 else squares
        share = 0.0 if distance == 0 else distance / walked if walked else math.inf
        streak = state["streak"] + 1 if self.below(share) else 0
        stop = diverged or streak >= self.patience
        reason = "" if not stop else "diverged" if diverged else "wandering" if squares else "frozen"
        return {"round": r, "squares": squares, "streak": streak}, Status(r, distance, share, streak, stop, reason)
