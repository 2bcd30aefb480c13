"""The record of a run: a few numbers per round, append-only, readable after a kill."""

from __future__ import annotations

import csv
import errno
import io
import numbers
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from . import files
from .check import FedhaltError, MissingExtra, known

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

FORMAT, VERSION = "trajectory", 1


class Trajectory:
    """Columns per round, in memory and, if it has a path, in a `trajectory.jsonl`.

    The file is a header line and one line of JSON per round, each written whole. `rows` holds a
    mapping per round; a column that a round did not record is None there.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]] = (), header: Mapping[str, Any] | None = None) -> None:
        self.header: dict[str, Any] = dict(header or {})
        self.path: Path | None = None
        self._columns: dict[str, None] = {"round": None}
        self._rows: list[dict[str, Any]] = []
        for row in rows:
            self.append(row)

    @classmethod
    def create(cls, path: str | os.PathLike[str], **header: Any) -> Trajectory:
        """A new file with its header line; an existing one is refused."""
        path = Path(path)
        if path.exists():
            raise FedhaltError(f"{path} exists already: remove it, name another, or continue it by Trajectory.resume")
        trajectory = cls(header=header)
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, trajectory._head())
        trajectory.path = path
        return trajectory

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trajectory:
        """Reads a file; a half-written last line is dropped with a warning, anything else wrong is an error.

        To append to a file, open it by `resume`.
        """
        path = Path(path)
        lines = path.read_bytes().split(b"\n")
        last = lines.pop()  # empty, unless the last line was not finished
        if last and _parsed(last) is not None:
            lines.append(last)
        elif last and lines:
            warnings.warn(f"{path}: line {len(lines) + 1} is half-written and was left out", stacklevel=2)
        trajectory = cls(header=_header(path, lines))
        for index, line in enumerate(lines[1:], start=2):
            row = _parsed(line)
            if row is None:
                raise FedhaltError(f"{path}, line {index}: not a JSON object: {_excerpt(line)}")
            try:
                trajectory.append(row)
            except FedhaltError as error:
                raise FedhaltError(f"{path}, line {index}: {error}") from None
        return trajectory

    @classmethod
    def resume(cls, path: str | os.PathLike[str], after: int | None = None) -> Trajectory:
        """Opens a file to append to, cut back to the rounds up to `after` and to its last whole line."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the half-written line is cut off here, which is the remedy
            trajectory = cls.load(path)
        if after is not None:
            trajectory._rows = [row for row in trajectory._rows if row["round"] <= after]
        whole = trajectory._head() + b"".join(_line(row) for row in trajectory._rows)
        if Path(path).read_bytes() != whole:
            files.write(Path(path), whole)
        trajectory.path = Path(path)
        return trajectory

    def append(self, row: Mapping[str, Any]) -> None:
        """Records one round, in memory and as one line in the file."""
        entry = self._entry(row)
        if self.path is not None:
            _append_line(self.path, _line(entry))
        if not entry.keys() <= self._columns.keys():
            self._columns |= dict.fromkeys(entry)
        self._rows.append(entry)

    @property
    def columns(self) -> list[str]:
        """The names of all columns, `round` first."""
        return list(self._columns)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One mapping per round with every column; None where a round did not record it."""
        width, columns = len(self._columns), self._columns
        if all(len(row) == width for row in self._rows):
            return self._rows
        return [{column: row.get(column) for column in columns} for row in self._rows]

    def column(self, name: str) -> Any:
        """A column as float64 (NaN where nothing was recorded), or as a list if it is not numeric."""
        known("column", name, self.columns)
        values = [row.get(name) for row in self._rows]
        if all(value is None or isinstance(value, numbers.Real) for value in values):
            return np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)
        return values

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame with one row per round."""
        try:
            import pandas
        except ImportError:
            raise MissingExtra("to_pandas", "pandas", "report") from None
        return pandas.DataFrame(self.rows, columns=self.columns)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """The table as CSV text, also written to `path` if one is given; lists are JSON in their cell."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows:
            writer.writerow([files.to_json(cell) if isinstance(cell, (list, dict)) else cell for cell in row.values()])
        if path is not None:
            files.write(Path(path), text.getvalue().encode())
        return text.getvalue()

    def plot(self) -> Figure:
        """A matplotlib figure: distance, growth with the paper's threshold, and accuracy by round."""
        from .pictures import curves

        figure: Figure = curves(self)
        return figure

    def _repr_html_(self) -> str:
        """What a notebook shows: curves, the stop of the paper's rule, the last round."""
        from .report.notebook import trajectory_html

        return trajectory_html(self)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return f"Trajectory({len(self)} rounds: {', '.join(self.columns[1:])})"

    def _entry(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The row as it will be written, `round` first."""
        last = self._rows[-1]["round"] if self._rows else 0
        r = row.get("round", last + 1)
        if type(r) is not int and (isinstance(r, bool) or not isinstance(r, numbers.Integral)):
            raise FedhaltError(f"round {r!r}: rounds are whole numbers, counted from 1")
        if r <= last:
            raise FedhaltError(f"round {r} after round {last}: rounds count from 1 and only grow")
        entry = {"round": None, **row}  # in the first place
        entry["round"] = int(r)
        for name, value in entry.items():
            if type(value) is int and not -(2**63) <= value < 2**63:
                raise FedhaltError(f"{name!r} is a whole number beyond 64 bits, too large to be recorded")
        return entry

    def _head(self) -> bytes:
        return _line({"fedhalt": FORMAT, "version": VERSION, **self.header})


def _append_line(path: Path, line: bytes) -> None:
    """All of the line or, on a full disk, none of it."""
    with open(path, "ab", buffering=0) as file:
        end = file.tell()
        try:
            if file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(path))
        except OSError:
            file.truncate(end)
            raise


def _line(entry: Mapping[str, Any]) -> bytes:
    return files.to_json(entry).encode() + b"\n"


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        entry = files.from_json(line.decode())
    except ValueError:
        return None
    return entry if isinstance(entry, dict) else None


def _header(path: Path, lines: list[bytes]) -> dict[str, Any]:
    header = _parsed(lines[0]) if lines else None
    if header is None or header.pop("fedhalt", None) != FORMAT:
        found = f"line 1 is {_excerpt(lines[0])}" if lines else "it has no finished line"
        raise FedhaltError(f"{path} is not a fedhalt trajectory: {found}")
    version = header.pop("version", None)
    if version != VERSION:
        raise FedhaltError(f"{path} is a trajectory of version {version!r}; this fedhalt reads version {VERSION}")
    return header


def _excerpt(line: bytes) -> str:
    return repr(line[:60].decode(errors="replace")) + ("…" if len(line) > 60 else "")
