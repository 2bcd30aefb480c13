"""Judging recorded runs again: every file, every rule, every combination of its settings."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import checkpoints, rules
from .check import FedhaltError, known
from .rules import Rule, Status
from .trajectory import Trajectory


@dataclass(frozen=True)
class Candidate:
    """A rule under its command-line name with the settings that were asked for."""

    name: str
    settings: dict[str, Any]
    rule: Rule

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{key}={value}" for key, value in self.settings.items())])


def candidate(name: str, **settings: Any) -> Candidate:
    """One rule by its command-line name: `candidate("growth", threshold=0.1)`."""
    rule = rules.create(name, **settings)
    shown = {key: getattr(rule, key) for key in ("threshold", "patience", "rounds") if hasattr(rule, key)}
    return Candidate(name, shown, rule)


def candidates(names: Sequence[str], settings: Mapping[str, Sequence[Any]]) -> list[Candidate]:
    """Every rule with every combination of the given settings that it takes."""
    for name in names:
        known("rule", name, rules.RULES)
    for setting, values in settings.items():
        if values and not any(setting in rules.accepts(name) for name in names):
            raise FedhaltError(f"{' and '.join(names)} takes no {setting}, but {setting} {values[0]} was given")
    made = []
    for name in names:
        taken = {key: values for key, values in settings.items() if values and key in rules.accepts(name)}
        for values in itertools.product(*taken.values()):
            made.append(candidate(name, **dict(zip(taken, values, strict=True))))
    return [one for index, one in enumerate(made) if one not in made[:index]]


def recorded(path: Path) -> Trajectory:
    """A recorded run: a trajectory, a folder that holds one, or a CSV file."""
    if path.suffix in checkpoints.SUFFIXES:
        raise FedhaltError(f"{path} is a saved model; give the folder of all of them with --checkpoints")
    if path.is_dir():
        if not (path / "trajectory.jsonl").exists():
            inside = sorted(path.glob("*/trajectory.jsonl"))
            if inside:
                raise FedhaltError(f"{path} holds {len(inside)} run folders: give them, {path}/*/")
            raise FedhaltError(f"{path} holds no trajectory.jsonl; for a folder of saved models add --checkpoints")
        path = path / "trajectory.jsonl"
    with open(path, "rb") as file:
        is_json = path.suffix == ".jsonl" or file.read(1) == b"{"
    return Trajectory.load(path) if is_json else from_csv(path)


def from_csv(path: Path) -> Trajectory:
    """A CSV file with a header line; empty cells are None, numbers are numbers, the rest is text."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        lines = csv.reader(io.StringIO(text), strict=True)
        names = next(lines, None)
        if not names:
            raise FedhaltError(f"{path} is empty: a CSV file with a 'distance' column was expected")
        if len(set(names)) < len(names):
            raise FedhaltError(f"{path} has two columns of the same name: {', '.join(names)}")
        trajectory = Trajectory()
        for cells in lines:
            if not cells:
                continue
            if len(cells) != len(names):
                raise FedhaltError(f"{path}, line {lines.line_num}: {len(cells)} cells, but {len(names)} columns")
            try:
                trajectory.append({name.strip(): _cell(name, cell) for name, cell in zip(names, cells, strict=True)})
            except FedhaltError as error:
                raise FedhaltError(f"{path}, line {lines.line_num}: {error}") from None
        return trajectory
    except (csv.Error, UnicodeDecodeError) as error:
        raise FedhaltError(f"{path} is not a CSV file: {error}") from None


def judge(file: str, trajectory: Trajectory, candidate: Candidate, column: str | None = None) -> dict[str, Any]:
    """Where this rule stops this run, as one flat object."""
    rows, first = trajectory.rows, next(iter(candidate.rule.reads), None)
    if column and rows:
        known(f"column of {file}", column, trajectory.columns)
    for needed in candidate.rule.reads:
        wanted = column if column and needed == first else needed
        if rows and wanted not in trajectory.columns:
            there = ", ".join(name for name in trajectory.columns if name != "round")
            raise FedhaltError(f"{file}: {candidate.name} reads {wanted!r}, which is not recorded; recorded: {there}")
    if column and first:
        rows = [{**row, first: row[column]} for row in rows]
    try:
        index, end = _end(rules.replay(candidate.rule, rows))
    except FedhaltError as error:
        raise FedhaltError(f"{file}: {error}") from None
    stop = end if end and end.stop else None
    return {
        "file": file,
        "rule": candidate.name,
        "threshold": candidate.settings.get("threshold"),
        "patience": candidate.settings.get("patience"),
        "stop_round": stop.round if stop else None,
        "rounds": rows[-1]["round"] if rows else 0,  # a round that failed was not recorded, but it took place
        "used": stop.round / rows[-1]["round"] if stop else 1.0,
        "reason": stop.reason if stop else "",
        "exponent": end.exponent if end else None,  # where it never stops, of the last round
        "motion": end.motion if end else "",
        "metrics": metrics(trajectory.rows[index]) if stop else {},
        **({"budget": candidate.settings["rounds"]} if "rounds" in candidate.settings else {}),
        **({"checkpoint": rows[index]["checkpoint"]} if stop and "checkpoint" in rows[index] else {}),
    }


def metrics(row: Mapping[str, Any]) -> dict[str, float]:
    """The recorded numbers of a round."""
    numbers = (int, float)
    return {key: value for key, value in row.items() if key != "round" and isinstance(value, numbers)}


def _end(statuses: Iterator[Status]) -> tuple[int, Status | None]:
    """The first round that stops, or the last one."""
    end: tuple[int, Status | None] = (0, None)
    for end in enumerate(statuses):
        if end[1].stop:
            break
    return end


def _cell(name: str, cell: str) -> Any:
    cell = cell.strip()
    if not cell:
        return None
    try:
        number = float(cell)
    except ValueError:
        return cell
    return int(number) if name.strip() == "round" and number.is_integer() else number
