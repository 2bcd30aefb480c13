"""Screening in StopBench 2: what is flagged by round 50, by whether the local rate was too large or too small."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .bench import PAPER, TUNED
from .clusters import draws, rate_words
from .pairs import ENTRIES2, Pairs
from .score import Array, interval, stops
from .screening import GOOD, HOPELESS, relative_accuracy

BY = 50
"""Flagged is what a screen has stopped by this round."""
SCREENS = ("drift-10", "drift", "wandering", PAPER)
AS_PUBLISHED = (0.1, 10)
"""The paper's screen: its rule with this threshold and patience."""


def screened(pairs: Pairs) -> list[dict[str, Any]]:
    """One row per screen and part: false alarms among good runs, misses among hopeless runs at rates too large, and,
    apart from that, the share flagged of rates that are too small."""
    place, words = relative_accuracy(pairs.runs), rate_words(pairs.runs)
    good, bad = place >= GOOD, (place < HOPELESS) & (words == "too large")
    tuned = pairs.parts[TUNED]
    rows = []
    for name, threshold, patience, flagged in _screens(pairs, good & tuned, bad & tuned):
        for part, which in pairs.parts.items():
            weights = draws([run for run, here in zip(pairs.runs, which, strict=True) if here])
            shares = [
                _share(flagged[which] == hit, kind[which], weights)
                for hit, kind in ((True, good), (False, bad), (True, words == "too small"))
            ]
            rows.append({
                "screen": name, "part": part, "threshold": threshold, "patience": patience,
                "good": int((good & which).sum()), "hopeless": int(((place < HOPELESS) & which).sum()),
                "false_alarms": shares[0], "misses": shares[1], "too_small_flagged": shares[2],
            })  # fmt: skip
    return rows


def _screens(pairs: Pairs, good: NDArray[np.bool_], bad: NDArray[np.bool_]) -> list[tuple[str, float, int, Any]]:
    """Each screen at the setting with the fewest false alarms plus misses on these runs; of equals, fewer alarms."""
    found: list[tuple[str, float, int, Any]] = []
    for name in SCREENS:
        entry = ENTRIES2[name]
        stop = stops(entry, pairs.runs)
        flagged = (stop > 0) & (stop <= BY)
        alarms = flagged[..., good].mean(axis=-1) if good.any() else np.zeros(stop.shape[:2])
        misses = 1 - flagged[..., bad].mean(axis=-1) if bad.any() else np.zeros(stop.shape[:2])
        best = int(np.lexsort((alarms.ravel(), np.round(alarms + misses, 9).ravel()))[0])
        t, p = divmod(best, stop.shape[1])
        found.append((name, entry.thresholds[t], entry.patiences[p], flagged[t, p]))
    threshold, patience = AS_PUBLISHED
    stop = stops(ENTRIES2[PAPER]._replace(thresholds=[threshold], patiences=[patience]), pairs.runs)[0, 0]
    return [*found, (f"{PAPER}, as published", threshold, patience, (stop > 0) & (stop <= BY))]


def _share(hit: NDArray[np.bool_], kind: NDArray[np.bool_], weights: Array) -> tuple[float, float, float]:
    """The weighted share of a kind of runs that is hit, with its interval; NaN if there is no such run."""
    with np.errstate(invalid="ignore", divide="ignore"):
        shares = weights @ (hit & kind) / (weights @ kind)
    return interval(shares[:, None])[0]
