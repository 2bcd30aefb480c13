"""Screening: does an early stop tell hopeless configurations from good ones?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .runs import CLASSES, Run
from .score import Array, Judged, smoothed

HOPELESS, GOOD = 0.5, 0.85
EARLY = 0.2
"""Stopped within this share of the rounds is flagged."""


def relative_accuracy(runs: Sequence[Run]) -> Array:
    """Where each run's best smoothed accuracy lies between chance (0) and the best run of its group (1).

    A group is a task with its model and skew. NaN where chance is not known.
    """
    best = [float(smoothed(run.accuracy).max()) for run in runs]
    groups = [_group(run) for run in runs]
    top = {group: max(b for b, other in zip(best, groups, strict=True) if other == group) for group in set(groups)}
    chance = [1 / CLASSES[run.task] if run.task in CLASSES else np.nan for run in runs]
    return np.array([
        (b - c) / (top[group] - c) if top[group] > c else np.nan
        for b, c, group in zip(best, chance, groups, strict=True)
    ])  # fmt: skip


class Flags(NamedTuple):
    """Shares of good runs that are flagged and of hopeless ones that are not, for every draw (rows) and setting."""

    false_alarms: Array
    misses: Array


def flags(stop: NDArray[np.int64], cost: Array, place: Array, weights: Array) -> Flags:
    """For arrays of settings by runs."""
    flagged = ((stop > 0) & (cost <= EARLY)).astype(float)
    good, hopeless = (place >= GOOD).astype(float), (place < HOPELESS).astype(float)
    with np.errstate(invalid="ignore", divide="ignore"):  # no good or no hopeless run: NaN
        alarms = (weights * good) @ flagged.T / (weights @ good)[:, None]
        misses = (weights * hopeless) @ (1 - flagged).T / (weights @ hopeless)[:, None]
    return Flags(alarms, misses)


def best_setting(at: Judged, place: Array) -> tuple[int, int]:
    """Threshold and patience with the smallest sum of both shares; of equals fewer false alarms, then sooner flags."""
    shape = at.stop.shape
    stop, cost = at.stop.reshape(-1, shape[-1]), at.cost.reshape(-1, shape[-1])
    found = flags(stop, cost, place, np.full((1, shape[-1]), 1 / shape[-1]))
    alarms, misses = (np.round(np.nan_to_num(share[0]), 9) for share in found)
    hopeless = place < HOPELESS
    soon = cost[:, hopeless].mean(axis=1) if hopeless.any() else np.zeros(len(cost))
    first = int(np.lexsort((soon, alarms, alarms + misses))[0])
    return first // shape[1], first % shape[1]


def flagged_at(stop: NDArray[np.int64], cost: Array, place: Array, weights: Array) -> Array:
    """The median round in which hopeless runs are flagged, for every draw; NaN if none is."""
    which = np.flatnonzero((stop > 0) & (cost <= EARLY) & (place < HOPELESS))
    which = which[np.argsort(stop[which], kind="stable")]
    found = np.full(len(weights), np.nan)
    if len(which):
        reached = np.cumsum(weights[:, which], axis=1)
        some = reached[:, -1] > 0
        middle = np.argmax(reached >= reached[:, -1:] / 2, axis=1)
        found[some] = stop[which][middle][some]
    return found


def _group(run: Run) -> tuple[Any, ...]:
    return (run.task, *(run.spec.get(key) for key in ("model", "skew", "c")))
