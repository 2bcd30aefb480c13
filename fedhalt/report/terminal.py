"""The live view for people without a browser: a table of runs, drawn again when something is recorded."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..check import FedhaltError
from ..judge import Candidate, recorded
from ..rules import Status, replay
from ..rules.motion import told, why
from .data import FIRST
from .watch import Watched

PAUSE = 1.0


def judged(file: Path, name: str, candidate: Candidate) -> dict[str, Any]:
    """The last round of a run and where the rule stops it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trajectory = recorded(file)
        rows = trajectory.rows
        missing = [column for column in candidate.rule.reads if rows and column not in trajectory.columns]
        if missing:
            raise FedhaltError(f"{missing[0]} is not recorded")
        last, stop = None, None
        for status in replay(candidate.rule, rows):
            last, stop = status, stop or (status if status.stop else None)
    except (FedhaltError, OSError) as error:
        return {"name": name, "problem": str(error)}
    scores = [column for column in (*FIRST, *trajectory.columns) if column in trajectory.columns]
    scored = next((column for column in scores if "accuracy" in column), None)
    value = next((row[scored] for row in reversed(rows) if scored and row[scored] is not None), None)
    return {"name": name, "problem": "", "last": last, "stop": stop, "accuracy": value}


def table(runs: list[dict[str, Any]], candidate: Candidate, room: int = 10**9) -> Table:
    """Runs that go on first, then those that the rule has stopped."""
    stopped = sum(bool(run.get("stop")) for run in runs)
    made = Table(box=None, pad_edge=False, header_style="bold", caption_justify="left")
    made.caption = f"{candidate}: {stopped} of {len(runs)} runs stopped"
    for title in ("run", "round", "value", "held", "streak", "exponent", "stops at", "reason", "accuracy"):
        left = title in ("run", "exponent", "reason")
        made.add_column(title, justify="left" if left else "right", overflow="fold" if left else "ellipsis")
    order = sorted(runs, key=lambda run: (bool(run.get("stop") or run["problem"]), run["name"]))
    for run in order[:room]:
        made.add_row(*map(Text, _cells(run)))
    if len(order) > room:
        made.add_row(f"… and {len(order) - room} more")
    return made


def watch(watched: Watched, candidate: Candidate, console: Console) -> None:
    """Until Ctrl-C; where there is no terminal the table is printed anew whenever it changes."""
    runs: dict[str, dict[str, Any]] = {}
    version = ""
    with Live(Text("reading …"), console=console, auto_refresh=False, transient=True) as live:
        while True:
            news = watched.since(version)
            version = news["version"]
            runs |= {run["name"]: run for run in news["runs"]}
            runs = {name: run for name, run in runs.items() if name not in news["gone"]}
            if news["all"] or news["runs"] or news["gone"]:
                room = max(4, console.size.height - 4) if console.is_terminal else 10**9
                shown = table(list(runs.values()), candidate, room)
                if console.is_terminal:
                    live.update(shown, refresh=True)
                else:
                    console.print(shown)
            time.sleep(PAUSE)


def _cells(run: dict[str, Any]) -> list[str]:
    if run["problem"]:
        return [run["name"], "-", "-", "-", "-", "-", "-", run["problem"], "-"]
    last: Status | None = run["last"]
    stop: Status | None = run["stop"]
    if last is None:
        return [run["name"], "0", "-", "-", "-", "-", "-", "no round yet", "-"]
    accuracy = "-" if not isinstance(run["accuracy"], (int, float)) else f"{run['accuracy']:.1%}"
    return [
        run["name"], str(last.round), _text(last.value), _text(last.growth), str(last.streak),
        told(last.exponent, last.motion), str(stop.round) if stop else "-",
        why(stop.reason, stop.exponent, stop.motion) if stop else "-", accuracy,
    ]  # fmt: skip


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
