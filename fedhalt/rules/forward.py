"""Our rule: the paper's growth rate, of the way that the model has gone forward in the place of its distance.

    f_r = ||u_r|| + <u_r, v_{r-1}> / ||v_{r-1}||,   u_r = theta_r - theta_{r-1},  v_r = theta_r - theta_0
    F_r = f_1 + ... + f_r,   stop when f_r / F_r < tau for rho rounds in a row

A step counts twice if it goes straight on, once at right angles to the way so far, and not at all straight back. The
distance jumps with every odd cohort and comes back; F only grows. Chosen on blood cells; docs/stopbench.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from .growth import Saturation, relative


@dataclass(frozen=True)
class ForwardGrowth(Saturation):
    """f_r / F_r < tau: what this round added to the way forward.

    Scaling the model or the rate changes nothing. It is a better clock, not the end of clocks: steps of equal length
    and equal angle give 1 / r, so a straight drift stops near round 1 / tau + rho; a model whose steps shrink, or turn
    back, stops sooner, one that speeds up later. Needs theta_0 and the model of the last round.
    """

    threshold: float = 0.005
    patience: int = 5
    reads: ClassVar[tuple[str, ...]] = ("distance", "update_norm", "alignment")
    signed: ClassVar[tuple[str, ...]] = ("alignment",)

    def keep(self, before: Any, now: tuple[float, ...]) -> Any:
        total, distance = before or (0.0, 0.0)
        added = _forward(distance, now)
        return [total + added if math.isfinite(added) else total, now[0] if math.isfinite(now[0]) else distance]

    def quantity(self, before: Any, now: tuple[float, ...]) -> float | None:
        total, distance = before or (0.0, 0.0)
        added = _forward(distance, now)
        return relative(added, total + added)


def _forward(distance: float, now: tuple[float, ...]) -> float:
    """f_r; the first step, and one from theta_0 itself, goes straight on."""
    _, update, alignment = now
    forward = update + (alignment / distance if distance else update)
    return 0.0 if forward < 0 else forward  # by rounding only
