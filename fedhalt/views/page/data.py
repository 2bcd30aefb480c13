"""Recorded runs as a page reads them: each as compact columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ... import files, rules
from ...records.judging import DRIFT
from ...records.stored import budget_of, read_summary, stored_rules
from ...records.trajectory import Trajectory
from ...rules import named_rule
from ..recorded import read_record
from ..words import format_problem
from .columns import Packed, pack_drawn, pack_exact
from .signals import motions, on_page, signals

EXACT = tuple(rule.column for rule in map(rules.create, on_page()) if isinstance(rule, rules.Plateau))
"""Columns that a trigger of the page reads itself: kept to the last bit, so that it decides as Python does."""

FIRST = ("test_balanced_accuracy", "test_accuracy", "val_balanced_accuracy", "val_accuracy", "test_loss", "val_loss")
"""The accuracy that is shown is the first of these that is recorded, else any other."""

AVERAGE = "_average"
"""How the columns of the averaged model end."""

DRAWN = 8
"""Accuracies and losses, the most telling first, of which at most so many are kept: a page must stay small."""


def written(file: Path, name: str) -> tuple[str, dict[str, Any]]:
    """A run as JSON, which the process that read it can make, and what a report says of all runs."""
    run = loaded(file, name)
    return files.to_json(run), {key: run[key] for key in ("name", "spec", "problem") if key in run}


def loaded(file: Path, name: str) -> dict[str, Any]:
    """A file as `described`; one that cannot be read is a run without rounds that says why."""
    try:
        trajectory, summary = read_record(file), read_summary(file)
        made = described(trajectory, name)
        return {**made, "budget": budget_of(trajectory, summary), "watched": _watched(trajectory, summary)}
    except Exception as error:  # whatever one run may hold, the others are shown
        return {**described(Trajectory(), name), "problem": format_problem(error)}


def described(trajectory: Trajectory, name: str) -> dict[str, Any]:
    """A run as plain data: its numbers as base64, everything else as it is."""
    table, header = trajectory.table, trajectory.header
    rounds = list(table.values("round"))
    columns = {column: _column(column, table.values(column)) for column in _kept(trajectory)}
    traffic = [name for name in ("bytes_down", "bytes_up") if name in trajectory.columns]
    if traffic:
        columns["bytes"] = pack_drawn([_sum(both) for both in zip(*map(table.values, traffic), strict=True)])
    return {
        "name": name,
        "rounds": len(rounds) if rounds == list(range(1, len(rounds) + 1)) else rounds,
        "columns": {column: packed for column, packed in columns.items() if packed is not None},
        "signals": signals(trajectory),
        "motion": motions(trajectory),
        "spec": _spec(header.get("spec")),
        "budget": budget_of(trajectory, {}),
        "watched": [],
    }


def _spec(spec: Any) -> dict[str, Any]:
    """A configuration as a page shows it: values by name; of what is nested only hyperparameters, the rest as text."""
    if not isinstance(spec, dict):
        return {}
    own = spec.get("hyperparameters")
    return _values(spec) | ({"hyperparameters": _values(own)} if isinstance(own, dict) else {})


def _values(entries: dict[str, Any]) -> dict[str, Any]:
    nested = (dict, list)
    return {name: files.to_json(value) if isinstance(value, nested) else value for name, value in entries.items()}


def _kept(trajectory: Trajectory) -> list[str]:
    """The columns that a page draws or judges by."""
    drawn = [name for name in trajectory.columns if "accuracy" in name or "loss" in name]
    there = [name for name in FIRST if name in drawn]
    first = [*there[:1], *(f"{name}{AVERAGE}" for name in there[:1]), *there]
    drawn.sort(key=lambda name: first.index(name) if name in first else len(first))
    wanted = dict.fromkeys(("distance", *EXACT, *drawn[:DRAWN], DRIFT, "seconds"))
    return [name for name in wanted if name in trajectory.columns]


def _column(name: str, values: Sequence[Any]) -> Packed | None:
    return pack_exact(values) if name in EXACT else pack_drawn(values)


def _sum(values: Iterable[Any]) -> float | None:
    there = [value for value in values if isinstance(value, (int, float))]
    return float(sum(there)) if there else None


def _watched(trajectory: Trajectory, summary: dict[str, Any]) -> list[dict[str, Any]]:
    """The rules that ran along, as far as a page can repeat them exactly."""
    found = stored_rules(trajectory, summary)
    repeated = [one for one in found if one.name in on_page() and named_rule(one.name, **one.settings).rule == one.rule]
    return [{"rule": one.name, **one.settings} for one in repeated]
