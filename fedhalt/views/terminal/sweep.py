"""What a person sees of a sweep: a live table of trials, or a line per event where there is no terminal."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from ...records.judging import DRIFT
from ...records.tail import TrajectoryTail
from ...tuning.plans import Plan
from ...tuning.sweeps import best
from ...tuning.trial import ENDED, Cost, Trial
from ..words import format_drift, format_duration, format_motion, format_number, format_reason, format_stop
from .display import Column, Display, columns_table

ORDER = ("running", "lost", "elsewhere", "interrupted", "converged", "complete", "screened", "failed", "waiting")

USUAL = ("configuration", "trial", "state", "rounds", "saved", "objective", "best")

REDRAW = 0.2
"""Seconds between two drawings: reading the records of running trials costs something."""


class SweepDisplay(Display):
    """On a terminal the table, running trials first, then the best; in a log a line when a trial begins and ends."""

    opening = "preparing …"

    def __init__(self, console: Console, plan: Plan, chosen: Sequence[str] = USUAL) -> None:
        super().__init__(console)
        self.plan, self.chosen = plan, chosen
        self.said: dict[int, str] = {}
        self.drawn = 0.0
        self.tails: dict[int, TrajectoryTail] = {}

    def __call__(self, trials: list[Trial], total: int) -> None:
        if self.live is None:
            self._say_what_changed(trials, total)
        elif time.monotonic() - self.drawn >= REDRAW:
            self.drawn = time.monotonic()
            shown, said = sweep_table(
                trials, total, self.plan, self.rows_that_fit(others=6), self.tails, chosen=self.chosen
            )
            self.live.update(Group(shown, Text(said)))

    def _say_what_changed(self, trials: list[Trial], total: int) -> None:
        for trial in trials:
            if self.said.get(trial.number) != trial.state:
                self.said[trial.number] = trial.state
                self.say(self._line(trial, total))
                if trial.state in ENDED:
                    self.say(f"  {format_saved(trials, self.plan)}")

    def _line(self, trial: Trial, total: int) -> str:
        found = trial.outcome
        parts = [f"trial {trial.number + 1}/{total}", short_label(trial.label), trial.state]
        if found.run:
            reason = format_stop(found.reason, found.motion, _rule_name(trial, self.plan))
            parts.append(f"after {found.rounds} of {self.plan.rounds} rounds ({reason})")
        if trial.value is not None:
            parts.append(f"{self.plan.objective} {trial.value:.4g}")
        if trial.state in ("failed", "lost"):
            parts.append(found.error)
        return "  ".join(parts)


def sweep_table(
    trials: list[Trial],
    total: int,
    plan: Plan,
    room: int = 10**9,
    tails: dict[int, TrajectoryTail] | None = None,
    chosen: Sequence[str] = USUAL,
) -> tuple[Table, str]:
    """Trials, running ones first, then the best; and what was saved so far.

    `tails` remembers how far the records of running trials were read when the table is made again and again.
    """
    tails = {} if tails is None else tails
    leader = best(trials, plan.higher_is_better)
    sign = -1 if plan.higher_is_better else 1

    def place(trial: Trial) -> tuple[Any, ...]:
        value = trial.value
        return ORDER.index(trial.state) // 4, float("inf") if value is None else sign * value, trial.number

    shown = [_shown(trial, plan, trial is leader, tails) for trial in sorted(trials, key=place)[:room]]
    columns = {**COLUMNS, "objective": Column(plan.objective, COLUMNS["objective"].cell)}
    made = columns_table(shown, [columns[name] for name in chosen])
    more = f"… and {len(trials) - len(shown)} more; " if len(shown) < len(trials) else ""
    ended = sum(trial.state in ENDED for trial in trials)
    return made, f"{more}{ended} of {total} trials ended; {format_saved(trials, plan)}"


def format_saved(trials: list[Trial], plan: Plan) -> str:
    """What the rules have spared so far, and the best trial."""
    spared = [trial.outcome.saved for trial in trials if trial.outcome.saved]
    total = sum(spared, Cost(0, 0, 0))
    text = (
        f"saved so far: {total.rounds:.0f} of {plan.rounds * len(spared)} rounds, "
        f"about {format_duration(total.seconds)} and {total.bytes / 1e6:,.0f} MB"
    )
    leader = best(trials, plan.higher_is_better)
    return text if leader is None else f"{text}; best {plan.objective} {leader.value:.4g}: {short_label(leader.label)}"


@dataclass(frozen=True)
class Shown:
    """A trial as a row of the table."""

    trial: Trial
    plan: Plan
    leads: bool
    round: int
    growth: float | None
    motion: str
    drift: float | None
    value: float | None
    cost: Cost | None


def _shown(trial: Trial, plan: Plan, leads: bool, tails: dict[int, TrajectoryTail]) -> Shown:
    found = trial.outcome
    if trial.state != "running":
        moved = format_motion(found.exponent, found.motion, found.rounds)
        return Shown(trial, plan, leads, found.rounds, found.growth, moved, found.drift, found.value, found.cost)
    tail = tails.setdefault(trial.number, TrajectoryTail(Path(plan.out) / trial.spec.id / "trajectory.jsonl"))
    row = tail.poll()
    r = row.get("round", 0)
    moved = format_motion(*tail.motion, r)
    return Shown(trial, plan, leads, r, row.get("growth"), moved, row.get(DRIFT), row.get(plan.objective), None)


def short_label(label: str) -> str:
    """A trial's configuration as people say it.

    >>> short_label("method=fedprox lam=0.1 lr=0.05")
    'fedprox lam 0.1 lr 0.05'
    """
    return re.sub(r"(^|\s)(data|model|method|skew)=", r"\1", label).replace("=", " ")


def _rule_name(trial: Trial, plan: Plan) -> str:
    """The rule that ended a trial."""
    stage = plan.screen if trial.state == "screened" else plan.converge
    return stage.name if stage is not None else ""


def _why(shown: Shown) -> str:
    found = shown.trial.outcome
    return found.error or format_reason(found.reason, _rule_name(shown.trial, shown.plan)) or "-"


def _saved(shown: Shown) -> str:
    left = shown.plan.rounds - shown.round
    return f"{left / shown.plan.rounds:.0%}" if left and shown.trial.state in ("screened", "converged") else "-"


COLUMNS: dict[str, Column[Shown]] = {
    "configuration": Column("configuration", lambda shown: short_label(shown.trial.label), words=True),
    "trial": Column("trial", lambda shown: str(shown.trial.number + 1)),
    "state": Column("state", lambda shown: shown.trial.state, words=True),
    "rounds": Column("rounds", lambda shown: f"{shown.round}/{shown.plan.rounds}"),
    "saved": Column("saved", _saved),
    "objective": Column("objective", lambda shown: format_number(shown.value)),
    "best": Column("", lambda shown: "best" if shown.leads else "", words=True),
    "why": Column("why", _why, words=True),
    "growth": Column("growth", lambda shown: format_number(shown.growth)),
    "model": Column("model", lambda shown: shown.motion, words=True),
    "drift": Column("drift", lambda shown: format_drift(shown.drift), words=True),
    "seconds": Column("seconds", lambda shown: f"{shown.cost.seconds:.1f}" if shown.cost else "-"),
    "MB": Column("MB", lambda shown: f"{shown.cost.bytes / 1e6:.1f}" if shown.cost else "-"),
    "id": Column("id", lambda shown: shown.trial.spec.id, words=True),
}
"""What there is to show of a trial: the first seven usually, all with `--wide`."""
