"""What a person sees of a replay: where each rule would have stopped each run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from ...records.judging import LAST, Verdict
from ..words import (
    format_drift,
    format_metric,
    format_motion,
    format_number,
    format_percent,
    format_reason,
    is_clock,
    needs_data,
    plural,
    printable,
)
from .display import Column, choose, columns_table, print_table

SETTINGS = ("threshold", "patience", "budget")
USUAL = ("run", "rule", "stop", "saved", "accuracy", "why")


@dataclass(frozen=True)
class Shown:
    """A verdict with the names that its run and its rule have among those shown."""

    run: str
    rule: str
    verdict: Verdict


COLUMNS: dict[str, Column[Shown]] = {
    "run": Column("run", lambda shown: shown.run, words=True),
    "rule": Column("rule", lambda shown: shown.rule, words=True),
    "threshold": Column("threshold", lambda shown: format_number(shown.verdict.threshold, digits=6)),
    "patience": Column("patience", lambda shown: format_number(shown.verdict.patience, digits=6)),
    "stop": Column("stop", lambda shown: str(shown.verdict.stop_round or "never")),
    "rounds": Column("rounds", lambda shown: str(shown.verdict.rounds)),
    "budget": Column("budget", lambda shown: str(shown.verdict.planned)),
    "saved": Column("saved", lambda shown: _saved(shown.verdict)),
    "accuracy": Column("accuracy", lambda shown: format_percent(shown.verdict.accuracy)),
    "average": Column("average", lambda shown: format_percent(shown.verdict.average)),
    "why": Column("why", lambda shown: format_reason(shown.verdict.reason, shown.verdict.rule) or "-", words=True),
    "model": Column("model", lambda shown: _motion(shown.verdict), words=True),
    "drift": Column("drift", lambda shown: format_drift(shown.verdict.drift), words=True),
    "data": Column("needs", lambda shown: _needs(shown.verdict.rule).removeprefix("needs "), words=True),
    "checkpoint": Column("checkpoint", lambda shown: shown.verdict.checkpoint or "-", words=True),
    "file": Column("file", lambda shown: printable(shown.verdict.file), words=True),
}  # fmt: skip
"""What there is to show; the recorded numbers of the stop round come after these, each under its own name."""


def show_verdicts(
    console: Console, verdicts: Sequence[Verdict], runs: Sequence[str], asked: Sequence[str] = (), wide: bool = False
) -> None:
    """A row per run and rule, and under the table what all rows have in common."""
    columns = {**COLUMNS, **_recorded(verdicts)}
    usual = [*USUAL[:3], "checkpoint", *USUAL[3:]] if any(verdict.checkpoint for verdict in verdicts) else USUAL
    if any(verdict.average is not None for verdict in verdicts):
        usual = [*usual[:-1], "average", usual[-1]]
    chosen = choose(columns, asked, usual, wide)
    rules = _rule_names(verdicts)
    rows = [Shown(*each) for each in zip(runs, rules, verdicts, strict=True)]
    print_table(columns_table(rows, [columns[name] for name in chosen]), console, wide)
    console.print()
    for line in _notes(verdicts, chosen):
        console.print(line, markup=False)


def _recorded(verdicts: Sequence[Verdict]) -> dict[str, Column[Shown]]:
    names = dict.fromkeys(name for verdict in verdicts for name in verdict.metrics)

    def column(name: str) -> Column[Shown]:
        return Column(name, lambda shown: format_number(shown.verdict.metrics.get(name), digits=6))

    return {name: column(name) for name in names if name not in COLUMNS}


def _rule_names(verdicts: Sequence[Verdict]) -> list[str]:
    """The rules by name, with the settings in which those of one name differ."""
    values: dict[tuple[str, str], set[Any]] = {}
    for verdict in verdicts:
        for key in SETTINGS:
            values.setdefault((verdict.rule, key), set()).add(getattr(verdict, key))

    def name(verdict: Verdict) -> str:
        varying = [key for key in SETTINGS if len(values[verdict.rule, key]) > 1]
        return " ".join([verdict.rule, "/".join(format_number(getattr(verdict, key), 6) for key in varying)]).strip()

    return [name(verdict) for verdict in verdicts]


def _notes(verdicts: Sequence[Verdict], chosen: Sequence[str]) -> list[str]:
    lines = []
    for rule in dict.fromkeys(verdict.rule for verdict in verdicts):
        same = [verdict for verdict in verdicts if verdict.rule == rule]
        lines.append(f"{rule}: {', '.join([*_settings(same), _needs(rule)])}")
    planned = {verdict.planned for verdict in verdicts}
    if "saved" in chosen and len(planned) == 1:
        lines.append(f"saved: share of {plural(planned.pop(), 'round')}, the budget or all recorded rounds")
    metrics = {verdict.metric for verdict in verdicts if verdict.metric}
    if "accuracy" in chosen and metrics:
        lines.append(
            f"accuracy: {' or '.join(map(format_metric, sorted(metrics)))}, mean of {LAST} evaluations up to the stop"
        )
    clocks = [verdict for verdict in verdicts if is_clock(verdict.reason, verdict.motion, verdict.rule)]
    if clocks:
        where = "The" if len(verdicts) == 1 else f"In {len(clocks)} of {len(verdicts)} rows the"
        lines.append(f"{where} model was still moving at the stop: growth is small because many rounds have passed")
    return lines


def _settings(same: Sequence[Verdict]) -> list[str]:
    """Threshold and patience of a rule, or the order in which its name states them."""
    said = []
    for key in SETTINGS:
        values = {getattr(verdict, key) for verdict in same}
        if values != {None}:
            said.append(key if len(values) > 1 else f"{key} {format_number(values.pop(), digits=6)}")
    return said


def _needs(rule: str) -> str:
    return "needs validation data" if needs_data(rule) else "needs no data"


def _saved(verdict: Verdict) -> str:
    return "-" if verdict.stop_round is None else format_percent(verdict.saved, 0)


def _motion(verdict: Verdict) -> str:
    return format_motion(verdict.exponent, verdict.motion, verdict.stop_round or verdict.rounds)
