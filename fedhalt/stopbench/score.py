"""What a rule loses and saves: regret and cost of every setting on every run, with bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import FedhaltError
from ..rules import Rule, SignalRule, Stepper, trace
from .entries import Entry
from .runs import Run

Array = NDArray[np.float64]
WINDOW = 11
LEVELS = (0.1, 0.2, 0.3, 0.5, 0.7)
"""The costs at which rules are compared."""
DRAWS = 2000


def smoothed(accuracy: Array, window: int = WINDOW) -> Array:
    """The centered mean over `window` rounds, over fewer at both ends."""
    half = window // 2
    sums = np.concatenate([[0.0], np.cumsum(accuracy)])
    last = np.minimum(np.arange(len(accuracy)) + half + 1, len(accuracy))
    first = np.maximum(np.arange(len(accuracy)) - half, 0)
    return np.asarray((sums[last] - sums[first]) / (last - first))


def stops(entry: Entry, runs: Sequence[Run]) -> NDArray[np.int64]:
    """The stop round of every threshold, patience and run; 0 where the rule never fires."""
    found = np.zeros((len(entry.thresholds), len(entry.patiences), len(runs)), dtype=np.int64)
    rules = [entry.make(threshold, max(entry.patiences)) for threshold in entry.thresholds]
    for n, run in enumerate(runs):
        try:
            if isinstance(rules[0], SignalRule):
                found[..., n] = _swept([rule for rule in rules if isinstance(rule, SignalRule)], entry.patiences, run)
            else:
                found[..., n] = [_replayed(rule, entry.patiences, run) for rule in rules]
        except FedhaltError as error:
            raise FedhaltError(f"{run.name}: {error}") from None
    return found


def _replayed(rule: Rule, patiences: Sequence[int], run: Run) -> list[int]:
    """One replay answers every patience, because a streak does not depend on how long it must be."""
    found, stepper = [0] * len(patiences), Stepper([rule], explain=False)
    for row in run.rows:
        stepper.step(row)
        (status,) = stepper.statuses
        for p, patience in enumerate(patiences[:-1]):
            if not found[p] and (status.stop or status.streak >= patience):
                found[p] = status.round
        if status.stop:
            found[-1] = status.round
            break
    return found


def _swept(rules: Sequence[SignalRule], patiences: Sequence[int], run: Run) -> NDArray[np.int64]:
    """Computes the signal once, and tries every threshold and patience on it."""
    traced = trace(rules[0], run.rows)
    if traced.problem:
        raise FedhaltError(traced.problem)
    held = np.array([np.nan if signal is None else signal for signal in traced.signals])
    ended = len(held) if traced.diverged is None else traced.diverged
    rounds = np.array([*traced.rounds, 0])
    places = np.arange(1, len(held) + 1)
    found = np.zeros((len(rules), len(patiences)), dtype=np.int64)
    for t, rule in enumerate(rules):
        streak = places - np.maximum.accumulate(np.where(rule.below(held), 0, places))
        for p, patience in enumerate(patiences):
            first = int(np.argmax(streak >= patience)) if (streak >= patience).any() else len(held)
            found[t, p] = rounds[min(first, ended)]
    return found


class Judged(NamedTuple):
    """Every setting on every run: arrays of threshold, patience, run."""

    stop: NDArray[np.int64]
    cost: Array
    regret: Array

    def over(self, which: NDArray[np.bool_]) -> Judged:
        """On some of the runs."""
        return Judged(self.stop[..., which], self.cost[..., which], self.regret[..., which])

    def patience(self, index: int) -> Judged:
        """At one patience: arrays of threshold, run."""
        return Judged(self.stop[:, index], self.cost[:, index], self.regret[:, index])


def judged(entry: Entry, runs: Sequence[Run]) -> Judged:
    """Judges every setting of a rule on every run.

    Args:
        entry: The rule with its settings.
        runs: The runs.

    Returns:
        Arrays of threshold by patience by run: the stop round (0 for never), the cost (share of the rounds used), and
        the regret (points of smoothed balanced accuracy lost).

    Raises:
        FedhaltError: If a run lacks a column that the rule reads.

    Examples:
        >>> from fedhalt.stopbench import judged
        >>> import numpy as np
        >>> from fedhalt.stopbench import ENTRIES, Run
        >>> rows = [{"round": r, "distance": float(r)} for r in range(1, 51)]
        >>> run = Run("drift", {}, rows, np.linspace(0, 1, 50))
        >>> judged(ENTRIES["growth"]._replace(thresholds=[0.1], patiences=[10]), [run]).stop
        array([[[21]]])
    """
    stop = stops(entry, runs)
    cost, regret = np.empty(stop.shape), np.empty(stop.shape)
    for n, (run, budget) in enumerate(zip(runs, budgets(runs), strict=True)):
        curve = 100 * smoothed(run.accuracy)
        used = np.where(stop[..., n] > 0, stop[..., n], len(curve))
        cost[..., n], regret[..., n] = used / budget, curve.max() - curve[used - 1]
    return Judged(stop, cost, regret)


def budgets(runs: Sequence[Run], kinds: Sequence[Any] | None = None) -> list[int]:
    """The rounds that each run was meant to have. A diverged run was meant to be as long as the longest of its kind: of
    its task and model, if nothing else is said.
    """
    kinds = [(run.task, run.spec.get("model")) for run in runs] if kinds is None else kinds
    longest: dict[Any, int] = {}
    for kind, run in zip(kinds, runs, strict=True):
        longest[kind] = max(longest.get(kind, 0), len(run.rows))
    return [longest[kind] if run.diverged else len(run.rows) for kind, run in zip(kinds, runs, strict=True)]


def unstopped(runs: Sequence[Run]) -> Array:
    """The regret without stopping, where every rule's curve ends."""
    curves = [100 * smoothed(run.accuracy) for run in runs]
    return np.array([curve.max() - curve[-1] for curve in curves])


