"""What is kept of a recorded run: one line with every rule's stop on its trajectory, and the curves that are drawn.

docs/results/SCALE/rows.csv and curves.csv beside it are all that tables and figures are drawn from, so they can be
drawn again, and looked at, without the runs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas
import torch

from fedhalt import Trajectory, files
from fedhalt.judge import judge
from fedhalt.spec import RunSpec

from .analysis import analysed
from .setting import RULES, Need, phi_of

IDENTITY = ("task", "method", "phi", "compat", "skew", "c", "lr", "seed", "model")
CURVES = ("distance", "update_norm", "val_loss", "val_accuracy", "test_accuracy", "test_balanced_accuracy")
LAST, SMOOTH = 10, 5
"""Rounds over which accuracy is also averaged, at the end of a run and up to a stop: a single round is noisy."""


class Stop(NamedTuple):
    """Where a rule ended a run, and how good the model was there, in percent."""

    round: int
    balanced: float
    plain: float
    smooth: float
    """Balanced accuracy, mean of the last five rounds up to the stop: a single round is noisy."""


Row = dict[str, Any]


def summarised(spec: RunSpec, record: Trajectory) -> Row:
    """A run as one flat line."""
    rows = record.rows
    row: Row = {"id": spec.id, **identity(spec), "rounds": len(rows), "cpu": processor()}
    row["diverged"] = int(not math.isfinite(rows[-1]["distance"]))
    row["seconds"] = statistics.fmean(each["seconds"] for each in rows)
    row["bytes"] = statistics.fmean(each["bytes_up"] + each["bytes_down"] for each in rows)
    scored = [each for each in rows if each.get("test_balanced_accuracy") is not None]
    if scored:
        best = max(scored, key=lambda each: each["test_balanced_accuracy"])
        tail = [each["test_balanced_accuracy"] for each in scored[-LAST:]]
        row |= {"final": 100 * scored[-1]["test_balanced_accuracy"], "final_plain": 100 * scored[-1]["test_accuracy"]}
        row |= {"last": 100 * statistics.fmean(tail), "best": 100 * best["test_balanced_accuracy"]}
        row |= {"best_plain": 100 * max(each["test_accuracy"] for each in scored), "best_round": best["round"]}
        for rule in RULES:
            name, r = _name(rule.name, **rule.settings), judge(spec.id, record, rule)["stop_round"]
            near = rows[max(0, r - SMOOTH) : r] if r else []
            row[name] = r
            row[f"{name} balanced"] = 100 * near[-1]["test_balanced_accuracy"] if r else None
            row[f"{name} plain"] = 100 * near[-1]["test_accuracy"] if r else None
            row[f"{name} smooth"] = 100 * mean([each["test_balanced_accuracy"] for each in near]) if r else None
    return row | analysed(record)


def processor() -> str:
    """On which kind of machine this is: another one rounds differently, and under skew such differences grow."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = dict.fromkeys(line.partition(":")[2].strip() for line in lines if line.startswith("model"))
    return " ".join([*list(model)[:2], torch.backends.cpu.get_cpu_capability()])


def identity(spec: RunSpec) -> Row:
    """The settings that tables are sorted by."""
    own = {"task": spec.data, "phi": phi_of(spec), "model": spec.model}
    return {name: own[name] if name in own else getattr(spec, name) for name in IDENTITY}


def stop(row: Row, rule: str, threshold: float, patience: int) -> Stop | None:
    """Where this rule ended the run of this line."""
    name = _name(rule, threshold=threshold, patience=patience)
    if row.get(name) is None:
        return None
    return Stop(int(row[name]), *(row[f"{name} {measure}"] for measure in ("balanced", "plain", "smooth")))


def answers(row: Row | None, need: Need) -> bool:
    """Whether this line says all that the item asks of the run."""
    if row is None:
        return False
    if row["rounds"] >= need.rounds or row["diverged"]:
        return True
    return bool(need.until) and all(row.get(_name(rule.name, **rule.settings)) is not None for rule in need.until)


class Results:
    """The lines and curves of a scale, by run id, in files that are replaced whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows: dict[str, Row] = {row["id"]: row for row in _read(folder / "rows.csv")}
        self.curves: dict[str, list[Row]] = {}
        for row in _read(folder / "curves.csv"):
            self.curves.setdefault(row["id"], []).append(row)

    def missing(self, needs: Iterable[Need]) -> list[Need]:
        return [need for need in needs if not self.has(need)]

    def has(self, need: Need) -> bool:
        found = self.rows.get(need.spec.id)
        drawn = not need.curve or len(self.curves.get(need.spec.id, ())) == (found or {}).get("rounds")
        return answers(found, need) and drawn

    def add(self, need: Need, record: Trajectory) -> bool:
        """Keeps a recorded run, if it is long enough for what is asked of it."""
        row = _plain(summarised(need.spec, record)) if record.rows else None
        if row is None or not answers(row, need):
            return False
        self.rows[need.spec.id] = row
        if need.curve:
            names = [name for name in CURVES if name in record.columns]
            self.curves[need.spec.id] = [
                _plain({"id": need.spec.id, "round": row["round"]} | {name: row[name] for name in names})
                for row in record.rows
            ]
        return True

    def save(self) -> None:
        """Sorted, so that the same runs make the same file; together with what another process added meanwhile."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with files.lock(self.folder, wait=True):
            there = Results(self.folder)
            self.rows = there.rows | self.rows
            self.curves = there.curves | self.curves
            _write(self.folder / "rows.csv", [self.rows[key] for key in sorted(self.rows)])
            _write(self.folder / "curves.csv", [row for key in sorted(self.curves) for row in self.curves[key]])

    def select(self, **wanted: Any) -> list[Row]:
        """The lines with these settings, by seed; a setting that is not given may be anything."""
        found = [row for row in self.rows.values() if all(row.get(name) == value for name, value in wanted.items())]
        return sorted(found, key=lambda row: (row["seed"], row["id"]))


def mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else math.nan


def spread(values: Sequence[float]) -> float:
    """The standard deviation over the seeds (n - 1)."""
    return statistics.stdev(values) if len(values) > 1 else math.nan


def _name(rule: str, threshold: float, patience: int) -> str:
    return f"{rule} {threshold:g}x{patience}"


def _plain(row: Row) -> Row:
    """As it will be read back: numbers of six digits."""
    return {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in row.items()}


def _read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    frame = pandas.read_csv(path).astype(object)
    found: list[Row] = frame.where(frame.notna(), None).to_dict("records")
    return found


def _write(path: Path, rows: list[Row]) -> None:
    if rows:
        files.write(path, pandas.DataFrame(rows).to_csv(index=False, float_format="%.6g").encode())
