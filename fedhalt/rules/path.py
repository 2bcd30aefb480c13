"""A rule about the path that the model has walked, L_r = sum_{k <= r} ||u_k||, u_k = theta_k - theta_{k-1}."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .growth import Saturation, relative


@dataclass(frozen=True)
class PathGrowth(Saturation):
    """||u_r|| / L_r < tau: the paper's growth rate with the path in the place of the distance.

    The distance stands still, or falls, while a model turns round its start, and it jumps with every odd cohort; the
    path only grows, by what this round did. Steps of equal length give 1 / r, whatever their directions, so a run that
    neither calms down nor speeds up stops near round 1 / tau; one whose steps shrink stops sooner. Needs no theta_0,
    only the model of the last round. Ours; docs/stopbench.md.
    """

    reads: ClassVar[tuple[str, ...]] = ("update_norm",)

    def keep(self, before: float | None, now: tuple[float, ...]) -> float:
        return (before or 0.0) + now[0]

    def quantity(self, before: float | None, now: tuple[float, ...]) -> float | None:
        return relative(now[0], self.keep(before, now))
