"""What the model is doing: the local exponent of its distance, a word for it, and whether a stop came by the clock.

For a smooth delta_r = c r^a the paper's growth rate is a / r: it falls below any threshold near round a / tau, whatever
the accuracy does. The exponent a = d ln delta / d ln r does not fall by itself: it goes to 0 where the distance
saturates, stays at 1/2 for a random walk and at 1 for a straight drift. Averaged over ln r with weight (s / r)^3, that
is over about the last third of the run:

    num_r = (r' / r)^3 num_{r'} + ln(delta_r / delta_{r'})
    den_r = (r' / r)^3 den_{r'} + ln(r / r')
    a_r   = num_r / den_r

r' is the round recorded before r. It is exactly a for a power law, and scaling the model does not change it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ..check import FedhaltError
from .base import Row, Rule, State, Status, number

CLOCK = ": the clock, not the model"


class Motion(NamedTuple):
    """The local exponent, None where there is none yet, and the word for it."""

    exponent: float | None = None
    word: str = ""


def begin() -> State:
    """The state before the first round."""
    return {"round": 0, "distance": None, "num": 0.0, "den": 0.0, "squares": 0.0}


def step(state: State, r: int, row: Row) -> tuple[State, Motion]:
    """The state after this round and what the model does; a row without a distance changes nothing."""
    distance = _size(row, "distance", r)
    if distance is None:
        return state, Motion()
    last, before, squares = state["round"], state["distance"], state["squares"]
    update = _size(row, "update_norm", r) if squares is not None else None
    squares = None if update is None else squares + update * update  # a sum with a gap says nothing about cancelling
    anew = {"round": r, "distance": distance, "num": 0.0, "den": 0.0, "squares": squares}
    if not math.isfinite(distance):
        return {**anew, "distance": None}, Motion(None, "diverging")
    change = None if before is None or not 0 < last < r else _change(before, distance)
    if change is None:
        return anew, Motion()
    weight = (last / r) * (last / r) * (last / r)
    num, den = weight * state["num"] + change, weight * state["den"] + math.log(r / last)
    exponent = num / den
    return {**anew, "num": num, "den": den}, Motion(exponent, _word(exponent, distance, squares))


def of(rows: Iterable[Row]) -> Motion:
    """What the model was doing in the last of these recorded rounds."""
    state, motion = begin(), Motion()
    for row in rows:
        state, motion = step(state, row["round"], row)
    return motion


@dataclass(frozen=True)
class Explained:
    """A rule whose verdicts also say what the model is doing: whatever steps rules for people steps this."""

    rule: Rule

    @property
    def reads(self) -> tuple[str, ...]:
        return self.rule.reads

    def begin(self) -> State:
        return {"rule": self.rule.begin(), "motion": begin()}

    def step(self, state: State, row: Row) -> tuple[State, Status]:
        after, status = self.rule.step(state["rule"], row)
        moved, motion = step(state["motion"], status.round, row)
        return {"rule": after, "motion": moved}, status._replace(exponent=motion.exponent, motion=motion.word)


def told(exponent: float | None, word: str, reason: str = "") -> str:
    """Exponent and word; beside the reason of a stop also whether the clock made it.

    >>> told(0.4213, "diffusing", "saturated")
    '0.42, diffusing: the clock, not the model'
    """
    if exponent is None:
        return word or "-"
    clock = reason == "saturated" and word in ("still moving", "diffusing")
    return f"{exponent:z.2f}, {word}{CLOCK if clock else ''}"


def why(reason: str, exponent: float | None, word: str) -> str:
    """Why a run ended, as every view says it.

    >>> f"stop at round 111 ({why('saturated', 0.4213, 'diffusing')})"
    'stop at round 111 (saturated; exponent 0.42, diffusing: the clock, not the model)'
    """
    return reason if exponent is None else f"{reason}; exponent {told(exponent, word, reason)}"


def _word(exponent: float, distance: float, squares: float | None) -> str:
    """The boundaries lie in the middle between 0, 1/2, 1 and 2."""
    if exponent > 1.5:
        return "diverging"
    if exponent >= 0.75:
        return "still moving"
    if exponent >= 0.25:
        return "diffusing"
    undone = squares is not None and distance < 0.5 * math.sqrt(squares)  # as in wandering.py: the updates cancel
    return "going nowhere" if distance == 0 or undone else "saturated"


def _change(before: float, now: float) -> float | None:
    """ln(now / before), 0 for 0 after 0; None where no number says it, as from 0 to anything else."""
    if now == before:
        return 0.0
    ratio = now / before if before else 0.0
    return math.log(ratio) if 0 < ratio < math.inf else None


def _size(row: Row, column: str, r: int) -> float | None:
    """A recorded norm, None where there is none: the rule, not this, complains about columns."""
    if row.get(column) is None:
        return None
    try:
        value = number(row, column, r)
    except FedhaltError:
        return None
    return None if value < 0 else value
