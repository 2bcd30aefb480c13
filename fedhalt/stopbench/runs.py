"""Recorded runs as StopBench keeps them: what a rule may see, and apart from it what it may not."""

from __future__ import annotations

import gzip
import itertools
import math
import warnings
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from .. import files
from ..check import FedhaltError
from ..trajectory import Trajectory

SEEN = (
    "distance", "update_norm", "parameter_norm", "alignment", "lr", "cohort_size", "val_loss", "val_accuracy",
)  # fmt: skip
HIDDEN = "test_balanced_accuracy"
SUFFIX = ".safetensors.gz"
CLASSES = {"blood": 8, "bloodmnist": 8, "derma": 7, "dermamnist": 7, "path": 9, "pathmnist": 9, "digits": 10}
"""For chance, of the data sets that have a name here."""


@dataclass(frozen=True)
class Run:
    """One recorded run; `rows` is all that a rule is given."""

    name: str
    spec: Mapping[str, Any]
    rows: list[dict[str, Any]]
    accuracy: NDArray[np.float64]
    """Balanced test accuracy by round, as a share: for the score alone."""

    @property
    def task(self) -> str:
        return str(self.spec.get("data", ""))

    @cached_property
    def columns(self) -> frozenset[str]:
        """What was recorded in every round."""
        return frozenset.intersection(*(frozenset(row) for row in self.rows))

    @property
    def diverged(self) -> bool:
        """Whether it ended because its distance was no longer finite."""
        return not math.isfinite(self.rows[-1]["distance"])


def of_trajectory(name: str, record: Trajectory) -> Run:
    """A recorded run with everything that StopBench needs; it says what is missing."""
    if not len(record):
        raise FedhaltError(f"{name}: no round is recorded yet")
    there = [column for column in SEEN if column in record.columns]
    for needed in ("distance", HIDDEN):
        if needed not in record.columns:
            raise FedhaltError(f"{name}: {needed!r} is not recorded, without it no rule can be scored")
    if [row["round"] for row in record.rows] != list(range(1, len(record) + 1)):
        raise FedhaltError(f"{name}: some rounds are not recorded; StopBench needs every one from 1 on")
    accuracy = record.column(HIDDEN)
    if np.isnan(accuracy).any():
        raise FedhaltError(f"{name}: some rounds have no {HIDDEN}: record with evaluate_every 1")
    rows = []
    for row in record.rows:
        kept = {column: row[column] for column in ("round", *there) if row[column] is not None}
        if isinstance(row.get("cohort"), list):
            kept["cohort_size"] = len(row["cohort"])
        rows.append(kept)
    spec = record.header.get("spec")
    return Run(name, spec if isinstance(spec, dict) else {}, rows, accuracy)


def load(folder: Path) -> list[Run]:
    """The packed runs in a folder, or, where there are none, its run folders."""
    if not folder.is_dir():
        raise FedhaltError(f"{folder} is no folder of recorded runs")
    packed = sorted(folder.glob(f"*{SUFFIX}"))
    if packed:
        return [run for path in packed for run in unpack(path)]
    found = sorted(folder.glob("**/trajectory.jsonl"))
    if not found:
        raise FedhaltError(f"{folder} holds no packed runs (*{SUFFIX}) and no run folders (trajectory.jsonl)")
    runs = []
    for path in found:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a run that is being written has a half line
                record = Trajectory.load(path)
            runs.append(of_trajectory(path.parent.name, record))
        except FedhaltError as error:
            warnings.warn(f"left out: {error}", stacklevel=2)
    if not runs:
        raise FedhaltError(f"{folder}: none of its {len(found)} runs can be scored")
    return runs


def pack(runs: Iterable[Run], folder: Path) -> list[Path]:
    """Writes the runs as one small file per task, model and rate; single precision, which is enough to judge by."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for key, group in itertools.groupby(sorted(runs, key=lambda run: (_key(run), run.name)), _key):
        members = list(group)
        lengths = [len(run.rows) for run in members]
        columns = {column: _matrix([[row.get(column) for row in run.rows] for run in members]) for column in SEEN}
        columns[HIDDEN] = _matrix([list(run.accuracy) for run in members])
        about = files.to_json([{"name": run.name, "spec": run.spec} for run in members]).encode()
        made = safetensors.numpy.save({"about": np.frombuffer(about, np.uint8), "rounds": np.array(lengths), **columns})
        written.append(folder / f"{key}{SUFFIX}")
        files.write(written[-1], gzip.compress(made, mtime=0))
    return written


def unpack(path: Path) -> list[Run]:
    """The runs of a packed file, numbers as doubles; a value that was not recorded is left out of its row."""
    try:
        data = safetensors.numpy.load(gzip.decompress(path.read_bytes()))
        about, rounds = files.from_json(data["about"].tobytes().decode()), data["rounds"]
        columns = {name: data[name].astype(np.float64) for name in (*SEEN, HIDDEN)}
    except (OSError, EOFError, ValueError, KeyError, zlib.error, safetensors.SafetensorError) as error:
        raise FedhaltError(f"{path} is not a file of packed runs: {error}") from None
    found = []
    for index, (each, length) in enumerate(zip(about, rounds, strict=True)):
        cells = {name: columns[name][index, :length].tolist() for name in SEEN}
        there = [name for name in SEEN if not all(map(np.isnan, cells[name]))]
        rows = [{"round": r + 1, **{name: cells[name][r] for name in there}} for r in range(length)]
        found.append(Run(each["name"], each["spec"], rows, columns[HIDDEN][index, :length]))
    return found


def _key(run: Run) -> str:
    model = str(run.spec.get("model", "")).partition(":")[0] or "model"
    return f"{run.task.rpartition('/')[2] or 'run'}-{model}-{run.spec.get('lr', 0):g}"


def _matrix(rows: list[list[Any]]) -> NDArray[np.float32]:
    """Runs by rounds; NaN after a run's end and where nothing was recorded."""
    made = np.full((len(rows), max(map(len, rows))), np.nan, dtype=np.float32)
    for index, row in enumerate(rows):
        with np.errstate(over="ignore"):
            made[index, : len(row)] = [np.nan if value is None else value for value in row]
    return made
