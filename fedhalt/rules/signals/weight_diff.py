"""The `weight_diff` convergence test of FATE (WeBank)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..base import Signal
from ..trigger import SignalRule


@dataclass(frozen=True)
class UpdateOverParameters:
    """||u_r|| / max(||theta_r||, 1), without a state. Round 1 counts: u_1 starts at theta_0."""

    reads: ClassVar[tuple[str, ...]] = ("update_norm", "parameter_norm")
    signed: ClassVar[tuple[str, ...]] = ()

    def begin(self) -> None:
        return None

    def step(self, before: None, r: int, now: tuple[float, ...]) -> tuple[None, float]:
        update, parameters = now
        return None, update / max(parameters, 1.0)


@dataclass(frozen=True)
class WeightDiff(SignalRule):
    """||u_r|| < tol * max(||theta_r||, 1): the convergence test of FATE.

    Args:
        threshold: FATE's tol.
        patience: For how many rounds in a row. FATE has no patience, so the default is 1.
        start_from_round: Earlier rounds are measured but do not count.
        check_finite: Whether a column that is not finite stops the run at once as "diverged".

    Raises:
        FedhaltError: If a setting is out of range.

    Examples:
        >>> from fedhalt import WeightDiff, stop_round
        >>> rows = [{"update_norm": norm, "parameter_norm": 10.0} for norm in (5.0, 0.5, 0.005)]
        >>> stop_round(WeightDiff(threshold=1e-3), rows)
        3
    """

    threshold: float = 1e-4
    patience: int = 1
    signal: ClassVar[Signal] = UpdateOverParameters()
