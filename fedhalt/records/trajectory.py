"""The record of a run: a few numbers per round, append-only, readable after a kill."""

from __future__ import annotations

import csv
import io
import itertools
import numbers
import os
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import files
from ..errors import FedhaltError, MissingExtra, require_one_of
from . import lines, reading
from .table import Table

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


class Trajectory:
    """The recorded columns of every round, in memory and, if it has a path, in a `trajectory.jsonl`.

    The file has a header line and one line of JSON per round, each with a checksum.

    Args:
        rows: One mapping of columns per round. Without `round`, rounds count from 1.
        header: Facts about the run, such as its specification.

    Raises:
        FedhaltError: If rounds do not increase, or a column has a reserved name.

    Examples:
        >>> from fedhalt import Trajectory
        >>> import fedhalt
        >>> run = fedhalt.Trajectory({"distance": r**0.5} for r in range(1, 41))
        >>> run
        Trajectory(40 rounds: distance)
        >>> fedhalt.stop_round(fedhalt.GrowthRate(0.05, 5), run)
        15
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]] = (), header: Mapping[str, Any] | None = None) -> None:
        self.header: dict[str, Any] = dict(header or {})
        self.path: Path | None = None
        self.table = Table()
        """The rows, column by column."""
        self.commits: dict[int, dict[str, Any]] = {}
        """By round, what was appended as its `commit`."""
        self._resumed = False
        """Whether the file was there before and nothing was appended to it yet."""
        for row in rows:
            self.append(row)

    @classmethod
    def create(cls, path: str | os.PathLike[str], **header: Any) -> Trajectory:
        """Creates a new file with its header line.

        Args:
            path: The file.
            **header: Facts about the run.

        Returns:
            An empty trajectory. Every `append` writes a line.

        Raises:
            FedhaltError: If the file exists.
        """
        path = Path(path)
        if path.exists():
            raise FedhaltError(f"{path} exists already: remove it, name another, or continue it with Trajectory.resume")
        trajectory = cls(header=header)
        files.make_folder(path.parent)
        files.write(path, lines.to_header(header))
        trajectory.path = path
        return trajectory

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Trajectory:
        """Reads a file. A half-written last line is dropped with a warning. To append, use `resume`.

        Args:
            path: The file.

        Returns:
            The trajectory.

        Raises:
            FedhaltError: If the file is damaged or not a trajectory.

        Examples:
            >>> from fedhalt import Trajectory
            >>> import tempfile
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     made = Trajectory.create(f"{folder}/run.jsonl", data="digits")
            ...     made.append({"distance": 1.0})
            ...     read = Trajectory.load(f"{folder}/run.jsonl")
            >>> read.header["data"], read.rows
            ('digits', [{'round': 1, 'distance': 1.0}])
        """
        found = reading.read(Path(path))
        if found.problem:
            raise FedhaltError(found.problem)
        if found.half:
            warnings.warn(f"{path}: line {found.lines + 1} is half-written and was left out", stacklevel=2)
        return cls._of(found)

    @classmethod
    def salvage(cls, path: str | os.PathLike[str]) -> tuple[Trajectory, str]:
        """Reads the rounds before the first damaged line.

        Args:
            path: The file.

        Returns:
            The trajectory, and what is wrong with the damaged line; empty if nothing is.
        """
        files.require_regular(Path(path))
        found = reading.read(Path(path))
        return cls._of(found), found.problem

    @classmethod
    def resume(cls, path: str | os.PathLike[str], after: int | None = None) -> Trajectory:
        """Opens a file to append to, after its last intact line or after a given round.

        Nothing changes before the first `append`. Later rounds are then moved to a file whose name ends in
        `.after-round-5`, with a warning.

        Args:
            path: The file.
            after: The last round to keep. Default: all of them.

        Returns:
            The trajectory.

        Raises:
            FedhaltError: If the file is damaged before that round.
        """
        files.require_regular(Path(path))
        found = reading.read(Path(path))
        if found.problem and (after is None or not len(found.table) or found.table.last < after):
            raise FedhaltError(found.problem)
        trajectory = cls._of(found)
        if after is not None:
            trajectory.table = found.table.until(after)
            trajectory.commits = {r: commit for r, commit in found.commits.items() if r <= after}
        trajectory.path, trajectory._resumed = Path(path), True
        return trajectory

    @classmethod
    def _of(cls, found: reading.Found) -> Trajectory:
        trajectory = cls(header=found.header)
        trajectory.table, trajectory.commits = found.table, found.commits
        return trajectory

    def append(self, row: Mapping[str, Any], commit: Mapping[str, Any] | None = None) -> None:
        """Records one round, in memory and as one line in the file.

        Args:
            row: The columns of the round.
            commit: Further data for the line in the file, which `rows` does not contain.

        Raises:
            FedhaltError: If the round does not increase, or a column has a reserved name.
        """
        entry = self.table.checked(row)
        if self.path is not None:
            self._cut_back()
            line = lines.to_line(entry if commit is None else {**entry, lines.COMMIT: commit})
            try:
                lines.append(self.path, line)
            except OSError:
                self._resumed = True  # a disk that took half a line may not have let go of it: the next one looks
                raise
        if commit is not None:
            self.commits[entry["round"]] = dict(commit)
        self.table.append(entry)

    def sync(self) -> None:
        """Returns once what was appended would survive a power cut."""
        if self.path is not None:
            files.sync(self.path)

    @property
    def columns(self) -> list[str]:
        """The names of all columns, `round` first."""
        return list(self.table.names)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One mapping per round with every column; None where a round did not record it."""
        return list(self.table)

    def column(self, name: str) -> Any:
        """One column of all rounds.

        Args:
            name: The column.

        Returns:
            A float64 array (NaN where nothing was recorded), or a list if the column is not numeric.

        Raises:
            FedhaltError: If no round recorded the column.

        Examples:
            >>> from fedhalt import Trajectory
            >>> Trajectory([{"distance": 1.0}, {"distance": 2.0}]).column("distance")
            array([1., 2.])
        """
        require_one_of("column", name, self.columns)
        values = self.table.values(name)
        if all(value is None or isinstance(value, numbers.Real) for value in values):
            return np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)
        return values

    def to_pandas(self) -> pandas.DataFrame:
        """The record as a pandas DataFrame.

        Returns:
            A DataFrame with one row per round.

        Raises:
            MissingExtra: If pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise MissingExtra("to_pandas", "pandas", "report") from None
        return pandas.DataFrame(self.rows, columns=self.columns)

    def to_csv(self, path: str | os.PathLike[str] | None = None) -> str:
        """The record as CSV. Lists become JSON in their cell.

        Args:
            path: A file to write as well.

        Returns:
            The CSV text.

        Examples:
            >>> from fedhalt import Trajectory
            >>> print(Trajectory([{"distance": 1.0}]).to_csv(), end="")
            round,distance
            1,1.0
        """
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        for row in self.rows:
            writer.writerow([files.to_json(cell) if isinstance(cell, (list, dict)) else cell for cell in row.values()])
        if path is not None:
            files.write(Path(path), text.getvalue().encode())
        return text.getvalue()

    def plot(self) -> Figure:
        """Plots distance, growth with the paper's threshold, and accuracy by round.

        Returns:
            A matplotlib figure.

        Raises:
            MissingExtra: If matplotlib is not installed.
        """
        from ..views.plots import curves

        figure: Figure = curves(self)
        return figure

    def _repr_html_(self) -> str:
        """What a notebook shows: curves, the stop of the paper's rule, the last round."""
        from ..views.notebook import trajectory_html

        return trajectory_html(self)

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        return f"Trajectory({len(self)} rounds: {', '.join(self.columns[1:])})"

    def _cut_back(self) -> None:
        """Before the first line is appended to an existing file: moves aside what does not belong to this
        trajectory.
        """
        if self.path is None or not self._resumed:
            return
        found, content = reading.read(self.path), self.path.read_bytes()
        whole_lines = content.split(b"\n")
        unfinished = whole_lines.pop()
        if unfinished and not found.half and not found.problem:
            whole_lines.append(unfinished)
        if len(whole_lines) <= len(self):
            raise FedhaltError(f"{self.path} has lost rounds since it was opened; nothing was appended")
        kept, later = whole_lines[: len(self) + 1], whole_lines[len(self) + 1 :]
        last = self.table.last
        aside = _free_name(self.path, f"{self.path.name}.after-round-{last}")
        if later:
            files.write(aside, b"\n".join([kept[0], *later, b""]))
        whole = b"".join(line + b"\n" for line in kept)
        if found.version < lines.VERSION:
            whole = lines.to_header(self.header) + b"".join(map(lines.to_line, self.table.entries()))
        if found.version < lines.VERSION or len(content) != len(whole):
            files.write(self.path, whole)
        self._resumed = False
        if later:
            warnings.warn(f"{self.path}: what it held after round {last} is now in {aside.name}", stacklevel=4)


def _free_name(path: Path, name: str) -> Path:
    numbered = (path.with_name(f"{name}.{k}") for k in itertools.count(2))
    return next(found for found in itertools.chain([path.with_name(name)], numbered) if not found.exists())
