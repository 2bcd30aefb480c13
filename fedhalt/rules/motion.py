"""What the model is doing: the local exponent of its distance, and a word for it.

The exponent a = d ln delta / d ln r is 1 for a straight drift, 1/2 for a random walk, and 0 where the distance no
longer grows. The words are "diverging" (above 1.5), "still moving" (from 0.75), "diffusing" (from 0.25), and below that
"saturated", or "going nowhere" if the updates cancel.

Examples:
    >>> from fedhalt.rules import motion
    >>> motion.of({"round": r, "distance": r**0.5} for r in range(1, 50)).word
    'diffusing'
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..errors import FedhaltError
from .base import Row, State, number
from .columns import Block, Table, are_floats, blocks_of
from .signals.exponent import LocalExponent

__all__ = ["Motion", "begin", "of", "step"]

EXPONENT = LocalExponent()


class Motion(NamedTuple):
    """The local exponent (None where it is not defined) and the word for it.

    Attributes:
        exponent: The local exponent.
        word: "still moving", "diffusing", "saturated", "going nowhere", "diverging", or empty.

    Examples:
        >>> from fedhalt.rules.motion import Motion
        >>> Motion(1.0, "still moving").word
        'still moving'
    """

    exponent: float | None = None
    word: str = ""


def begin() -> State:
    """The state before the first round.

    Returns:
        A state for `step`. It can be stored as JSON.

    Examples:
        >>> from fedhalt.rules.motion import begin
        >>> begin()["round"]
        0
    """
    return {**EXPONENT.begin(), "squares": 0.0}


def step(state: State, r: int, row: Row) -> tuple[State, Motion]:
    """Steps one round.

    Args:
        state: The state after the previous round.
        r: The round.
        row: The recorded columns. A row without a distance changes nothing.

    Returns:
        The new state, and what the model is doing.

    Examples:
        >>> from fedhalt.rules.motion import step
        >>> state, first = step(begin(), 1, {"distance": 1.0})
        >>> state, second = step(state, 2, {"distance": 2.0})
        >>> first, second
        (Motion(exponent=None, word=''), Motion(exponent=1.0, word='still moving'))
    """
    (moved,) = _moves(state, [(r, _norm(row, "distance"), _norm(row, "update_norm"))])
    return moved[0], Motion(*_described(*moved))


def over(rows: Table | Sequence[Row]) -> list[tuple[float | None, str]]:
    """What the model was doing in every round of a record: the exponents and the words for them."""
    return [_described(*moved) for moved in _moves(begin(), _rounds(rows))]


def at(rows: Table | Sequence[Row], last: int | None = None) -> Motion:
    """What the model was doing in round `last` of a record, by default in its last one."""
    upto = _rounds(rows) if last is None else itertools.takewhile(lambda one: one[0] <= last, _rounds(rows))
    newest = deque(_moves(begin(), upto), maxlen=1)
    return Motion(*_described(*newest[0])) if newest else Motion()


def of(rows: Iterable[Row]) -> Motion:
    """What the model was doing in the last of these rounds.

    Args:
        rows: Recorded rows, each with its `round`.

    Returns:
        The exponent and the word for it.

    Examples:
        >>> from fedhalt.rules.motion import of
        >>> of({"round": r, "distance": float(r)} for r in range(1, 10)).word
        'still moving'
    """
    return at(list(rows))


_Round = tuple[int, float | None, float | None]
"""A round, its distance and the norm of its update."""

_Moved = tuple[State, float | None, bool]
"""The state after a round, its exponent, and whether the round recorded a distance."""


def _moves(state: State, rounds: Iterable[_Round]) -> Iterator[_Moved]:
    step = EXPONENT.step
    for r, distance, update in rounds:
        if distance is None:
            yield state, None, False
            continue
        squares = state["squares"]
        state, exponent = step(state, r, (distance,))
        # a sum with a gap says nothing about cancelling
        state["squares"] = None if squares is None or update is None else squares + update * update
        yield state, exponent, True


def _rounds(rows: Table | Sequence[Row]) -> Iterator[_Round]:
    for block in blocks_of(rows):
        yield from zip(block.values("round"), _norms(block, "distance"), _norms(block, "update_norm"), strict=True)


def _described(state: State, exponent: float | None, recorded: bool) -> tuple[float | None, str]:
    """The fields of a `Motion`: to make one takes as long as to step a round."""
    if exponent is not None:
        return exponent, _word(exponent, state["distance"], state["squares"])
    return None, "diverging" if recorded and state["distance"] is None else ""  # not finite


def _word(exponent: float, distance: float, squares: float | None) -> str:
    """The boundaries are the midpoints between 0, 1/2, 1 and 2."""
    if exponent > 1.5:
        return "diverging"
    if exponent >= 0.75:
        return "still moving"
    if exponent >= 0.25:
        return "diffusing"
    undone = squares is not None and distance < 0.5 * math.sqrt(squares)  # as in wandering.py: the updates cancel
    return "going nowhere" if distance == 0 or undone else "saturated"


def _norms(block: Block, column: str) -> Sequence[float | None]:
    values = block.values(column)
    if are_floats(values) and min(values) >= 0:
        return values
    return [None if value is None else _norm({column: value}, column) for value in values]


def _norm(row: Row, column: str) -> float | None:
    """A recorded norm, or None. The rule, not this function, reports missing columns."""
    if row.get(column) is None:
        return None
    try:
        value = number(row, column, 0)
    except FedhaltError:
        return None
    return None if value < 0 else value
