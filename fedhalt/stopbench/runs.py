"""Recorded runs as StopBench keeps them: what a rule may see and, separately, what it may not."""

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
from ..errors import FedhaltError
from ..records.trajectory import Trajectory

SEEN = (
    "distance", "update_norm", "parameter_norm", "alignment", "lr", "cohort_size", "val_loss", "val_accuracy",
)  # fmt: skip
MORE = (
    "drift_5", "drift_10", "drift_20", "turn", "cohort_squares", "train_loss_before", "train_loss_after",
    "distance_average", "val_loss_average", "val_accuracy_average",
)  # fmt: skip
"""What runs with an average (StopBench 2) recorded besides."""
LATE = (*MORE, "val_loss", "val_accuracy")
"""Of these runs, the columns that some rounds have no value of."""
EXACT = ("distance", "distance_average")
"""Small changes of these count, so of these runs they are packed in whole single precision."""
BITS = 12
"""How many binary digits of the fractions of all other columns of these runs are packed: errors below 0.025%."""
HIDDEN = "test_balanced_accuracy"
AVERAGED = "test_balanced_accuracy_average"
SUFFIX = ".safetensors.gz"
LARGEST = 2**28
"""The largest size of an unpacked file, in bytes; those of StopBench have a hundredth of that."""
PACKED = Path(__file__).parent / "trajectories"
"""The packed runs that come with the package; they are never changed."""
PACKED2 = Path(__file__).parent / "trajectories2"
"""Those of StopBench 2, as far as they are recorded."""
CLASSES = {
    "blood": 8, "bloodmnist": 8, "derma": 7, "dermamnist": 7, "path": 9, "pathmnist": 9, "digits": 10, "fashion": 10,
}  # fmt: skip
"""For chance, of the data sets that have a name here."""


@dataclass(frozen=True)
class Run:
    """One recorded run. A rule receives only `rows`.

    Attributes:
        name: The name of the run.
        spec: Its specification.
        rows: The columns that a rule may see, by round.
        accuracy: The balanced test accuracy by round, as a fraction. Only the score uses it.
        average: The same of the average of the last models, if it was evaluated.

    Examples:
        >>> from fedhalt.stopbench import Run
        >>> import numpy as np
        >>> run = Run("mine", {"data": "digits"}, [{"round": 1, "distance": 1.0}], np.array([0.5]))
        >>> run.task, run.diverged
        ('digits', False)
    """

    name: str
    spec: Mapping[str, Any]
    rows: list[dict[str, Any]]
    accuracy: NDArray[np.float64]
    """The balanced test accuracy by round, as a fraction. Only the score uses it."""
    average: NDArray[np.float64] | None = None
    """The same of the average of the last models, if it was evaluated."""

    @property
    def task(self) -> str:
        return str(self.spec.get("data", ""))

    @cached_property
    def columns(self) -> frozenset[str]:
        """The columns that every round recorded."""
        return frozenset.intersection(*(frozenset(row) for row in self.rows))

    @property
    def diverged(self) -> bool:
        """Whether it ended because its distance was no longer finite."""
        return not math.isfinite(self.rows[-1]["distance"])


def of_trajectory(name: str, record: Trajectory) -> Run:
    """Converts a recorded run into what StopBench needs; an error says what is missing."""
    if not len(record):
        raise FedhaltError(f"{name}: no round is recorded yet")
    averaged = AVERAGED in record.columns
    there = [column for column in (*SEEN, *(MORE if averaged else ())) if column in record.columns]
    for needed in ("distance", HIDDEN):
        if needed not in record.columns:
            raise FedhaltError(f"{name}: {needed!r} is not recorded, and no rule can be scored without it")
    if [row["round"] for row in record.rows] != list(range(1, len(record) + 1)):
        raise FedhaltError(f"{name}: some rounds are not recorded; StopBench needs every one from 1 on")
    accuracy = _between(record.column(HIDDEN)) if averaged else record.column(HIDDEN)
    if np.isnan(accuracy).any():
        raise FedhaltError(f"{name}: some rounds have no {HIDDEN}: record with evaluate_every 1")
    rows = []
    for row in record.rows:
        late = LATE if averaged else ()
        kept = {column: row[column] for column in ("round", *there) if row[column] is not None or column in late}
        if isinstance(row.get("cohort"), list):
            kept["cohort_size"] = len(row["cohort"])
        rows.append(kept)
    spec = record.header.get("spec")
    average = _between(record.column(AVERAGED)) if averaged else None
    return Run(name, spec if isinstance(spec, dict) else {}, rows, accuracy, average)


