"""Other data-free rules, because the paper's is compared with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .growth import Saturation, relative


@dataclass(frozen=True)
class Difference(Saturation):
    """delta_r - delta_{r-1} <= tau: the per-round change that the paper argues against (section II-B).

    Its scale is the step size's, so no threshold serves two configurations; signed as in the paper.
    """

    def quantity(self, before: float | None, now: tuple[float, ...]) -> float | None:
        return None if before is None else now[0] - before

    def below(self, quantity: float) -> bool:
        return quantity <= self.threshold


@dataclass(frozen=True)
class RelativeUpdate(Saturation):
    """||u_r|| / delta_{r-1} < tau, u_r = theta_r - theta_{r-1}: the paper's upper bound of its growth rate.

    It sees movement at a constant distance from the start, which the growth rate does not.
    """

    reads: ClassVar[tuple[str, ...]] = ("distance", "update_norm")

    def quantity(self, before: float | None, now: tuple[float, ...]) -> float | None:
        return None if before is None else relative(now[1], before)


@dataclass(frozen=True)
class WeightDiff(Saturation):
    """||u_r|| < tol * max(||theta_r||, 1): the `weight_diff` convergence test of FATE (WeBank).

    The threshold is FATE's tol; FATE has no patience, hence 1. Round 1 counts: u_1 starts at theta_0.
    """

    threshold: float = 1e-4
    patience: int = 1
    reads: ClassVar[tuple[str, ...]] = ("update_norm", "parameter_norm")

    def quantity(self, before: float | None, now: tuple[float, ...]) -> float | None:
        update, parameters = now
        return update / max(parameters, 1.0)
