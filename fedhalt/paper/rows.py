"""What is kept of a recorded run: one line with every rule's stop on its trajectory, and the curves that are drawn.

recorded/SCALE/rows.csv and curves.csv beside it, which come with the package, are all that tables and figures are drawn
from, so they can be drawn again, and looked at, without the runs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from .. import files
from ..errors import FedhaltError, MissingExtra
from ..records.judging import judge
from ..records.trajectory import Trajectory
from ..rules import NamedRule, named_rule
from ..simulation.spec import RunSpec
from .analysis import analysed
from .setting import RULES, VALIDATION, Need, phi_of

try:
    import pandas
except ImportError:
    raise MissingExtra("fedhalt.paper", "pandas", "report") from None

RECORDED = Path(__file__).parent / "recorded"
"""The rows and curves that come with the package, a folder for each scale; they are only read."""
IDENTITY = ("task", "method", "phi", "compat", "skew", "c", "lr", "seed", "model", "gradient")
COLUMNS: dict[str, dict[str, Any]] = {
    "rows.csv": {"id": str, "seed": (int, float), "rounds": (int, float), "diverged": (int, float)},
    "curves.csv": {"id": str, "round": (int, float)},
}
"""What every line has."""
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
    tested = [each for each in rows if each.get("test_balanced_accuracy") is not None]
    if tested:
        best = max(tested, key=lambda each: each["test_balanced_accuracy"])
        tail = [each["test_balanced_accuracy"] for each in tested[-LAST:]]
        row |= {"final": 100 * tested[-1]["test_balanced_accuracy"], "final_plain": 100 * tested[-1]["test_accuracy"]}
        row |= {"last": 100 * statistics.fmean(tail), "best": 100 * best["test_balanced_accuracy"]}
        row |= {"best_plain": 100 * max(each["test_accuracy"] for each in tested), "best_round": best["round"]}
        for rule in RULES:
            name, r = _name(rule.name, **rule.settings), _stop_round(rule, spec, record)
            near = [each for each in tested if r and r - SMOOTH < each["round"] <= r]
            row[name] = r
            row[f"{name} balanced"] = 100 * near[-1]["test_balanced_accuracy"] if near else None
            row[f"{name} plain"] = 100 * near[-1]["test_accuracy"] if near else None
            row[f"{name} smooth"] = 100 * mean([each["test_balanced_accuracy"] for each in near]) if near else None
    return row | analysed(record)


def _stop_round(rule: NamedRule, spec: RunSpec, record: Trajectory) -> int | None:
    """Where a rule stops. Patience is in rounds, as in the paper; a validation rule counts evaluations, which may be
    fewer."""
    if rule.name in VALIDATION:
        patience = max(1, rule.settings["patience"] // spec.evaluate_every)
        rule = named_rule(rule.name, **{**rule.settings, "patience": patience})
    return judge(spec.id, record, rule).stop_round


def processor() -> str:
    """On which kind of machine this is: another one rounds differently, and under skew such differences grow."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = dict.fromkeys(line.partition(":")[2].strip() for line in lines if line.startswith("model"))
    return " ".join([*list(model)[:2], torch.backends.cpu.get_cpu_capability()])


def identity(spec: RunSpec) -> Row:
    """The settings that tables are sorted by; as in a spec, a gradient by autograd is left out."""
    own = {"task": spec.data, "phi": phi_of(spec)}
    found = {name: own[name] if name in own else getattr(spec, name) for name in IDENTITY}
    return {name: value for name, value in found.items() if (name, value) != ("gradient", "autograd")}


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
    """The lines and curves of a scale, by run id: those of a folder, over those that are there `before`.

    Its runs were trained by this gradient; None is autograd, which a line does not name.
    """

    def __init__(self, folder: Path, before: Path | None = None, gradient: str | None = None) -> None:
        self.folder, self.gradient = folder, gradient
        self.rows, self.curves = _load(before) if before else ({}, {})
        rows, curves = _load(folder)
        self.own = set(rows)
        """What is this folder's: only that is written."""
        self.rows |= rows
        self.curves |= curves

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
        self.own.add(need.spec.id)
        if need.curve:
            names = [name for name in need.curve if name in record.columns]
            self.curves[need.spec.id] = [
                _plain({"id": need.spec.id, "round": row["round"]} | {name: row.get(name) for name in names})
                for row in record.rows
            ]
        return True

    def save(self) -> None:
        """Sorted, so that the same runs make the same file; together with what another process added meanwhile."""
        if not self.own:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with files.Lock(self.folder, wait=True):
            rows, curves = _load(self.folder)
            rows |= {key: self.rows[key] for key in self.own}
            curves |= {key: self.curves[key] for key in self.own if key in self.curves}
            _write(self.folder / "rows.csv", [rows[key] for key in sorted(rows)])
            _write(self.folder / "curves.csv", [row for key in sorted(curves) for row in curves[key]])
        self.own |= set(rows)
        self.rows |= rows
        self.curves |= curves

    def select(self, **wanted: Any) -> list[Row]:
        """The lines with these settings, by seed; others may be anything, but the gradient is the scale's."""
        wanted = {"gradient": self.gradient, **wanted}
        found = [row for row in self.rows.values() if all(row.get(name) == value for name, value in wanted.items())]
        return sorted(found, key=lambda row: (row["seed"], row["id"]))


def scored(curve: Sequence[Row]) -> tuple[list[int], list[float]]:
    """The rounds of a curve that were evaluated, and their balanced accuracy in percent."""
    known = [row for row in curve if row["test_balanced_accuracy"] is not None]
    return [row["round"] for row in known], [100 * row["test_balanced_accuracy"] for row in known]


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


def _load(folder: Path) -> tuple[dict[str, Row], dict[str, list[Row]]]:
    """Rows and curves of a folder, by run id."""
    curves: dict[str, list[Row]] = {}
    for row in _read(folder / "curves.csv"):
        curves.setdefault(row["id"], []).append(row)
    return {row["id"]: row for row in _read(folder / "rows.csv")}, curves


def _read(path: Path) -> list[Row]:
    if not path.exists():
        return []
    try:
        frame = pandas.read_csv(path).astype(object)
    except ValueError as error:  # a row of other length, no text, nothing at all
        raise FedhaltError(f"{path} is not a table of rows: {str(error).strip()}") from None
    for column, kind in COLUMNS[path.name].items():
        if column not in frame or not all(isinstance(value, kind) and value == value for value in frame[column]):
            raise FedhaltError(f"{path} is not a table of rows: some have no {column}")
    rows = frame.where(frame.notna(), None).to_dict("records")
    return [{str(name): value for name, value in row.items()} for row in rows]


def _write(path: Path, rows: list[Row]) -> None:
    if rows:
        files.write(path, pandas.DataFrame(rows).to_csv(index=False, float_format="%.6g").encode())
