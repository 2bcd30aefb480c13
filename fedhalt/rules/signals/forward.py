"""Our signal: a growth rate like the paper's, but of the accumulated forward movement instead of the distance.

    f_r = ||u_r|| + <u_r, v_{r-1}> / ||v_{r-1}||,   u_r = theta_r - theta_{r-1},  v_r = theta_r - theta_0
    F_r = f_1 + ... + f_r,   the signal is f_r / F_r

A step counts twice if it goes straight away from the start, once if it goes sideways, and not at all if it goes
straight back. When an unusual cohort pushes the distance up and down, F only grows. Chosen on blood cells; see
docs/stopbench.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from ..base import Signal, relative
from ..trigger import SignalRule


@dataclass(frozen=True)
class Forward:
    """f_r / F_r: the share of the forward movement that this round added. The state is [F_{r-1}, delta_{r-1}]."""

    reads: ClassVar[tuple[str, ...]] = ("distance", "update_norm", "alignment")
    signed: ClassVar[tuple[str, ...]] = ("alignment",)

    def begin(self) -> Any:
        return None

    def step(self, before: Any, r: int, now: tuple[float, ...]) -> tuple[Any, float | None]:
        total, last = before or (0.0, 0.0)
        distance, update, alignment = now
        # the first step, and one from theta_0 itself, goes straight on
        added = update + (alignment / last if last else update)
        if added < 0:  # by rounding only
            added = 0.0
        after = [total + added if math.isfinite(added) else total, distance if math.isfinite(distance) else last]
        return after, relative(added, total + added)


@dataclass(frozen=True)
class ForwardGrowth(SignalRule):
    """f_r / F_r < tau for rho rounds in a row: the forward movement has become slow.

    It is a steadier clock than the paper's rule, but still a clock. Steps of equal length and angle give 1/r, so a
    straight drift stops near round 1/tau + rho. A model whose steps shrink or turn back stops sooner, one that speeds
    up stops later. Scaling the model or the learning rate changes nothing. The rule needs theta_0 and the model of the
    last round.

    Args:
        threshold: tau.
        patience: rho.
        start_from_round: Earlier rounds are measured but do not count.
        check_finite: Whether a column that is not finite stops the run at once as "diverged".

    Raises:
        FedhaltError: If a setting is out of range.

    Examples:
        >>> import numpy as np
        >>> from fedhalt import EarlyStopper, ForwardGrowth
        >>> stopper = EarlyStopper(start=np.zeros(2), rule=ForwardGrowth(threshold=0.1, patience=2))
        >>> while not stopper.update(np.full(2, 1.0 * (stopper.round + 1))).stop:
        ...     pass
        >>> stopper.round
        12
    """

    threshold: float = 0.005
    patience: int = 5
    signal: ClassVar[Signal] = Forward()