def draws(runs: int, number: int = DRAWS, seed: int = 0) -> Array:
    """How often each run counts in each bootstrap draw, as shares. In the first draw, each run counts once."""
    picked = np.random.default_rng(seed).multinomial(runs, np.full(runs, 1 / runs), size=number) / runs
    return np.concatenate([np.full((1, runs), 1 / runs), picked])


def at_costs(costs: Array, values: Array, end: Array, weights: Array, levels: Sequence[float] = LEVELS) -> Array:
    """The mean of the values (settings by runs) at these mean costs, for every draw (rows) and level.

    It interpolates between neighboring settings, which is what choosing between them at random would give. The last
    setting never stops and has the values `end`. NaN where the rule cannot be that cheap.
    """
    whole = np.ones((len(weights), 1))
    x = np.concatenate([weights @ costs.T, whole], axis=1)
    y = np.concatenate([weights @ values.T, (weights @ end)[:, None]], axis=1)
    order = np.argsort(x, axis=1, kind="stable")
    x, y = np.take_along_axis(x, order, 1), np.take_along_axis(y, order, 1)
    return np.array([np.interp(levels, one, other, left=np.nan) for one, other in zip(x, y, strict=True)])


def best_patience(at: Judged, end: Array, weights: Array | None = None) -> int:
    """The patience whose curve has the smallest area over the levels that all patiences reach.

    If they share fewer than two levels, the area from the least cost that all reach to the whole budget. Runs count
    equally, or by a row of weights.
    """
    whole = draws(at.cost.shape[-1], 0) if weights is None else weights
    dearest = (whole @ at.cost.reshape(-1, at.cost.shape[-1]).T).reshape(at.cost.shape[:2]).min(axis=0).max()
    reached = min(dearest * (1 + 1e-9), 1)  # beyond rounding: what lies below has no value
    levels = [level for level in LEVELS if level >= reached]
    levels = levels if len(levels) > 1 else np.linspace(reached, 1, 50).tolist()
    curves = np.array([
        at_costs(at.cost[:, p], at.regret[:, p], end, whole, levels)[0] for p in range(at.cost.shape[1])
    ])  # fmt: skip
    return int(np.argmin(np.trapezoid(curves, levels, axis=1)))


def interval(values: Array) -> list[tuple[float, float, float]]:
    """For every column, the value (the first draw) and the 2.5% and 97.5% quantiles of the other draws.

    NaN if the value, or more than a few of the draws, does not exist.
    """
    found = []
    for column in values.T:
        others = column[1:] if len(column) > 1 else column
        gone = np.isnan(others)
        if np.isnan(column[0]) or gone.mean() > 0.025:
            found.append((math.nan, math.nan, math.nan))
            continue
        low, high = np.quantile(others[~gone], [0.025, 0.975])
        found.append((float(column[0]), float(low), float(high)))
    return found
