"""The paper's signal: the growth rate of the distance from the start.

Lee et al., "Beyond Fixed Rounds: Data-Free Early Stopping for Practical Federated Learning", section II-B. Symbols:
theta_r are the global parameters after round r, delta_r = ||theta_r - theta_0||, and g_r is the growth rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..base import Signal, relative
from ..trigger import SignalRule


@dataclass(frozen=True)
class Growth:
    """g_r = |delta_r - delta_{r-1}| / delta_{r-1}, equation (3). The state is delta_{r-1}.

    There is no growth in round 1. Where the paper does not say: 0 after 0 is growth 0, anything else after 0 is
    infinite.
    """

    reads: ClassVar[tuple[str, ...]] = ("distance",)
    signed: ClassVar[tuple[str, ...]] = ()

    def begin(self) -> None:
        return None

    def step(self, before: float | None, r: int, now: tuple[float, ...]) -> tuple[float, float | None]:
        delta = now[0]
        return delta, None if before is None else relative(abs(delta - before), before)


@dataclass(frozen=True)
class GrowthRate(SignalRule):
    """The paper's rule: g_r = |delta_r - delta_{r-1}| / delta_{r-1} < tau for rho rounds in a row.

    Equations (3) to (5). A growth of 0 counts. If the distance does not change during the whole streak, the reason is
    "frozen" instead of "saturated". In part the rule is a clock: for a distance like r^a, the growth is a/r.

    Args:
        threshold: tau.
        patience: rho.
        start_from_round: Earlier rounds are measured but do not count.
        check_finite: Whether a distance that is not finite stops the run at once as "diverged".

    Raises:
        FedhaltError: If a setting is out of range.

    Examples:
        >>> from fedhalt import GrowthRate, stop_round
        >>> stop_round(GrowthRate(threshold=0.01, patience=10), [float(r) for r in range(1, 200)])
        111
    """

    signal: ClassVar[Signal] = Growth()