def _between(accuracy: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fills rounds that were not evaluated: linearly between two evaluations, and with the nearest one at the ends.

    All NaN if no round was evaluated.
    """
    there = np.flatnonzero(~np.isnan(accuracy))
    return np.interp(np.arange(len(accuracy)), there, accuracy[there]) if len(there) else accuracy


def load(folder: Path) -> list[Run]:
    """Reads the packed runs in a folder or, if there are none, its run folders.

    Args:
        folder: The folder.

    Returns:
        The runs.

    Raises:
        FedhaltError: If the folder holds no run that can be scored.

    Examples:
        >>> from fedhalt.stopbench.runs import PACKED, load
        >>> len(load(PACKED))
        552
    """
    if not folder.is_dir():
        raise FedhaltError(f"{folder} is not a folder of recorded runs")
    packed = load_packed(folder)
    if packed:
        return packed
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


def load_packed(*folders: Path) -> list[Run]:
    """Reads the packed runs of several folders. If names are equal, the run of the later folder counts."""
    found = {run.name: run for folder in folders for path in sorted(folder.glob(f"*{SUFFIX}")) for run in unpack(path)}
    return sorted(found.values(), key=_place)


def pack(runs: Iterable[Run], folder: Path) -> list[Path]:
    """Writes the runs as one small file per task, model and learning rate, in single precision, which is enough to
    judge. Runs with an average have twice the columns: their files are also by skew, and most columns are rounded.

    Packed files of other runs are removed from the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, group in itertools.groupby(sorted(runs, key=_place), _file_name):
        members = list(group)
        lengths = [len(run.rows) for run in members]
        columns: dict[str, NDArray[Any]] = {
            column: _matrix([[row.get(column) for row in run.rows] for run in members]) for column in SEEN
        }
        columns[HIDDEN] = _matrix([list(run.accuracy) for run in members])
        averages = [run.average for run in members if run.average is not None]
        if averages:  # then all have one, by the name of their file
            columns |= {column: _matrix([[row.get(column) for row in run.rows] for run in members]) for column in MORE}
            columns[AVERAGED] = _matrix([list(average) for average in averages])
            columns = {name: _planes(made if name in EXACT else _rounded(made)) for name, made in columns.items()}
        about = files.to_json([{"name": run.name, "spec": run.spec} for run in members]).encode()
        made = safetensors.numpy.save({"about": np.frombuffer(about, np.uint8), "rounds": np.array(lengths), **columns})
        written.append(folder / name)
        files.write(written[-1], gzip.compress(made, mtime=0))
    for path in set(folder.glob(f"*{SUFFIX}")) - set(written):
        path.unlink()
    return written


def unpack(path: Path) -> list[Run]:
    """Reads the runs of a packed file, with numbers as doubles. A value that was not recorded is left out of its
    row.
    """
    try:
        data = safetensors.numpy.load(_unzipped(path))
        about, rounds = files.from_json(data["about"].tobytes().decode()), data["rounds"]
        names = (*SEEN, HIDDEN, *((*MORE, AVERAGED) if AVERAGED in data else ()))
        columns = {name: _whole(data[name]).astype(np.float64) for name in names}
        _check(about, rounds, columns)
    except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error, safetensors.SafetensorError) as error:
        raise FedhaltError(f"{path} is not a file of packed runs: {error}") from None
    found = []
    for index, (each, length) in enumerate(zip(about, rounds.tolist(), strict=True)):
        cells = {name: columns[name][index, :length].tolist() for name in columns if name not in (HIDDEN, AVERAGED)}
        there = [name for name in cells if not all(map(math.isnan, cells[name]))]
        for name in set(there).intersection(LATE if AVERAGED in columns else ()):
            cells[name] = [None if math.isnan(value) else value for value in cells[name]]
        rows = [{"round": r + 1, **{name: cells[name][r] for name in there}} for r in range(length)]
        average = columns[AVERAGED][index, :length] if AVERAGED in columns else None
        found.append(Run(each["name"], each["spec"], rows, columns[HIDDEN][index, :length], average))
    return found


