"""The live view for people without a browser: a table of runs, drawn again when something is recorded."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ...errors import FedhaltError
from ...records.judging import DRIFT, Verdict, judge, metrics
from ...records.stored import budget_of, read_summary
from ...rules import NamedRule, Status, replay
from ..live import LiveRuns
from ..names import short_names
from ..recorded import read_record
from ..words import format_drift, format_motion, format_number, format_percent, format_problem, format_reason
from .display import Column, Display, choose, columns_table, print_table

PAUSE = 1.0
USUAL = ("run", "round", "streak", "stop", "saved", "accuracy", "why")


class WatchDisplay(Display):
    """The table of all runs; in a log it is printed anew whenever it changes."""

    opening = "reading …"

    def __init__(self, console: Console, named: NamedRule, asked: Sequence[str] = (), wide: bool = False) -> None:
        super().__init__(console)
        self.named, self.asked, self.wide = named, asked, wide

    def __call__(self, runs: list[dict[str, Any]]) -> None:
        shown, said = table(
            runs, self.named, self.rows_that_fit(others=4), choose(COLUMNS, self.asked, USUAL, self.wide)
        )
        if self.live:
            self.live.update(Group(shown, Text(said)), refresh=True)
        else:
            print_table(shown, self.console, self.wide)
            self.say(said)

    def _make_live(self) -> Live:
        """Redrawn when something is recorded, which is seldom, and not in between."""
        return Live(Text(self.opening), console=self.console, auto_refresh=False, transient=True)


def watch(live: LiveRuns, named: NamedRule, console: Console, asked: Sequence[str] = (), wide: bool = False) -> None:
    """Shows the runs until Ctrl-C."""
    runs: dict[str, dict[str, Any]] = {}
    version = ""
    with WatchDisplay(console, named, asked, wide) as display:
        while True:
            news = live.since(version)
            version = news["version"]
            runs |= {run["name"]: run for run in news["runs"]}
            runs = {name: run for name, run in runs.items() if name not in news["gone"]}
            if news["all"] or news["runs"] or news["gone"]:
                display(list(runs.values()))
            time.sleep(PAUSE)


def judged(file: Path, name: str, named: NamedRule) -> dict[str, Any]:
    """The last round of a run and where the rule stops it, or what is wrong with it."""
    run: dict[str, Any] = {"name": name, "problem": "", "patience": named.settings.get("patience")}
    try:
        trajectory = read_record(file)
        missing = [column for column in named.rule.reads if len(trajectory) and column not in trajectory.columns]
        if missing:
            raise FedhaltError(f"{missing[0]} is not recorded")
        planned = budget_of(trajectory, read_summary(file))
        verdict = judge(str(file), trajectory, named, planned=planned)
        last = next(iter(deque(replay(named.rule, trajectory), maxlen=1)), None)
        drift = metrics(trajectory.rows[-1]).get(DRIFT) if len(trajectory) else None
        return {**run, "spec": trajectory.header.get("spec"), "last": last, "drift": drift, "verdict": verdict}
    except Exception as error:  # whatever one run may hold, the others are shown
        return {**run, "problem": format_problem(error)}


def check_columns(asked: Sequence[str]) -> None:
    """Says so if one of these is no column."""
    choose(COLUMNS, asked, USUAL, wide=False)


def table(
    runs: list[dict[str, Any]], named: NamedRule, room: int = 10**9, chosen: Sequence[str] = USUAL
) -> tuple[Table, str]:
    """Runs that go on first, then those that the rule has stopped; and what the rule is."""
    names = short_names([run.get("spec") for run in runs], [run["name"] for run in runs])
    called = [{**run, "short": short} for run, short in zip(runs, names, strict=True)]
    order = sorted(called, key=lambda run: (bool(_stop(run) or run["problem"]), run["name"]))
    stopped = sum(_stop(run) is not None for run in runs)
    made = columns_table(order[:room], [COLUMNS[name] for name in chosen])
    more = f"… and {len(order) - room} more; " if len(order) > room else ""
    return made, f"{more}{named}: {stopped} of {len(runs)} runs stopped"


def _stop(run: dict[str, Any]) -> int | None:
    verdict: Verdict | None = run.get("verdict")
    return verdict.stop_round if verdict else None


def _last(run: dict[str, Any]) -> Status | None:
    last: Status | None = run.get("last")
    return last


def _round(run: dict[str, Any]) -> str:
    last, verdict = _last(run), run.get("verdict")
    if last is None or verdict is None:
        return "-" if run["problem"] else "0"
    return f"{last.round}/{verdict.planned}" if verdict.planned > last.round else str(last.round)


def _streak(run: dict[str, Any]) -> str:
    last = _last(run)
    if last is None or _stop(run):
        return "-"
    return f"{last.streak}/{run['patience']}" if run["patience"] else str(last.streak)


def _why(run: dict[str, Any]) -> str:
    if run["problem"]:
        return str(run["problem"])
    last, verdict = _last(run), run.get("verdict")
    if last is None or verdict is None:
        return "no round yet"
    return format_reason(verdict.reason, verdict.rule) or "-"


def _motion(run: dict[str, Any]) -> str:
    last = _last(run)
    return format_motion(last.exponent, last.motion, last.round) if last else "-"


def _number(run: dict[str, Any], field: str) -> str:
    last = _last(run)
    return format_number(getattr(last, field)) if last else "-"


def _of_verdict(run: dict[str, Any], field: str, digits: int) -> str:
    verdict = run.get("verdict")
    return format_percent(getattr(verdict, field) if verdict else None, digits)


COLUMNS: dict[str, Column[dict[str, Any]]] = {
    "run": Column("run", lambda run: run["short"], words=True),
    "round": Column("round", _round),
    "streak": Column("streak", _streak),
    "stop": Column("stop", lambda run: str(_stop(run) or "-")),
    "saved": Column("saved", lambda run: _of_verdict(run, "saved", 0) if _stop(run) else "-"),
    "accuracy": Column("accuracy", lambda run: _of_verdict(run, "accuracy", 1)),
    "why": Column("why", _why, words=True),
    "value": Column("value", lambda run: _number(run, "value")),
    "signal": Column("signal", lambda run: _number(run, "signal")),
    "model": Column("model", _motion, words=True),
    "drift": Column("drift", lambda run: format_drift(run.get("drift")), words=True),
    "name": Column("name", lambda run: run["name"], words=True),
}
"""What there is to show of a run: the first seven usually, all with `--wide`."""
