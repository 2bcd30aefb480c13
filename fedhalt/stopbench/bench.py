"""The protocol of docs/stopbench.md: tuned on one task, decided on the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FedhaltError, parsed, require_one_of
from . import screening
from .controls import controls
from .entries import ENTRIES
from .runs import Run
from .score import Judged, at_costs, best_patience, draws, interval, judged, stops, unstopped

PAPER, BUDGET = "growth", "budget"
"""What every rule is compared with: the paper's rule, and a fixed budget, which uses no information."""
DECIDED, TUNED = "decided on", "tuned on"


@dataclass(frozen=True)
class Bench:
    """Every setting of some rules on every run.

    Attributes:
        runs: The runs.
        parts: Which runs are decided on and which are tuned on. If there are no others, only the latter.
        found: Stop, cost and regret of every setting on every run, by rule.
        chosen: For each rule, the position of the patience with the smallest area on the runs to tune on.

    Examples:
        >>> from fedhalt.stopbench import measured
        >>> from fedhalt.stopbench.runs import PACKED, load
        >>> runs = load(PACKED)[:3]
        >>> bench = measured(runs, ["forward"], tune=runs[0].task)
        >>> list(bench.found)
        ['budget', 'growth', 'forward']
    """

    runs: Sequence[Run]
    parts: Mapping[str, NDArray[np.bool_]]
    """Which runs are decided on and which are tuned on. If there are no others, only the latter."""
    found: Mapping[str, Judged]
    chosen: Mapping[str, int]
    """For each rule, the position of the patience with the smallest area on the runs to tune on."""

    def setting(self, rule: str, level: float) -> tuple[int, int]:
        """The setting at the chosen patience whose cost is closest to a level.

        Args:
            rule: The name of the rule.
            level: The cost, as a share of the rounds.

        Returns:
            The positions of the threshold and of the patience.
        """
        at = self.curve(rule, TUNED)
        return int(np.argmin(np.abs(at.cost.mean(axis=1) - level))), self.chosen[rule]

    def curve(self, rule: str, part: str) -> Judged:
        """All thresholds at the chosen patience.

        Args:
            rule: The name of the rule.
            part: "decided on" or "tuned on".

        Returns:
            Stop, cost and regret as arrays of thresholds by runs.
        """
        return self.found[rule].over(self.parts[part]).patience(self.chosen[rule])


def reads(rule: str) -> tuple[str, ...]:
    """The columns that a rule needs."""
    entry = ENTRIES[rule]
    return entry.make(entry.thresholds[0], entry.patiences[0]).reads


def readable(rule: str, runs: Sequence[Run]) -> bool:
    """Whether all of these runs recorded what the rule needs."""
    return all(run.columns.issuperset(reads(rule)) for run in runs)


def measured(runs: Sequence[Run], rules: Sequence[str], tune: str) -> Bench:
    """Replays rules, the paper's rule and fixed budgets on all runs.

    Args:
        runs: The runs.
        rules: The names of the rules.
        tune: The task to tune on, such as "blood".

    Returns:
        The bench.

    Raises:
        FedhaltError: If no run has that task, or a run lacks a column that a rule reads.

    Examples:
        >>> from fedhalt.stopbench import measured
        >>> from fedhalt.stopbench.runs import PACKED, load
        >>> runs = load(PACKED)[:3]
        >>> measured(runs, ["forward"], tune=runs[0].task).found["forward"].stop.shape
        (20, 4, 3)
    """
    tuned = np.array([run.task == tune for run in runs])
    if not tuned.any():
        there = ", ".join(sorted({run.task or "runs that do not say which data they are of" for run in runs}))
        raise FedhaltError(
            f"no recorded run to tune on: the task {tune!r} is not among {there}; choose one with --tune"
        )
    names = list(dict.fromkeys([BUDGET, PAPER, *rules]))
    for name in names:
        if not readable(name, runs):
            raise FedhaltError(f"the rule {name} reads {' and '.join(reads(name))}, which not every run has recorded")
    found = {name: judged(ENTRIES[name], runs) for name in names}
    end = unstopped(runs)[tuned]
    chosen = {name: best_patience(at.over(tuned), end) for name, at in found.items()}
    return Bench(runs, {DECIDED: ~tuned, TUNED: tuned} if (~tuned).any() else {TUNED: tuned}, found, chosen)


