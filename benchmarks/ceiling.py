"""How good could a stopping rule be? Two answers on the runs of StopBench 2, on the tasks that decide.

    python benchmarks/ceiling.py

Sister: a rule that sees the test accuracy of the same configuration with another seed, and stops when that is within x
points of its best: an estimate of what a rule could reach that knows what usually happens. Only configurations with
several seeds take part, for all rules of the table.

Learned: boosted trees on the recorded columns, without data, predict how many points the average still gains; trained
on all tasks but one, they stop the runs of that one when the prediction stays below x for five rounds.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from fedhalt.stopbench import pairs
from fedhalt.stopbench.bench import BUDGET, DECIDED, PAPER
from fedhalt.stopbench.clusters import draws, model_of, task_of
from fedhalt.stopbench.draw import plus_minus
from fedhalt.stopbench.pairs import SHIPS, Pair, accuracies
from fedhalt.stopbench.runs import PACKED2, load
from fedhalt.stopbench.score import at_costs, budgets, interval

POINTS = np.concatenate([[0.0], np.geomspace(0.05, 60, 40)])
"""The thresholds x, in points of accuracy."""
PATIENCE, SAMPLED = 5, 3
COMPARED = (BUDGET, PAPER, "growth-average", "forward")


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--runs", type=Path, default=PACKED2, help="packed runs")
    runs = load(asked.parse_args().runs)
    measured = pairs.measured(runs, COMPARED)
    decided = measured.parts[DECIDED]
    sisters = sisters_of(runs)
    print("A sister's accuracy as a rule: regret in points at a mean cost of 10 to 70% of the rounds")
    which = decided & np.array([name in sisters for name in range(len(runs))])
    show(measured, which, {ship: with_sister(runs, sisters, ship) for ship in SHIPS}, "sister*")
    print("\nBoosted trees, trained on the other tasks")
    stops = learned(runs)
    show(measured, decided, dict.fromkeys(SHIPS, stops), "learned")


def show(measured: pairs.Pairs, which: np.ndarray, stops: dict[str, np.ndarray], name: str) -> None:
    """One line per pair; the difference to a budget that ships the same tells what the rule adds."""
    some = [run for run, here in zip(measured.runs, which, strict=True) if here]
    if not some:
        print("no such run")
        return
    weights = draws(some)
    print(f"{len(some)} runs; ± half of the 95% interval; last: difference to a budget that ships the same")
    for ship in SHIPS:
        end = measured.end[ship][which]
        found = {rule: measured.found[Pair(rule, ship)].over(which).patience(measured.chosen[Pair(rule, ship)])
                 for rule in COMPARED}  # fmt: skip
        at = {rule: at_costs(curve.cost, curve.regret, end, weights) for rule, curve in found.items()}
        at[name] = at_costs(*judged(measured.runs, stops[ship], ship, which), end, weights)
        for rule, regret in at.items():
            cells = [plus_minus(each, 1, 1) for each in interval(regret)]
            more = [plus_minus(each, 1, 1) for each in interval(regret - at[BUDGET])]
            print(f"{rule:14} {ship:8}", *(f"{cell:>11}" for cell in cells), " | ", *(f"{cell:>10}" for cell in more))


def judged(runs: list, stops: np.ndarray, ship: str, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cost and regret of stop rounds (thresholds by runs) on some runs; a run that diverged is charged as elsewhere."""
    cost, regret = np.empty(stops.shape), np.empty(stops.shape)
    meant = budgets(runs, [(model_of(run), run.spec.get("lr")) for run in runs])
    for n, run in enumerate(runs):
        curves = accuracies(run)
        best = max(curve.max() for curve in curves.values())
        cost[:, n] = stops[:, n] / meant[n]
        regret[:, n] = best - curves[ship][stops[:, n] - 1]
    return cost[:, which], regret[:, which]


def sisters_of(runs: list) -> dict[int, int]:
    """For each run the one with the next seed of the same configuration, if there is another."""
    groups: dict[str, list[int]] = {}
    for n, run in enumerate(runs):
        groups.setdefault(repr(sorted((key, value) for key, value in run.spec.items() if key != "seed")), []).append(n)
    found = {}
    for members in groups.values():
        members.sort(key=lambda n: runs[n].spec["seed"])
        found |= dict(zip(members, [*members[1:], members[0]], strict=True)) if len(members) > 1 else {}
    return found


def with_sister(runs: list, sisters: dict[int, int], ship: str) -> np.ndarray:
    """The first round in which the sister is within so many points of its best."""
    stops = np.array([[len(run.rows) for run in runs]] * len(POINTS))
    for n, other in sisters.items():
        curve = accuracies(runs[other])[ship]
        for t, points in enumerate(POINTS):
            first = 1 + int(np.argmax(curve >= curve.max() - points - 1e-9))
            stops[t, n] = min(first, len(runs[n].rows))
    return stops


def learned(runs: list) -> np.ndarray:
    """Where the trees stop every run, each trained on the other tasks."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    tasks = np.array([task_of(run) for run in runs])
    features = [features_of(run) for run in runs]
    gains = []
    for run in runs:
        curve = accuracies(run)["average"]
        gains.append(np.maximum.accumulate(curve[::-1])[::-1] - curve)
    stops = np.array([[len(run.rows) for run in runs]] * len(POINTS))
    for task in dict.fromkeys(tasks):
        rest = np.flatnonzero(tasks != task)
        model = HistGradientBoostingRegressor(max_iter=200, random_state=0)
        seen, target = (np.concatenate([each[n][::SAMPLED] for n in rest]) for each in (features, gains))
        model.fit(seen, target)
        for n in np.flatnonzero(tasks == task):
            told = model.predict(features[n])
            for t, points in enumerate(POINTS):
                held = np.convolve(told < points, np.ones(PATIENCE), "full")[: len(told)] == PATIENCE
                stops[t, n] = 1 + int(np.argmax(held)) if held.any() else len(told)
    return stops


def features_of(run) -> np.ndarray:
    """What a server without data has, round by round, free of the model's scale."""

    def column(name: str) -> np.ndarray:
        return np.array([np.nan if row.get(name) is None else row[name] for row in run.rows], dtype=float)

    distance, update, size = column("distance"), column("update_norm"), column("parameter_norm")
    before = np.concatenate([[np.nan], distance[:-1]])
    last = np.concatenate([[np.nan], update[:-1]])
    rounds = np.arange(1, len(distance) + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        forward = update + column("alignment") / before
        made = [
            np.log(rounds), np.abs(distance - before) / before, update / distance, update / size, distance / size,
            column("alignment") / (update * before), column("turn") / (update * last),
            update**2 / column("cohort_squares"), forward / np.nancumsum(np.nan_to_num(forward)),
            update / np.cumsum(update), distance / np.cumsum(update), column("distance_average") / distance,
            np.log(distance / distance[0]), *(column(f"drift_{window}") for window in (5, 10, 20)),
            column("cohort_size"),
        ]  # fmt: skip
    made += [moved(each) for each in made[1:8]]
    return np.nan_to_num(np.array(made).T, nan=np.nan, posinf=np.nan, neginf=np.nan)


def moved(values: np.ndarray, window: int = 10) -> np.ndarray:
    """The mean over the last rounds, where there are values."""
    there = ~np.isnan(values) & np.isfinite(values)
    sums, counts = np.cumsum(np.where(there, values, 0)), np.cumsum(there)
    sums[window:], counts[window:] = sums[window:] - sums[:-window], counts[window:] - counts[:-window]
    with np.errstate(divide="ignore", invalid="ignore"):
        return sums / counts


if __name__ == "__main__":
    main()
