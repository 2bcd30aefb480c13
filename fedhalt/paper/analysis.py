"""The inequalities of the paper's analysis (section II-C), checked on every round of a recorded run."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..records.trajectory import Trajectory
from ..rules import GrowthRate, stop_round
from .setting import RHO, TAU, TAU_BAD, TAUS

ROUNDING = 1e-6
"""Distances are sums in float32 blocks, correct to this share: a difference of two may exceed a bound by so much."""


def analysed(record: Trajectory) -> dict[str, Any]:
    """How many rounds were checked, how many break each inequality, and whether a stop met the paper's condition.

    change: |δ_r − δ_{r−1}| ≤ ‖u_r‖.  growth: g_r ≤ ‖u_r‖ / δ_{r−1}.  condition: δ_{r−1} > ‖u_r‖ / τ makes g_r < τ.
    enough τ: 1 if, at the stop, δ_{r−1} > ε / τ held for all ρ rounds that were counted, with ε their largest update;
    0 if the rule stopped although it did not, because updates turned sideways and hardly changed the distance.
    """
    distance, update = record.column("distance"), record.column("update_norm")
    good = np.isfinite(distance) & np.isfinite(update)
    distance, update = distance[good], update[good]
    before, now, step = distance[:-1], distance[1:], update[1:]
    moved = before > 0
    before, now, step = before[moved], now[moved], step[moved]
    change, slack = np.abs(now - before), ROUNDING * np.maximum(now, before)
    growth = change / before
    condition = sum(int(np.sum((before > step / tau) & (growth >= tau + ROUNDING))) for tau in TAUS)
    found: dict[str, Any] = {
        "checked": len(before),
        "broken change": int(np.sum(change > step + slack)),
        "broken growth": int(np.sum(growth > step / before + slack / before)),
        "broken condition": condition,
    }
    for tau in (TAU, TAU_BAD):
        stop = stop_round(GrowthRate(tau, RHO), record)
        found[f"enough {tau:g}"] = (
            None if stop is None or stop > len(distance) else int(_enough(distance, update, stop, tau))
        )
        found[f"exponent {tau:g}"] = None if stop is None or stop > len(distance) else exponent(distance, stop)
    return found


def exponent(distance: Any, stop: int) -> float:
    """a of δ ∝ r^a: the slope of ln δ on ln r over the second half of the rounds up to the stop."""
    r = np.arange(max(1, stop // 2), stop + 1)
    return float(np.polyfit(np.log(r), np.log(distance[r - 1]), 1)[0])


def _enough(distance: Any, update: Any, stop: int, tau: float) -> bool:
    counted = slice(stop - RHO, stop)
    return bool(distance[stop - RHO - 1 : stop - 1].min() > update[counted].max() / tau)
