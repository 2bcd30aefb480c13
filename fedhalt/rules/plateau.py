"""The baselines the paper compares with: validation loss or accuracy that no longer improves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..check import FedhaltError, flag, known, positive, whole
from .base import Row, State, Status, next_round, number

HIGHER_IS_BETTER = {"val_loss": False, "val_accuracy": True}


@dataclass(frozen=True)
class Plateau:
    """Stop after `patience` evaluations in a row without an improvement of more than `threshold`.

    A loss improves when L < best - tau (best starts at infinity, tau in nats); an accuracy when
    A > best + tau (best starts at 0). Accuracies are recorded as fractions, but the threshold is
    in percentage points, as in the authors' runs: tau = 0.01 is 0.01 points, practically "any
    improvement". `acc_unit="fraction"` compares the fractions as they are.

    A round that was not evaluated (None) neither counts nor resets; NaN is no improvement.
    """

    column: str = "val_loss"
    threshold: float = 0.01
    patience: int = 10
    higher_is_better: bool | None = None
    acc_unit: Literal["percent", "fraction"] = "percent"

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", positive("threshold", self.threshold))
        object.__setattr__(self, "patience", whole("patience", self.patience))
        known("acc_unit", self.acc_unit, ("percent", "fraction"))
        if self.higher_is_better is not None:
            flag("higher_is_better", self.higher_is_better)
        else:
            if self.column not in HIGHER_IS_BETTER:
                raise FedhaltError(f"say whether a larger {self.column!r} is better: higher_is_better=True or False")
            object.__setattr__(self, "higher_is_better", HIGHER_IS_BETTER[self.column])

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.column,)

    def begin(self) -> State:
        return {"round": 0, "best": 0.0 if self.higher_is_better else None, "streak": 0}

    def step(self, state: State, row: Row) -> tuple[State, Status]:
        r = next_round(state, row)
        if self.column in row and row[self.column] is None:
            return {**state, "round": r}, Status(r, None, None, state["streak"], False, "")
        value, best = number(row, self.column, r), state["best"]
        scaled = value * 100 if self.higher_is_better and self.acc_unit == "percent" else value
        if best is None:
            gain, improved = None, scaled == scaled
        else:
            gain = scaled - best if self.higher_is_better else best - scaled
            improved = scaled > best + self.threshold if self.higher_is_better else scaled < best - self.threshold
        streak = 0 if improved else state["streak"] + 1
        stop = streak >= self.patience
        after = {"round": r, "best": scaled if improved else best, "streak": streak}
        return after, Status(r, value, gain, streak, stop, "plateau" if stop else "")
