"""The question a user has: what does each way of stopping cost, which configuration does it pick, how good is that?

Every configuration was recorded to the full budget once; the ways of stopping are replayed on the records.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import FedhaltError
from ..records.trajectory import Trajectory
from ..rules import NamedRule, Stepper, is_hopeless, named_rule
from .plans import Plan
from .trial import Cost, Trial, last_value

LAST = 10
"""Rounds at the end of the budget over which the quality of a configuration is averaged: single rounds are noisy."""

QUALITY = "test_balanced_accuracy"

Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Compared:
    """One way of stopping: its cost, its pick, and how good the pick is at the full budget."""

    strategy: str
    cost: Cost
    trials: int
    screened: int
    """How many trials it ended as hopeless."""
    best_screened: float | None
    """The quality of the best of those."""
    pick: str | None
    """The configuration with the best objective at its stop."""
    pick_number: int | None
    quality: float | None
    spread: float | None
    share: Cost
    """The cost as a share of that without stopping."""
    regret: float | None
    """How far the pick is below the best configuration of all."""

    def to_json(self) -> dict[str, Any]:
        """As `fedhalt sweep --compare --json` prints it."""
        return dataclasses.asdict(self)


class Quality(NamedTuple):
    """Balanced test accuracy over the last evaluated rounds of the full budget."""

    mean: float
    spread: float


@dataclass(frozen=True)
class Recorded:
    """A configuration with its rounds up to the full budget."""

    number: int
    label: str
    rows: Rows
    quality: Quality | None


def strategies(plan: Plan) -> dict[str, list[NamedRule]]:
    """The ways of stopping by name: of two rules the first screens, a single one ends a trial that keeps its score."""
    ours = plan.screen or named_rule("wandering")
    last = plan.converge or named_rule("growth")
    return {
        "no stopping": [],
        "validation loss": [named_rule("val-loss")],
        "validation accuracy": [named_rule("val-accuracy")],
        "paper, threshold 0.1": [named_rule("growth", threshold=0.1)],
        "paper, threshold 0.01": [named_rule("growth", threshold=0.01)],
        f"{ours.name} alone": [ours, named_rule("budget", rounds=plan.rounds)],
        f"{ours.name}, then {last.name}": [ours, last],
    }


def compare(plan: Plan, trials: Sequence[Trial]) -> list[Compared]:
    """Every way of stopping whose rules find their columns in the records; the first is no stopping at all."""
    records = [_recorded(plan, trial) for trial in trials if trial.state != "failed"]
    if not records:
        raise FedhaltError("there is no recorded trial to compare")
    columns = set.intersection(*({column for row in record.rows for column in row} for record in records))
    full = sum((Cost.of(record.rows) for record in records), Cost(0.0, 0.0, 0.0))
    return [
        _judge(name, stages, records, plan, full)
        for name, stages in strategies(plan).items()
        if all(column in columns for stage in stages for column in stage.rule.reads)
    ]


def _recorded(plan: Plan, trial: Trial) -> Recorded:
    rows = Trajectory.load(Path(plan.out) / trial.spec.id / "trajectory.jsonl").rows[: plan.rounds]
    scores = [row[QUALITY] for row in rows if row.get(QUALITY) is not None][-LAST:]
    quality = Quality(statistics.fmean(scores), statistics.pstdev(scores)) if scores else None
    return Recorded(trial.number, trial.label, rows, quality)


def _judge(name: str, stages: list[NamedRule], records: list[Recorded], plan: Plan, full: Cost) -> Compared:
    """What one way of stopping costs on these records, and what it picks."""
    cost, scores, screened = Cost(0.0, 0.0, 0.0), [], []
    for record in records:
        used, hopeless = stop_of(stages, record.rows)
        cost += Cost.of(record.rows[:used])
        value = last_value(record.rows[:used], plan.objective)
        if hopeless:
            screened.append(record)
        elif value is not None and not math.isnan(value):
            scores.append((value, record))
    choose = max if plan.higher_is_better else min
    pick = choose(scores, key=lambda scored: scored[0])[1] if scores else None
    quality = pick.quality if pick else None
    best, lost = _best_quality(records), _best_quality(screened)
    return Compared(
        name, cost, len(records), len(screened), best_screened=lost, pick=pick.label if pick else None,
        pick_number=pick.number if pick else None, quality=quality.mean if quality else None,
        spread=quality.spread if quality else None, share=cost.share(full),
        regret=best - quality.mean if best is not None and quality else None,
    )  # fmt: skip


def _best_quality(records: list[Recorded]) -> float | None:
    return max((record.quality.mean for record in records if record.quality), default=None)


def stop_of(stages: Sequence[NamedRule], rows: Rows) -> tuple[int, bool]:
    """The rounds that are used, and whether the first of two rules ended it as hopeless."""
    stepper = Stepper([stage.rule for stage in stages], explain=False)
    for index, row in enumerate(rows):
        if stepper.step(row):
            position, status = next(iter(stepper.fired.items()))
            return index + 1, is_hopeless(status.reason, screened=len(stages) == 2 and position == 0)
    return len(rows), False
