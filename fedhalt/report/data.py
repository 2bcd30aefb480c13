"""Recorded runs as a page reads them: which files there are, and each as compact columns."""

from __future__ import annotations

import base64
import os
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import files, rules
from ..check import FedhaltError
from ..judge import Candidate, candidate, recorded
from ..rules.base import number
from ..trajectory import Trajectory

EXACT = tuple(dict.fromkeys(column for name in rules.RULES for column in rules.create(name).reads))
"""Columns that rules read: kept to the last bit, so that a page decides as Python does."""

FIRST = ("test_balanced_accuracy", "test_accuracy", "val_accuracy", "val_balanced_accuracy", "test_loss", "val_loss")
DRAWN = 8
"""Accuracies and losses, those of FIRST first, of which at most so many are kept: a page must stay small."""


def records(paths: Iterable[Path]) -> dict[Path, str]:
    """The recorded files under these paths, each with a short name that no other has."""
    found = list(dict.fromkeys(file for path in paths for file in _files(path)))
    short = [file.parent.name if file.name == "trajectory.jsonl" else file.name for file in found]
    return {
        file: name if name and short.count(name) == 1 else os.fspath(file)
        for file, name in zip(found, short, strict=True)
    }


def loaded(file: Path, name: str) -> dict[str, Any]:
    """A file as `described`; one that cannot be read is a run without rounds that says why."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a line that is being written is no news here
            trajectory = recorded(file)
    except (FedhaltError, OSError) as error:
        return {**described(Trajectory(), name), "problem": str(error)}
    return {**described(trajectory, name), "watched": _watched(file, trajectory)}


def described(trajectory: Trajectory, name: str) -> dict[str, Any]:
    """A run as plain data: its numbers as base64, everything else as it is."""
    rows, header = trajectory.rows, trajectory.header
    rounds = [row["round"] for row in rows]
    spec = header.get("spec")
    packed = {column: _packed([row[column] for row in rows], exact) for column, exact in _kept(trajectory)}
    traffic = [name for name in ("bytes_down", "bytes_up") if name in trajectory.columns]
    if traffic:
        packed["bytes"] = _packed([_sum(row[name] for name in traffic) for row in rows], exact=False)
    return {
        "name": name,
        "rounds": len(rounds) if rounds == list(range(1, len(rounds) + 1)) else rounds,
        "columns": {column: data for column, data in packed.items() if data is not None},
        "spec": spec if isinstance(spec, dict) else {},
        "watched": [],
    }


def _files(path: Path) -> Iterator[Path]:
    """The file itself, or the trajectory of every run folder below a folder."""
    if not path.is_dir():
        yield path
        return
    for folder, inside, names in os.walk(path):
        inside.sort()
        if "trajectory.jsonl" in names:
            inside.clear()  # what lies below a run folder is its own
            yield Path(folder) / "trajectory.jsonl"


def _kept(trajectory: Trajectory) -> list[tuple[str, bool]]:
    """The columns that a page uses, and whether to the last bit."""
    drawn = [name for name in trajectory.columns if "accuracy" in name or "loss" in name]
    drawn.sort(key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    exact = [name for name in EXACT if name in trajectory.columns]
    rest = [name for name in (*drawn[:DRAWN], "seconds") if name in trajectory.columns and name not in exact]
    return [*((name, True) for name in exact), *((name, False) for name in rest)]


def _packed(values: list[Any], exact: bool) -> dict[str, Any] | None:
    """A column's numbers, their places if some rounds have none, and where it stops being numbers."""
    places, numbers, bad = [], [], None
    for index, value in enumerate(values):
        if value is not None:
            try:
                numbers.append(number({"it": value}, "it", 0))
            except FedhaltError:
                bad = index
                break
            places.append(index)
    if not numbers and bad is None and not exact:
        return None
    with np.errstate(over="ignore"):
        data = np.array(numbers, dtype="<f8" if exact else "<f4").tobytes()
    made: dict[str, Any] = {"exact": exact, "data": base64.b64encode(data).decode()}
    if len(places) < len(values):
        made["at"] = places
    if bad is not None:
        made["bad"] = bad
    return made


def _sum(values: Iterable[Any]) -> float | None:
    there = [value for value in values if isinstance(value, (int, float))]
    return float(sum(there)) if there else None


def _watched(file: Path, trajectory: Trajectory) -> list[dict[str, Any]]:
    """The rules that ran along, as far as a page knows them: a run's summary or a stopper's header names them."""
    asked = trajectory.header.get("rule")
    settings = [asked] if isinstance(asked, dict) else []
    found = [made for made in map(_by_type, settings) if made is not None]
    try:
        summary = files.from_json((file.parent / "summary.json").read_text(encoding="utf-8"))
        named = [(rule["rule"], rule["threshold"], rule["patience"]) for rule in summary["rules"]]
    except (OSError, ValueError, KeyError, TypeError):
        named = []
    for name, threshold, patience in named if file.name == "trajectory.jsonl" else []:
        try:
            found.append(candidate(name, threshold=threshold, patience=patience))
        except FedhaltError:  # a rule of the user's own, or one without these settings
            continue
    listed = [{"rule": one.name, **one.settings} for one in found]
    return [one for index, one in enumerate(listed) if one not in listed[:index]]


def _by_type(data: dict[str, Any]) -> Candidate | None:
    """The named rule that a stopper's header describes, if a page can repeat it exactly."""
    try:
        rule = rules.from_json(data)
        for name in rules.RULES:
            takes = [key for key in ("threshold", "patience", "rounds") if key in data and key in rules.accepts(name)]
            made = candidate(name, **{key: data[key] for key in takes})
            if made.rule == rule:
                return made
    except FedhaltError:
        pass
    return None
