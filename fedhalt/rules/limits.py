"""Rules that people ask for besides: a target for a metric, and budgets in minutes and in megabytes.

They read recorded columns like all others, so a replay stops where the live run did.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..errors import FedhaltError, brief, flag, positive, real, text, whole
from .base import Row, State, Status, next_round, number
from .plateau import is_higher_better


@dataclass(frozen=True)
class Target:
    """Stops when a recorded metric has reached a target.

    A round that was not evaluated (None) neither counts nor resets the streak. NaN does not reach a target.

    Args:
        column: The recorded column, such as "val_accuracy", or "client_accuracy" for the clients' aggregated metric.
        target: The value to reach: at least this accuracy, at most this loss. Accuracies are fractions.
        patience: For how many evaluations in a row.
        higher_is_better: Whether a larger value is better. Known where the name ends in "accuracy" or "loss".

    Raises:
        FedhaltError: If a setting is out of range, or `higher_is_better` is missing for another column.

    Examples:
        >>> from fedhalt import Target, stop_round
        >>> stop_round(Target("client_accuracy", 0.8), [0.5, 0.79, 0.8, 0.7])
        3
        >>> stop_round(Target("val_loss", 0.3, patience=2), [0.5, 0.3, 0.4, 0.2, 0.1])
        5
    """

    column: str
    target: float
    patience: int = 1
    higher_is_better: bool | None = None

    def __post_init__(self) -> None:
        text("column", self.column)
        object.__setattr__(self, "target", real("target", self.target))
        object.__setattr__(self, "patience", whole("patience", self.patience))
        if self.higher_is_better is not None:
            flag("higher_is_better", self.higher_is_better)
        else:
            object.__setattr__(self, "higher_is_better", is_higher_better(self.column))

    @property
    def reads(self) -> tuple[str, ...]:
        return (self.column,)

    def begin(self) -> State:
        return {"round": 0, "streak": 0}

    def step(self, state: State, row: Row) -> tuple[State, Status]:
        r = next_round(state, row)
        if self.column in row and row[self.column] is None:
            return {**state, "round": r}, Status(r, None, None, state["streak"], False, "")
        value = number(row, self.column, r)
        reached = value >= self.target if self.higher_is_better else value <= self.target
        streak = state["streak"] + 1 if reached else 0
        stop = streak >= self.patience
        return {"round": r, "streak": streak}, Status(r, value, None, streak, stop, "target" if stop else "")


@dataclass(frozen=True)
class Minutes:
    """Stops once the rounds have taken this long in total: the sum of the recorded `seconds`.

    `fedhalt run` records them; `EarlyStopper` and the adapters measure them if the rule reads them. Time between a kill
    and a restart does not count.

    Args:
        minutes: The budget in minutes.

    Raises:
        FedhaltError: If it is not a finite number above 0.

    Examples:
        >>> from fedhalt import AnyOf, GrowthRate, Minutes, stop_round
        >>> stop_round(Minutes(2), [50.0, 50.0, 50.0])
        3
        >>> AnyOf(GrowthRate(), Minutes(90)).reads
        ('distance', 'seconds')
    """

    minutes: float
    reads: ClassVar[tuple[str, ...]] = ("seconds",)

    def __post_init__(self) -> None:
        object.__setattr__(self, "minutes", positive("minutes", self.minutes))

    def begin(self) -> State:
        return {"round": 0, "seconds": 0.0}

    def step(self, state: State, row: Row) -> tuple[State, Status]:
        r = next_round(state, row)
        seconds = state["seconds"] + _spent(row, "seconds", r)
        stop = seconds >= self.minutes * 60
        status = Status(r, seconds / 60, None, int(stop), stop, "time" if stop else "")
        return {"round": r, "seconds": seconds}, status


@dataclass(frozen=True)
class Megabytes:
    """Stops once this much has been sent in total: the sum of the recorded `bytes_up` and `bytes_down`.

    `fedhalt run` records them, and Flower's adapter counts them if the rule reads them. In your own loop, pass
    them: `stopper.update(params, bytes_up=…, bytes_down=…)`.

    Args:
        megabytes: The budget in megabytes of 10^6 bytes, both ways, all clients.

    Raises:
        FedhaltError: If it is not a finite number above 0.

    Examples:
        >>> from fedhalt import Megabytes, stop_round
        >>> stop_round(Megabytes(5), [{"bytes_up": 1_000_000, "bytes_down": 1_000_000}] * 4)
        3
    """

    megabytes: float
    reads: ClassVar[tuple[str, ...]] = ("bytes_up", "bytes_down")

    def __post_init__(self) -> None:
        object.__setattr__(self, "megabytes", positive("megabytes", self.megabytes))

    def begin(self) -> State:
        return {"round": 0, "bytes": 0.0}

    def step(self, state: State, row: Row) -> tuple[State, Status]:
        r = next_round(state, row)
        sent = state["bytes"] + sum(_spent(row, column, r) for column in self.reads)
        stop = sent >= self.megabytes * 1e6
        status = Status(r, sent / 1e6, None, int(stop), stop, "traffic" if stop else "")
        return {"round": r, "bytes": sent}, status


def _spent(row: Row, column: str, r: int) -> float:
    """What a round cost; a round that does not know (None) counts nothing."""
    if column in row and row[column] is None:
        return 0.0
    value = number(row, column, r)
    if not 0 <= value < float("inf"):
        raise FedhaltError(f"round {r}: {column!r} must be a finite number, 0 or above, not {brief(value)}")
    return value