def scores(bench: Bench) -> list[dict[str, Any]]:
    """Scores every rule: regret at each cost, the difference to the paper's rule, and screening.

    Args:
        bench: What `measured` returned.

    Returns:
        One row per rule and part of the runs.

    Examples:
        >>> from fedhalt.stopbench import measured, scores
        >>> from fedhalt.stopbench.runs import PACKED, load
        >>> runs = load(PACKED)[:3]
        >>> [row["rule"] for row in scores(measured(runs, ["forward"], tune=runs[0].task))]
        ['budget', 'growth', 'forward']
    """
    rows = []
    place, end = screening.relative_accuracy(bench.runs), unstopped(bench.runs)
    for part, which in bench.parts.items():
        weights = draws(int(which.sum()))
        curve = {rule: bench.curve(rule, part) for rule in bench.found}
        at = {rule: at_costs(found.cost, found.regret, end[which], weights) for rule, found in curve.items()}
        for rule, found in bench.found.items():
            entry, screen = ENTRIES[rule], found.over(which)
            t, p = screening.best_setting(found.over(bench.parts[TUNED]), place[bench.parts[TUNED]])
            stop, cost = screen.stop[t, p], screen.cost[t, p]
            flags = screening.flags(stop[None], cost[None], place[which], weights)
            never = at_costs(curve[rule].cost, (curve[rule].stop == 0).astype(float), np.ones(which.sum()), weights)
            rows.append({
                "rule": rule,
                "part": part,
                "runs": int(which.sum()),
                "good": int((place[which] >= screening.GOOD).sum()),
                "hopeless": int((place[which] < screening.HOPELESS).sum()),
                "patience": entry.patiences[bench.chosen[rule]],
                "regret": interval(at[rule]),
                "against_paper": interval(at[rule] - at[PAPER]),
                "against_budget": interval(at[rule] - at[BUDGET]),
                "never": interval(never),
                "screen_threshold": entry.thresholds[t],
                "screen_patience": entry.patiences[p],
                "false_alarms": interval(flags.false_alarms)[0],
                "misses": interval(flags.misses)[0],
                "flagged_at": interval(screening.flagged_at(stop, cost, place[which], weights)[:, None])[0],
            })  # fmt: skip
    return rows


def curves(bench: Bench) -> list[dict[str, Any]]:
    """One row per rule, part and setting, at every patience: mean cost and regret with their intervals.

    The last row, with threshold 0, is the end of every curve, where the rule never stops.
    """
    rows = []
    for part, which in bench.parts.items():
        weights = draws(int(which.sum()))
        ((regret, regret_low, regret_high),) = interval((weights @ unstopped(bench.runs)[which])[:, None])
        last = {"cost": 1.0, "cost_low": 1.0, "cost_high": 1.0, "regret": regret, "regret_low": regret_low,
                "regret_high": regret_high, "never": 1.0}  # fmt: skip
        for rule, found in bench.found.items():
            entry, chosen = ENTRIES[rule], bench.chosen[rule]
            for p, patience in enumerate(entry.patiences):
                at = found.over(which).patience(p)
                costs, regrets = interval(weights @ at.cost.T), interval(weights @ at.regret.T)
                about = {"rule": rule, "part": part, "patience": patience, "chosen": p == chosen}
                for t, threshold in enumerate(entry.thresholds):
                    cost, cost_low, cost_high = costs[t]
                    regret, regret_low, regret_high = regrets[t]
                    rows.append({
                        **about, "threshold": threshold, "cost": cost, "cost_low": cost_low, "cost_high": cost_high,
                        "regret": regret, "regret_low": regret_low, "regret_high": regret_high,
                        "never": float((at.stop[t] == 0).mean()),
                    })  # fmt: skip
                rows.append({**about, "threshold": 0.0, **last})
    return rows


def on_controls(bench: Bench, level: float = 0.3) -> dict[str, dict[str, int]]:
    """Where each rule stops the synthetic runs, at the setting whose cost on the tuned part is closest to the level."""
    made = controls()
    found = {}
    for rule in bench.found:
        entry, (t, p) = ENTRIES[rule], bench.setting(rule, level)
        one = entry._replace(thresholds=[entry.thresholds[t]], patiences=[entry.patiences[p]])
        found[rule] = {name: int(stops(one, [run])[0, 0, 0]) for name, run in made.items() if readable(rule, [run])}
    return found


def by_field(bench: Bench, key: str, level: float = 0.3) -> dict[str, dict[str, tuple[float, float]]]:
    """Mean cost and regret of every rule, at the same setting, on the deciding runs by the value of one field of their
    specification. It shows where a rule works and where it fails.
    """
    values = fields(bench.runs, key)
    found: dict[str, dict[str, tuple[float, float]]] = {}
    part = next(iter(bench.parts.values()))
    for rule, at in bench.found.items():
        t, p = bench.setting(rule, level)
        for value in sorted({value for value, there in zip(values, part, strict=True) if there}, key=by_size):
            which = part & np.array([other == value for other in values])
            mean = float(at.cost[t, p, which].mean()), float(at.regret[t, p, which].mean())
            found.setdefault(rule, {})[value] = mean
    return found


def fields(runs: Sequence[Run], key: str) -> list[str]:
    """A field of every run's specification, as text."""
    there = sorted({name for run in runs for name in run.spec})
    return [str(run.spec.get(require_one_of("field of the runs", key, there), "none")) for run in runs]


def recommended(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The rules that are better than the paper's at every cost, with intervals that do not touch zero."""
    decided = [row for row in rows if row["part"] == DECIDED]
    return [row["rule"] for row in decided if all(map(below, row["against_paper"]))]


def below(difference: tuple[float, float, float]) -> bool:
    """Whether the whole interval lies below zero, by more than a rounding error."""
    return difference[2] < -1e-9


def by_size(value: str) -> tuple[float, str]:
    """Numbers by size, before words."""
    number = parsed(value)
    return (float("inf") if number is None else float(number), value)
