"""The local exponent of the distance: a signal that does not fall by itself.

For a smooth delta_r = c r^a, the paper's growth rate is a / r. It falls below any threshold near round a / tau,
whatever the accuracy does. The exponent a = d ln delta / d ln r goes to 0 where the distance saturates, stays at 1/2
for a random walk, and at 1 for a straight drift. It is averaged over ln r with weight (s / r)^3, which covers about the
last third of the run:

    num_r = (r' / r)^3 num_{r'} + ln(delta_r / delta_{r'})
    den_r = (r' / r)^3 den_{r'} + ln(r / r')
    a_r   = num_r / den_r

r' is the round recorded before r. For a power law the result is exactly a, and scaling the model does not change it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, log
from typing import ClassVar

from ..base import State


@dataclass(frozen=True)
class LocalExponent:
    """a_r; the state is r', delta_{r'} (None after a distance that is not finite), num and den."""

    reads: ClassVar[tuple[str, ...]] = ("distance",)
    signed: ClassVar[tuple[str, ...]] = ()

    def begin(self) -> State:
        return {"round": 0, "distance": None, "num": 0.0, "den": 0.0}

    def step(self, state: State, r: int, now: tuple[float, ...]) -> tuple[State, float | None]:
        distance, last, before = now[0], state["round"], state["distance"]
        if not isfinite(distance):
            return {"round": r, "distance": None, "num": 0.0, "den": 0.0}, None
        change = None if before is None or not 0 < last < r else _log_ratio(before, distance)
        if change is None:
            return {"round": r, "distance": distance, "num": 0.0, "den": 0.0}, None
        ratio = last / r
        weight = ratio * ratio * ratio
        num, den = weight * state["num"] + change, weight * state["den"] + log(r / last)
        return {"round": r, "distance": distance, "num": num, "den": den}, num / den


def _log_ratio(before: float, now: float) -> float | None:
    """ln(now / before); 0 for 0 after 0; None where it is not defined, as from 0 to anything else."""
    if now == before:
        return 0.0
    ratio = now / before if before else 0.0
    return log(ratio) if 0 < ratio < inf else None
