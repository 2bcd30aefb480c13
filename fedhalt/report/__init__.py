"""Reports people open: recorded runs as one HTML file, or live in a browser."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .. import files
from ..check import FedhaltError
from .data import loaded, records
from .page import page


def report(paths: Iterable[Path], out: Path, title: str | None = None) -> dict[str, int]:
    """Writes one self-contained file about every run under these paths; says how many there are and how large it is."""
    paths = check_paths(paths)
    runs = [loaded(file, name) for file, name in records(paths).items()]
    if not runs:
        raise FedhaltError(f"no trajectory.jsonl under {', '.join(map(str, paths))}: `fedhalt run` records one")
    broken = [run["problem"] for run in runs if "problem" in run]
    if len(broken) == len(runs):
        raise FedhaltError(broken[0])
    made = page(title or _title(runs[0]["name"], len(runs)), {"live": False, "runs": runs}).encode()
    files.write(out, made)
    return {"runs": len(runs), "unreadable": len(broken), "bytes": len(made)}


def check_paths(paths: Iterable[Path]) -> list[Path]:
    """The paths, if all of them are there."""
    paths = list(paths)
    for path in paths:
        if not path.exists():
            raise FedhaltError(f"{path} does not exist: give run folders, folders of them, trajectories or CSV files")
    return paths


def _title(name: str, number: int) -> str:
    return name if number == 1 else f"{number} federated runs"
