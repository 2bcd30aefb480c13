"""The baselines of the paper: validation loss or accuracy that no longer improves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..errors import FedhaltError, flag, positive, require_one_of, text, whole
from .base import Row, State, Status, next_round, number

HIGHER_IS_BETTER = {"loss": False, "accuracy": True}
"""By the last word of a column's name."""


def is_higher_better(column: str) -> bool:
    """Whether a larger value of this column is better, where its name says so."""
    last = column.rpartition("_")[2]
    if last not in HIGHER_IS_BETTER:
        raise FedhaltError(f"say whether a larger {column!r} is better: higher_is_better=True or False")
    return HIGHER_IS_BETTER[last]


@dataclass(frozen=True)
class Plateau:
    """Stops after `patience` evaluations in a row without an improvement of more than `threshold`.

    A loss improves when L < best - tau (best starts at infinity, tau is in nats). An accuracy improves when A > best +
    tau (best starts at 0). Accuracies are recorded as fractions, but the threshold is in percentage points, as in the
    authors' runs: tau = 0.01 is 0.01 points, practically any improvement.

    A round that was not evaluated (None) neither counts nor resets the streak. NaN is not an improvement.

    Args:
        column: The recorded column, such as "val_loss" or "val_accuracy".
        threshold: tau.
        patience: How many evaluations in a row without an improvement.
        higher_is_better: Whether a larger value is better. Known where the name ends in "accuracy" or "loss".
        acc_unit: "percent" compares accuracies in percentage points, "fraction" as recorded.

    Raises:
        FedhaltError: If a setting is out of range, or `higher_is_better` is missing for another column.

    Examples:
        >>> from fedhalt import Plateau, stop_round
        >>> stop_round(Plateau("val_loss", threshold=0.01, patience=2), [1.0, 0.5, 0.499, 0.6])
        4
    """

    column: str = "val_loss"
    threshold: float = 0.01
    patience: int = 10
    higher_is_better: bool | None = None
    acc_unit: Literal["percent", "fraction"] = "percent"

    def __post_init__(self) -> None:
        text("column", self.column)
        object.__setattr__(self, "threshold", positive("threshold", self.threshold))
        object.__setattr__(self, "patience", whole("patience", self.patience))
        require_one_of("acc_unit", self.acc_unit, ("percent", "fraction"))
        if self.higher_is_better is not None:
            flag("higher_is_better", self.higher_is_better)
        else:
            object.__setattr__(self, "higher_is_better", is_higher_better(self.column))

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
