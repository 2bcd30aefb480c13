"""Opens a recorded run: a trajectory, a run folder, or a CSV file."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from .. import files
from ..errors import FedhaltError
from . import checkpoints
from .trajectory import Trajectory


def recorded(path: Path) -> Trajectory:
    """Reads a recorded run.

    Args:
        path: A trajectory, a run folder, or a CSV file.

    Returns:
        The record.

    Raises:
        FedhaltError: If there is no record, or it is damaged.

    Examples:
        >>> from fedhalt.records import recorded
        >>> import tempfile
        >>> from pathlib import Path
        >>> from fedhalt import Trajectory
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = Trajectory([{"distance": 1.0}, {"distance": 2.0}]).to_csv(f"{folder}/run.csv")
        ...     print(recorded(Path(f"{folder}/run.csv")))
        Trajectory(2 rounds: distance)
    """
    if path.suffix in checkpoints.SUFFIXES:
        raise FedhaltError(f"{path} is a saved model; give the folder of all of them with --checkpoints")
    if path.is_dir():
        if not (path / "trajectory.jsonl").exists():
            inside = sorted(path.glob("*/trajectory.jsonl"))
            if inside:
                raise FedhaltError(
                    f"{path} holds {len(inside)} run folders, not one: give one of them, {inside[0].parent}"
                )
            raise FedhaltError(f"{path} holds no trajectory.jsonl; for a folder of saved models add --checkpoints")
        path = path / "trajectory.jsonl"
        files.require_regular(path)
    return Trajectory.load(path) if _is_json(path) else from_csv(path)


def _is_json(path: Path) -> bool:
    """Whether a file is a trajectory rather than CSV. A pipe, which can be read only once, is taken for a
    trajectory.
    """
    if path.suffix == ".jsonl" or not path.is_file():
        return True
    with open(path, "rb") as file:
        return file.read(1) == b"{"


def from_csv(path: Path) -> Trajectory:
    """Reads a CSV file with a header line. Empty cells become None, numbers become numbers, everything else stays
    text.
    """
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


def _cell(name: str, cell: str) -> Any:
    cell = cell.strip()
    if not cell:
        return None
    try:
        number = float(cell)
    except ValueError:
        return cell
    return int(number) if name.strip() == "round" and number.is_integer() else number
