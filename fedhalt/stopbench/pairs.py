"""The scores of StopBench 2: pairs of a rule and the model that is shipped at its stop; see docs/stopbench.md."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import FedhaltError
from ..rules import Drift, Plateau, Rule
from .bench import BUDGET, DECIDED, PAPER, TUNED
from .candidates2 import (
    CohortSignal,
    Diversity,
    ForwardFlat,
    ForwardLoss,
    ForwardSettled,
    Stationary,
)
from .clusters import draws, model_of, task_of, weights_of
from .entries import ENTRIES, LONG, PLATEAUS, Entry, log
from .runs import Run
from .score import Array, Judged, at_costs, best_patience, budgets, interval, smoothed, stops

SHIPS = ("last", "average")


def _plateau(column: str, rises: bool, threshold: float, patience: int) -> Rule:
    return Plateau(column, threshold, patience, higher_is_better=rises)


def _drift_10(threshold: float, patience: int) -> Rule:
    return Drift(threshold, patience, window=10)


ENTRIES2: dict[str, Entry] = {
    **ENTRIES,
    **{
        entry.name: entry
        for entry in (
            Entry("val-loss-average", partial(_plateau, "val_loss_average", False), log(1e-4, 1, 10), LONG),
            Entry("val-accuracy-average", partial(_plateau, "val_accuracy_average", True), log(1e-2, 20, 10), LONG),
            Entry("drift-10", _drift_10, log(1, 100)),
            Entry("forward-drift", ForwardSettled, log(5e-4, 0.5)),
            Entry("forward-loss", ForwardLoss, log(5e-5, 0.5)),
            Entry("forward-flat", ForwardFlat, log(5e-4, 0.5)),
            Entry("diversity", Diversity, log(0.02, 1)),
            Entry("cohort-signal", CohortSignal, log(0.01, 100)),
            Entry("stationary", Stationary, log(0.05, 1)),
        )
    },
}
"""Those of StopBench 1, and the candidates that read what it did not record."""
NEEDS_CLIENTS = ("forward-loss", "forward-flat")
NEEDS_DATA = (*PLATEAUS, "val-loss-average", "val-accuracy-average")
"""Rules that see more than a server without data has, and are marked as such."""
GOALS = {"against_paper": 5.0, "against_budget": 4.0, "against_same_budget": 0.0}
"""How many points less the recommended pair must give up at 10, 20 and 30%, with intervals below zero."""


class Pair(NamedTuple):
    """A rule by name, and what is shipped at its stop: "last" or "average"."""

    rule: str
    ship: str


@dataclass(frozen=True)
class Pairs:
    """Every setting of some rules with both models on every run.

    Attributes:
        runs: The runs.
        parts: Which runs are decided on and which are tuned on. If there are no others, only the latter.
        found: Stop, cost and regret of every setting on every run, by pair.
        end: The regret without stopping on every run, by what is shipped.
        chosen: For each pair, the position of the patience with the smallest area on the runs to tune on.
    """

    runs: Sequence[Run]
    parts: Mapping[str, NDArray[np.bool_]]
    found: Mapping[Pair, Judged]
    end: Mapping[str, Array]
    chosen: Mapping[Pair, int]

    def at(self, pair: Pair, part: str, weights: Array) -> Array:
        """Regret at every level, by draw, at the chosen patience."""
        which = self.parts[part]
        curve = self.found[pair].over(which).patience(self.chosen[pair])
        return at_costs(curve.cost, curve.regret, self.end[pair.ship][which], weights)


def accuracies(run: Run) -> dict[str, Array]:
    """The smoothed accuracy of what can be shipped, in percent."""
    if run.average is None:
        raise FedhaltError(
            f"{run.name}: {run.task or 'a run'} without an average, and StopBench 2 scores both models: record with "
            "--average 10, or score the last models only with --set 1"
        )
    return {"last": 100 * smoothed(run.accuracy), "average": 100 * smoothed(run.average)}


def judged(entry: Entry, runs: Sequence[Run]) -> dict[str, Judged]:
    """Every setting of a rule on every run, for each model; regret is against the best round of either."""
    stop = stops(entry, runs)
    cost, regret = np.empty(stop.shape), {ship: np.empty(stop.shape) for ship in SHIPS}
    kinds = [(model_of(run), run.spec.get("lr")) for run in runs]  # their rounds depend on the rate
    for n, (run, budget) in enumerate(zip(runs, budgets(runs, kinds), strict=True)):
        curves = accuracies(run)
        best = max(curve.max() for curve in curves.values())
        used = np.where(stop[..., n] > 0, stop[..., n], len(run.rows))
        cost[..., n] = used / budget
        for ship, curve in curves.items():
            regret[ship][..., n] = best - curve[used - 1]
    return {ship: Judged(stop, cost, regret[ship]) for ship in SHIPS}


def unstopped(runs: Sequence[Run]) -> dict[str, Array]:
    """The regret without stopping, by what is shipped."""
    curves = [accuracies(run) for run in runs]
    best = [max(curve.max() for curve in each.values()) for each in curves]
    return {
        ship: np.array([top - each[ship][-1] for top, each in zip(best, curves, strict=True)]) for ship in SHIPS
    }  # fmt: skip


def readable(runs: Sequence[Run]) -> list[str]:
    """The rules that can be scored on all of these runs."""
    common = frozenset.intersection(*(run.columns for run in runs))
    return [
        name for name, entry in ENTRIES2.items() if common.issuperset(entry.make(entry.thresholds[0], 1).reads)
    ]  # fmt: skip


def measured(runs: Sequence[Run], rules: Sequence[str], tune: str = "blood") -> Pairs:
    """Replays rules, the paper's rule and fixed budgets on all runs, and ships both models at every stop.

    Raises:
        FedhaltError: If no run has the task to tune on, or a run has no average or lacks a column that a rule reads.
    """
    tuned = np.array([task_of(run) == tune for run in runs])
    if not tuned.any():
        there = ", ".join(sorted(map(task_of, runs)))
        raise FedhaltError(f"no recorded run to tune on: {tune!r} is not among {there}; choose one with --tune")
    found: dict[Pair, Judged] = {}
    for rule in dict.fromkeys([BUDGET, PAPER, *rules]):
        found |= {Pair(rule, ship): at for ship, at in judged(ENTRIES2[rule], runs).items()}
    end = unstopped(runs)
    weights = weights_of([run for run, here in zip(runs, tuned, strict=True) if here])[None]
    chosen = {pair: best_patience(at.over(tuned), end[pair.ship][tuned], weights) for pair, at in found.items()}
    parts = {DECIDED: ~tuned, TUNED: tuned} if (~tuned).any() else {TUNED: tuned}
    return Pairs(runs, parts, found, end, chosen)


def scores(pairs: Pairs) -> list[dict[str, Any]]:
    """One row per pair and part of the runs: regret at every cost, and how much more that is than what the paper's rule
    and a fixed budget give up with their last models, and than a fixed budget that ships the same."""
    rows = []
    for part, which in pairs.parts.items():
        weights = draws([run for run, here in zip(pairs.runs, which, strict=True) if here])
        at = {pair: pairs.at(pair, part, weights) for pair in pairs.found}
        for pair, regret in at.items():
            rows.append({
                "rule": pair.rule,
                "ship": pair.ship,
                "part": part,
                "runs": int(which.sum()),
                "needs": "data" if pair.rule in NEEDS_DATA else "clients" if pair.rule in NEEDS_CLIENTS else "",
                "patience": ENTRIES2[pair.rule].patiences[pairs.chosen[pair]],
                "regret": interval(regret),
                "against_paper": interval(regret - at[Pair(PAPER, "last")]),
                "against_budget": interval(regret - at[Pair(BUDGET, "last")]),
                "against_same_budget": interval(regret - at[Pair(BUDGET, pair.ship)]),
            })  # fmt: skip
    return rows


def recommended(rows: Sequence[dict[str, Any]]) -> Pair:
    """The pair that gives up least at 10, 20 and 30% of the rounds on the runs to tune on, of those that need neither
    data nor clients and reach these costs."""
    there = [row for row in rows if row["part"] == TUNED and not row["needs"] and row["rule"] != BUDGET]
    best = min(there, key=lambda row: _sum(row["regret"][:3]))
    return Pair(best["rule"], best["ship"])


def goals(rows: Sequence[dict[str, Any]], pair: Pair) -> dict[str, bool]:
    """Which of the goals a pair reaches on the deciding runs; none without such runs. That against a budget which ships
    the same asks for every cost."""
    there = [row for row in rows if row["part"] == DECIDED and (row["rule"], row["ship"]) == pair]
    return {
        goal: all(value <= -points and high < 0 for value, _, high in row[goal][: 3 if points else None])
        for row in there
        for goal, points in GOALS.items()
    }


def _sum(values: Sequence[tuple[float, float, float]]) -> float:
    total = sum(value for value, _, _ in values)
    return total if total == total else float("inf")
