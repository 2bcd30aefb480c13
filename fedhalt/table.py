"""What a person sees of a sweep: a live table of trials, or a line per event where there is no terminal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .plan import Plan
from .rules.motion import told, why
from .sweep import best
from .trial import ENDED, Following, Trial

ORDER = ("running", "lost", "elsewhere", "interrupted", "converged", "complete", "screened", "failed", "waiting")


class Lines:
    """A line when a trial begins and when it ends."""

    def __init__(self, console: Console, plan: Plan) -> None:
        self.console, self.plan = console, plan
        self.said: dict[int, str] = {}

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __call__(self, trials: list[Trial], total: int) -> None:
        for trial in trials:
            if self.said.get(trial.number) != trial.state:
                self.said[trial.number] = trial.state
                self.console.print(self.line(trial, total), markup=False, soft_wrap=True)
                if trial.state in ENDED:
                    self.console.print(f"  {saved(trials, self.plan)}", markup=False, soft_wrap=True)

    def line(self, trial: Trial, total: int) -> str:
        found = trial.outcome
        parts = [f"trial {trial.number + 1}/{total}", trial.label, trial.state]
        if trial.state in (*ENDED, "interrupted") and "rounds" in found:
            growth = "" if found["growth"] is None else f"; growth {found['growth']:.4g}"
            reason = why(found["reason"], found["exponent"], found["motion"])
            parts.append(f"after {found['rounds']} of {self.plan.rounds} rounds ({reason}{growth})")
        if trial.value is not None:
            parts.append(f"{self.plan.objective} {trial.value:.4g}")
        if trial.state in ("failed", "lost"):
            parts.append(found.get("error", ""))
        return "  ".join(parts)


class Screen(Lines):
    """The table, redrawn a few times a second; running trials first, then the best."""

    def __enter__(self) -> Screen:
        self.live = Live(Text("preparing …"), console=self.console, refresh_per_second=4, transient=True)
        self.live.start()
        self.last = 0.0
        self.followed: dict[int, Following] = {}
        return self

    def __exit__(self, *error: object) -> None:
        self.live.stop()

    def __call__(self, trials: list[Trial], total: int) -> None:
        if time.monotonic() - self.last >= 0.2:
            self.last = time.monotonic()
            room = max(4, self.console.size.height - 6)
            self.live.update(table(trials, total, self.plan, room, self.followed))


def table(
    trials: list[Trial], total: int, plan: Plan, room: int = 10**9, followed: dict[int, Following] | None = None
) -> Table:
    """Trials with state, round, growth, exponent, objective, and under it what was saved so far.

    `followed` remembers how far the records of running trials were read when the table is made again and again.
    """
    followed = {} if followed is None else followed
    ended = sum(trial.state in ENDED for trial in trials)
    made = Table(box=None, pad_edge=False, header_style="bold", caption_justify="left")
    made.caption = f"{ended} of {total} trials ended; {saved(trials, plan)}"
    titles = ("trial", "configuration", "state", "round", "growth", "exponent", plan.objective, "best", "seconds", "MB")
    for title in titles:
        left = title in ("configuration", "state", "exponent")
        made.add_column(title, justify="left" if left else "right", overflow="fold" if left else "ellipsis")
    leader = best(trials, plan.higher_is_better)
    sign = -1 if plan.higher_is_better else 1

    def place(trial: Trial) -> tuple[Any, ...]:
        value = trial.value
        return ORDER.index(trial.state) // 4, float("inf") if value is None else sign * value, trial.number

    shown = sorted(trials, key=place)[:room]
    for trial in shown:
        made.add_row(*_cells(trial, plan, trial is leader, followed))
    if len(shown) < len(trials):
        made.add_row("", f"… and {len(trials) - len(shown)} more")
    return made


def saved(trials: list[Trial], plan: Plan) -> str:
    """What the rules have spared so far, and the best trial."""
    ended = [trial for trial in trials if trial.outcome.get("saved")]
    sums = {key: sum(trial.outcome["saved"][key] for trial in ended) for key in ("rounds", "seconds", "bytes")}
    budget = plan.rounds * len(ended)
    text = (
        f"saved so far {sums['rounds']:.0f} of {budget} rounds, about {duration(sums['seconds'])} "
        f"and {sums['bytes'] / 1e6:,.0f} MB"
    )
    leader = best(trials, plan.higher_is_better)
    return text if leader is None else f"{text}; best {plan.objective} {leader.value:.4g}: {leader.label}"


def duration(seconds: float) -> str:
    """Hours, minutes and seconds."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def _cells(trial: Trial, plan: Plan, leads: bool, followed: dict[int, Following]) -> list[str]:
    found = trial.outcome
    if trial.state == "running":
        path = Path(plan.out) / trial.spec.id / "trajectory.jsonl"
        record = followed.setdefault(trial.number, Following(path))
        row = record.look()
        done, growth, value = row.get("round", 0), row.get("growth"), row.get(plan.objective)
        moved, cost = told(*record.motion), ["", ""]
    else:
        done, growth, value = found.get("rounds", 0), found.get("growth"), found.get("value")
        moved = told(found.get("exponent"), found.get("motion", ""), found.get("reason", ""))
        spent = found.get("cost", {"seconds": 0, "bytes": 0})
        cost = [f"{spent['seconds']:.1f}", f"{spent['bytes'] / 1e6:.1f}"]
    cause = found.get("reason") or found.get("error", "")
    named = trial.state in ("screened", "converged", "failed", "lost") and cause
    state = f"{trial.state} ({cause})" if named else trial.state
    return [
        str(trial.number + 1), trial.label, state, f"{done}/{plan.rounds}", _number(growth), moved, _number(value),
        "best" if leads else "", *cost,
    ]  # fmt: skip


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
