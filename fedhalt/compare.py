"""The question a user has: what does each way of stopping cost, which configuration does it pick, how good is that?

Every configuration was recorded to the full budget once; the ways of stopping are replayed on the records.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .check import FedhaltError
from .judge import Candidate, candidate
from .pictures import bars_and_dots
from .plan import Plan
from .table import duration
from .trajectory import Trajectory
from .trial import Trial, scored, spent

LAST = 10
"""Rounds at the end of the budget over which the quality of a configuration is averaged: single rounds are noisy."""

QUALITY = "test_balanced_accuracy"


def strategies(plan: Plan) -> dict[str, list[Candidate]]:
    """The ways of stopping by name: of two rules the first screens, a single one ends a trial that keeps its score."""
    ours = plan.screen or candidate("wandering")
    last = plan.converge or candidate("growth")
    return {
        "no stopping": [],
        "validation loss": [candidate("val-loss")],
        "validation accuracy": [candidate("val-accuracy")],
        "paper, threshold 0.1": [candidate("growth", threshold=0.1)],
        "paper, threshold 0.01": [candidate("growth", threshold=0.01)],
        f"{ours.name} alone": [ours, candidate("budget", rounds=plan.rounds)],
        f"{ours.name}, then {last.name}": [ours, last],
    }


def compare(plan: Plan, trials: list[Trial]) -> list[dict[str, Any]]:
    """One row per way of stopping: its cost, its pick, and how good the pick is at the full budget."""
    records = {
        trial.number: Trajectory.load(Path(plan.out) / trial.spec.id / "trajectory.jsonl").rows[: plan.rounds]
        for trial in trials
        if trial.state != "failed"
    }
    if not records:
        raise FedhaltError("there is no recorded trial to compare")
    labels = {trial.number: trial.label for trial in trials}
    quality = {number: _quality(rows) for number, rows in records.items()}
    recorded = set.intersection(*({key for row in rows for key in row} for rows in records.values()))
    found = []
    for name, stages in strategies(plan).items():
        if all(column in recorded for stage in stages for column in stage.rule.reads):
            found.append({"strategy": name, **_judge(plan, stages, records, labels, quality)})
    full = found[0]["cost"]
    top = max((known[0] for known in quality.values() if known), default=None)
    for row in found:
        row["share"] = {key: row["cost"][key] / full[key] if full[key] else 0.0 for key in full}
        row["regret"] = None if top is None or row["quality"] is None else top - row["quality"]
    return found


def _judge(
    plan: Plan, stages: list[Candidate], records: dict[int, list[dict[str, Any]]], labels: dict[int, str],
    quality: dict[int, Any],
) -> dict[str, Any]:  # fmt: skip
    """What one way of stopping costs on these records, and what it picks."""
    cost = {"rounds": 0.0, "seconds": 0.0, "bytes": 0.0}
    scores: dict[int, float] = {}
    screened = []
    for number, rows in records.items():
        used, hopeless = end(stages, rows)
        cost = {key: cost[key] + value for key, value in spent(rows[:used]).items()}
        value = scored(rows[:used], plan.objective)
        if hopeless:
            screened.append(number)
        elif value is not None and value == value:
            scores[number] = value
    choose = max if plan.higher_is_better else min
    pick = choose(scores, key=lambda number: scores[number]) if scores else None
    mean, spread = quality[pick] if pick is not None and quality[pick] else (None, None)
    lost = [quality[number][0] for number in screened if quality[number]]
    return {
        "cost": cost, "trials": len(records), "screened": len(screened), "best_screened": max(lost, default=None),
        "pick": None if pick is None else labels[pick], "pick_number": pick, "quality": mean, "spread": spread,
    }  # fmt: skip


def end(stages: list[Candidate], rows: list[dict[str, Any]]) -> tuple[int, bool]:
    """The rounds that are used, and whether the first of two rules ended it as hopeless."""
    states = [stage.rule.begin() for stage in stages]
    for index, row in enumerate(rows):
        for position, stage in enumerate(stages):
            states[position], status = stage.rule.step(states[position], row)
            if status.stop:
                return index + 1, (len(stages) == 2 and position == 0) or status.reason == "diverged"
    return len(rows), False


def _quality(rows: list[dict[str, Any]]) -> tuple[float, float] | None:
    """Mean and spread of the balanced test accuracy over the last evaluated rounds of the full budget."""
    values = [row[QUALITY] for row in rows if row.get(QUALITY) is not None][-LAST:]
    return (statistics.fmean(values), statistics.pstdev(values)) if values else None


def show(console: Console, rows: list[dict[str, Any]], plan: Plan) -> None:
    """The table."""
    console.print(
        f"{rows[0]['trials']} configurations of {plan.rounds} rounds; picked by {plan.objective} at the stop; "
        f"quality: balanced test accuracy at the full budget, mean ± deviation of the last {LAST} evaluated rounds\n",
        markup=False,
    )  # fmt: skip
    made = Table(box=None, pad_edge=False, header_style="bold")
    titles = (
        "stopping",
        "rounds",
        "of full",
        "MB",
        "time",
        "screened",
        "best screened",
        "picks",
        "quality",
        "below best",
    )
    for title in titles:
        made.add_column(title, justify="left" if title in ("stopping", "picks") else "right", overflow="fold")
    for row in rows:
        cost = row["cost"]
        made.add_row(
            row["strategy"], f"{cost['rounds']:.0f}", f"{row['share']['rounds']:.1%}", f"{cost['bytes'] / 1e6:,.0f}",
            duration(cost["seconds"]), str(row["screened"]), _percent(row["best_screened"]), row["pick"] or "-",
            "-" if row["quality"] is None else f"{row['quality']:.1%} ± {row['spread']:.1%}", _percent(row["regret"]),
        )  # fmt: skip
    console.print(made)


def draw(rows: list[dict[str, Any]], plan: Plan, path: Path) -> None:
    """Cost on the left, quality of the pick on the right."""
    bars_and_dots(
        [row["strategy"] for row in rows], [row["share"]["rounds"] for row in rows],
        [(row["quality"], row["spread"], row["pick"] or "") for row in rows],
        (f"rounds, share of {rows[0]['cost']['rounds']:.0f}", "balanced test accuracy of the pick at the full budget"),
        path,
    )  # fmt: skip


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"