def _unzipped(path: Path) -> bytes:
    """The content of the file. A few bytes can unpack to gigabytes, so there is a limit."""
    with gzip.open(path) as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"it unfolds to more than {LARGEST // 2**20} MB")
    return data


def _check(about: Any, rounds: NDArray[Any], columns: Mapping[str, NDArray[np.float64]]) -> None:
    """Every run has a name, a spec and a row in each column as long as it says."""
    if not isinstance(about, list) or not all(map(_describes, about)):
        raise ValueError("runs without a name or a spec")
    if rounds.dtype.kind not in "iu" or rounds.shape != (len(about),):
        raise ValueError(f"{len(about)} runs, but the numbers of their rounds are {rounds.dtype} {rounds.shape}")
    for name, column in columns.items():
        if column.ndim != 2 or len(column) != len(about):
            raise ValueError(f"{len(about)} runs, but {name} is of shape {column.shape}")
        if about and not 1 <= rounds.min() <= rounds.max() <= column.shape[1]:
            raise ValueError(f"{rounds.min()} to {rounds.max()} rounds, but {name} is of shape {column.shape}")
    scored = [columns[name] for name in (HIDDEN, AVERAGED) if name in columns]
    for index, length in enumerate(rounds.tolist()):
        lacking = any(np.isnan(column[index, :length]).any() for column in scored)
        if lacking or np.isnan(columns["distance"][index, :length]).all():
            raise ValueError(f"the run {about[index]['name']} lacks its distance or its {HIDDEN}")


def _describes(each: Any) -> bool:
    return isinstance(each, dict) and isinstance(each.get("name"), str) and isinstance(each.get("spec"), dict)


def _place(run: Run) -> tuple[str, str]:
    """The position of a run among others: by its file, then by its name."""
    return _file_name(run), run.name


def _file_name(run: Run) -> str:
    model = str(run.spec.get("model", "")).partition(":")[0] or "model"
    skew = "" if run.average is None else f"-{run.spec.get('skew', 'any')}"
    return f"{run.task.rpartition('/')[2] or 'run'}-{model}-{run.spec.get('lr', 0):g}{skew}{SUFFIX}"


def _planes(values: NDArray[np.float32]) -> NDArray[Any]:
    """First all first bytes, then all second ones, and so on: a third smaller once it is gzipped."""
    return np.ascontiguousarray(values.astype("<f4").view(np.uint8).reshape(*values.shape, 4).transpose(2, 0, 1))


def _whole(packed: NDArray[Any]) -> NDArray[Any]:
    """The numbers that `_planes` took apart; others as they are."""
    if packed.dtype != np.uint8 or packed.ndim != 3 or len(packed) != 4:
        return packed
    return np.ascontiguousarray(packed.transpose(1, 2, 0)).view("<f4")[..., 0]


def _rounded(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The nearest numbers with few binary digits, which gzip packs well; zero, infinity and NaN stay."""
    fraction, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.round(fraction * np.float32(2**BITS)), exponent - BITS), dtype=np.float32)


def _matrix(rows: list[list[Any]]) -> NDArray[np.float32]:
    """Runs by rounds; NaN after a run's end and where nothing was recorded."""
    made = np.full((len(rows), max(map(len, rows))), np.nan, dtype=np.float32)
    for index, row in enumerate(rows):
        with np.errstate(over="ignore"):
            made[index, : len(row)] = [np.nan if value is None else value for value in row]
    return made
