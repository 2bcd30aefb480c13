"""What a signal and a rule are: settings, and one pure step from a round's numbers to a number or a verdict."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from ..errors import FedhaltError, brief

Row = Mapping[str, Any]
"""The recorded columns of one round: `distance`, `update_norm`, `val_loss`, …; `round` is optional."""

State = dict[str, Any]
"""What a rule remembers between two rounds. It can be stored as JSON and is never changed in place."""


class Status(NamedTuple):
    """The verdict on one round.

    Attributes:
        round: The round, counted from 1.
        value: The recorded number that the rule watches: the distance for the paper's rule, a loss for a plateau.
        signal: What is compared with the threshold: g_r for the paper's rule. None where it is not defined.
        streak: For how many rounds in a row the signal has been below the threshold.
        stop: Whether the rule stops at this round.
        reason: Empty, or why it stops: "saturated", "frozen", "diverged", "plateau", "wandering", "stationary",
            "screened", "target", "budget", "time" or "traffic".
        exponent: The local exponent d ln delta / d ln r; see `fedhalt.rules.motion`. None where it is not defined.
        motion: The word for it: "still moving", "diffusing", "saturated", "going nowhere", "diverging", or empty.

    Examples:
        >>> from fedhalt import GrowthRate, replay
        >>> *_, last = replay(GrowthRate(threshold=0.3, patience=2), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        >>> last.round, last.streak, last.stop, last.reason
        (6, 2, True, 'saturated')
    """

    round: int
    value: float | None
    """The recorded number that the rule watches."""
    signal: float | None
    """What is compared with the threshold."""
    streak: int
    stop: bool
    reason: str
    """Why the rule stops; empty if it does not."""
    exponent: float | None = None
    """The local exponent, added by the stepper."""
    motion: str = ""
    """The word for the exponent."""


class Signal(Protocol):
    """One pure step from a round's columns to one number, without a threshold.

    A new signal is a file in `fedhalt/rules/signals/`.

    Examples:
        >>> from fedhalt.rules.signals.growth import Growth
        >>> signal = Growth()
        >>> state, first = signal.step(signal.begin(), 1, (2.0,))
        >>> state, second = signal.step(state, 2, (3.0,))
        >>> first, second
        (None, 0.5)
    """

    @property
    def reads(self) -> tuple[str, ...]:
        """The recorded columns that it needs, norms first."""

    @property
    def signed(self) -> tuple[str, ...]:
        """Those of them, at the end, that may be negative."""

    def begin(self) -> Any:
        """The state before round 1: small, immutable, and can be stored as JSON."""

    def step(self, state: Any, r: int, now: tuple[float, ...]) -> tuple[Any, float | None]:
        """Steps one round.

        Args:
            state: The state after the previous round.
            r: The round.
            now: The columns of this round, in the order of `reads`.

        Returns:
            The new state, and the signal; None where it is not defined.
        """


class Rule(Protocol):
    """What every rule provides. A rule is a frozen dataclass of settings.

    `step` is pure, so live, replayed and resumed runs agree.

    Examples:
        The smallest possible rule:

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
        """The recorded columns that the rule needs."""

    def begin(self) -> State:
        """The state before round 1."""

    def step(self, state: State, row: Row) -> tuple[State, Status]:
        """Steps one round.

        Args:
            state: The state after the previous round.
            row: The columns of this round. Without `round`, it is the next round.

        Returns:
            The new state, and the verdict.
        """


def is_rule(value: object) -> bool:
    """Whether a value is a rule: an instance, not a class or a name."""
    return callable(getattr(value, "step", None)) and not isinstance(value, type)


def next_round(state: State, row: Row) -> int:
    """The number of this row's round: the recorded one, or the last plus one."""
    last: int = state["round"]
    recorded = row.get("round")
    if recorded is None:
        return last + 1
    if type(recorded) is not int and (isinstance(recorded, bool) or not isinstance(recorded, numbers.Integral)):
        raise FedhaltError(f"round {brief(recorded)}: rounds are whole numbers, counted from 1")
    if recorded <= last:
        raise FedhaltError(f"round {brief(recorded)} after round {last}: rounds count from 1 and only grow")
    if int(recorded) >= 2**63:
        raise FedhaltError(f"round {brief(recorded)}: no run has so many rounds")
    return int(recorded)


HINTS = {"distance_average": " (keep an average from round 1 on: average=10, or --average 10)"}
"""How to have a column that only some runs record."""


def number(row: Row, column: str, r: int) -> float:
    """The number recorded in `column`. Otherwise an error that lists the recorded columns."""
    value = row.get(column)
    if type(value) is float:
        return value
    if column not in row:
        there = ", ".join(key for key in row if key != "round") or "nothing"
        hint = HINTS.get(column, "")
        raise FedhaltError(f"round {r}: the rule reads {column!r}, which is not recorded{hint}; recorded: {there}")
    if value is not None and not isinstance(value, (str, bytes, bool)):
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            pass
    raise FedhaltError(f"round {r}: {column!r} must be a number, not {brief(value)}")


def relative(change: float, before: float) -> float:
    """change / before, with 0 / 0 = 0 (nothing moved) and x / 0 = infinity."""
    if before != 0:
        return change / before
    return 0.0 if change == 0 else math.inf
