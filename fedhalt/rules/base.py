"""What a stopping rule is: settings, and one pure step from a round's numbers to a verdict."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from ..check import FedhaltError

Row = Mapping[str, Any]
"""One round's recorded columns: `distance`, `update_norm`, `val_loss`, …; `round` is optional."""

State = dict[str, Any]
"""A rule's own small memory between two rounds; JSON-able, never changed in place."""


class Status(NamedTuple):
    """The verdict on one round."""

    round: int
    value: float | None
    """The recorded number the rule watches: the distance for the paper's rule, a loss for a plateau."""
    growth: float | None
    """What is held against the threshold: g_r for the paper's rule; None where it is not defined."""
    streak: int
    stop: bool
    reason: str
    """Empty while going on; then "saturated", "frozen", "diverged", "plateau", "wandering", "screened" or "budget"."""
    exponent: float | None = None
    """The local exponent d ln delta / d ln r, filled in by whatever steps the rule; see motion.py."""
    motion: str = ""
    """The word for it: "still moving", "diffusing", "saturated", "going nowhere", "diverging"; empty without one."""


class Rule(Protocol):
    """A frozen dataclass of settings; `step` is pure, so live, replayed and resumed runs agree.

    The smallest rule there is, and what it says:

    >>> from dataclasses import dataclass
    >>> import fedhalt
    >>> @dataclass(frozen=True)
    ... class After:
    ...     rounds: int
    ...     reads = ()
    ...     def begin(self):
    ...         return {"round": 0}
    ...     def step(self, state, row):
    ...         r = state["round"] + 1
    ...         return {"round": r}, fedhalt.Status(r, None, None, r, r >= self.rounds, "")
    >>> fedhalt.stop_round(After(2), [0.5, 0.7, 0.8])
    2
    """

    @property
    def reads(self) -> tuple[str, ...]:
        """The recorded columns this rule needs."""

    def begin(self) -> State:
        """The state before round 1."""

    def step(self, state: State, row: Row) -> tuple[State, Status]:
        """The state after this round and the verdict on it; a row without `round` is the next one."""


def next_round(state: State, row: Row) -> int:
    """The number of this row's round: recorded, or one more than the last."""
    last: int = state["round"]
    recorded = row.get("round")
    if recorded is None:
        return last + 1
    if type(recorded) is not int and (isinstance(recorded, bool) or not isinstance(recorded, numbers.Integral)):
        raise FedhaltError(f"round {recorded!r}: rounds are whole numbers, counted from 1")
    if recorded <= last:
        raise FedhaltError(f"round {recorded} after round {last}: rounds count from 1 and only grow")
    return int(recorded)


def number(row: Row, column: str, r: int) -> float:
    """The number recorded in `column`; anything else is an error that lists what there is."""
    value = row.get(column)
    if type(value) is float:
        return value
    if column not in row:
        there = ", ".join(key for key in row if key != "round") or "nothing"
        raise FedhaltError(f"round {r}: the rule reads {column!r}, which is not recorded; recorded: {there}")
    if value is not None and not isinstance(value, (str, bytes, bool)):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    raise FedhaltError(f"round {r}: {column!r} must be a number, not {value!r}")
