"""The proposed rule against validation, on one trajectory: what tables 2 and 3 and two figures share."""

from __future__ import annotations

from typing import Any, NamedTuple

from .rows import Results, Row, Stop, stop
from .setting import RHO, VALIDATION, Scale, phis


class Pair(NamedTuple):
    """One run under the proposed rule and under the validation rules."""

    proposed: Stop
    rivals: dict[str, Stop]
    """The validation rules that fired."""

    def gain(self, measure: str = "balanced", rival: str | None = None) -> float | None:
        """Accuracy at our stop minus that of a rival; by default the better one on test data, as in the paper."""
        chosen = self.rivals.values() if rival is None else [s for n, s in self.rivals.items() if n == rival]
        best = max((getattr(each, measure) for each in chosen), default=None)
        return None if best is None else getattr(self.proposed, measure) - best

    def extra(self) -> int | None:
        """Rounds more than the earlier of the two, as the paper counts."""
        return self.proposed.round - min(s.round for s in self.rivals.values()) if self.rivals else None


def runs(results: Results, scale: Scale, method: str, **where: Any) -> list[Row]:
    """A method's runs with the one phi of the items that do not search over it."""
    return results.select(
        method=method, phi=phis(method, (0.001,))[0], compat=None, model=scale.model["model"], **where
    )


def pair(row: Row, tau: float, rho: int = RHO) -> Pair | None:
    """None if the proposed rule never fired; a rule that never fires has no stop to compare, as in the paper."""
    ours = stop(row, "growth", tau, rho)
    rivals = {name: found for name in VALIDATION if (found := stop(row, name, tau, rho))}
    return None if ours is None else Pair(ours, rivals)


def pairs(results: Results, scale: Scale, method: str, tau: float, **where: Any) -> list[Pair]:
    return [found for row in runs(results, scale, method, **where) if (found := pair(row, tau))]
