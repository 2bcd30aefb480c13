"""The paper's signal on the averaged model: the growth rate of the distance of the mean of the last models.

Where the global model jumps with every cohort, its mean over ten rounds does not, so the streak is not broken by luck.
The distance of the mean is measured (measure/tail.py) and recorded as a column; see docs/stopbench.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from ..base import Signal
from ..trigger import SignalRule
from .growth import Growth

GROWTH = Growth()


@dataclass(frozen=True)
class GrowthOfAverage:
    """|delta_r - delta_{r-1}| / delta_{r-1} of the average's distance delta_r. The state is delta_{r-1}.

    A round whose model is not finite is no part of the average and has no signal.
    """

    reads: ClassVar[tuple[str, ...]] = ("distance", "distance_average")
    signed: ClassVar[tuple[str, ...]] = ()

    def begin(self) -> None:
        return None

    def step(self, before: float | None, r: int, now: tuple[float, ...]) -> tuple[float | None, float | None]:
        if not all(map(math.isfinite, now)):
            return before, None
        return GROWTH.step(before, r, now[1:])


@dataclass(frozen=True)
class AverageGrowth(SignalRule):
    """The paper's rule on the model that is shipped: the growth rate of the average's distance below tau for rho rounds
    in a row.

    It reads the distance of the average of the last models, so an average is kept: of ten rounds, unless `average` says
    otherwise. Like the paper's rule it is in part a clock.

    Args:
        threshold: tau.
        patience: rho.
        start_from_round: Earlier rounds are measured but do not count.
        check_finite: Whether a distance that is not finite stops the run at once as "diverged".

    Raises:
        FedhaltError: If a setting is out of range.

    Examples:
        >>> import numpy as np
        >>> from fedhalt import AverageGrowth, EarlyStopper
        >>> stopper = EarlyStopper(start=np.zeros(2), rule=AverageGrowth(threshold=0.1, patience=2))
        >>> while not stopper.update(np.full(2, 1.0 * (stopper.round + 1))).stop:
        ...     pass
        >>> stopper.round, stopper.model("average").tolist()
        (17, [12.5, 12.5])
    """

    signal: ClassVar[Signal] = GrowthOfAverage()
    late: ClassVar[tuple[str, ...]] = ("distance_average",)

    def diverged(self, now: tuple[float, ...], after: Any) -> bool:
        return not math.isfinite(now[0])
