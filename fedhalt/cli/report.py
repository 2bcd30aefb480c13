"""`fedhalt report`: recorded runs as one HTML file."""

from __future__ import annotations

import multiprocessing
import signal
import tempfile
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import FedhaltError
from ..measure.distance import MEASURED
from ..records.checkpoints import Checkpoints
from ..records.judging import nearest_column, with_column
from ..records.opening import recorded
from ..records.trajectory import Trajectory
from ..views.page import check_paths, report
from .options import AreCheckpoints, Exclude, Include, RecordedPaths, Start, refuse_without_checkpoints

MANY = 1000
"""From so many runs on, several processes save more time than it takes to start them."""


def report_command(
    paths: RecordedPaths,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="The file to write.")] = Path("report.html"),
    title: Annotated[
        str | None,
        typer.Option(metavar="TITLE", help="Title of the page. Default: what was trained, or how many runs."),
    ] = None,
    column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Read this recorded column instead of distance.")
    ] = None,
    checkpoints: AreCheckpoints = False,
    start: Start = None,
    include: Include = None,
    exclude: Exclude = None,
) -> None:
    """Write one HTML file about recorded runs; it opens from disk and needs no network.

    PATH is a run folder, a folder of run folders, a trajectory or a CSV file;
    with --checkpoints, a folder of models saved by any tool.

    fedhalt report runs/ -o report.html
    """
    if not checkpoints:
        refuse_without_checkpoints({"--start": start, "--include": include, "--exclude": exclude})
    check_paths(paths)
    with tempfile.TemporaryDirectory() as folder:
        if checkpoints:
            if column is not None:
                raise FedhaltError("--column names a recorded column; --checkpoints measures the distance itself")
            made = {path: Trajectory(Checkpoints(path, MEASURED, start, include, exclude).rows()) for path in paths}
            paths = _written(made, Path(folder))
        elif column is not None:
            paths = _written({path: with_column(str(path), recorded(path), column) for path in paths}, Path(folder))
        else:
            _suggest_column(paths)
        made_page = report(paths, out, title, each=_map_in_processes)
    count = "1 run" if made_page["runs"] == 1 else f"{made_page['runs']} runs"
    unreadable = f", {made_page['unreadable']} of them unreadable" if made_page["unreadable"] else ""
    typer.echo(f"{out}: {count}{unreadable}, {made_page['bytes'] / 1e6:.2f} MB")


def _map_in_processes(function: Callable[..., Any], *columns: list[Any]) -> Iterable[Any]:
    """`map`; from a great many runs on, in one process per core."""
    if len(columns[0]) < MANY:
        return map(function, *columns)
    context = multiprocessing.get_context("spawn")  # the same on every system
    ignored = (signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for this process, which ends the others
    with ProcessPoolExecutor(mp_context=context, initializer=signal.signal, initargs=ignored) as pool:
        try:
            return list(pool.map(function, *columns, chunksize=100))
        except BrokenProcessPool:
            raise FedhaltError(
                "a process that reads runs was killed; with too little memory, report fewer runs at a time"
            ) from None


def _written(made: dict[Path, Trajectory], folder: Path) -> list[Path]:
    """Records as files, each in a folder that is called as its source is."""
    written = []
    for number, (path, trajectory) in enumerate(made.items()):
        if not len(trajectory):
            raise FedhaltError(f"{path} holds no round to show")
        name = path.resolve().stem if path.is_file() else path.resolve().name
        record = Trajectory.create(folder / str(number) / name / "trajectory.jsonl", **trajectory.header)
        for row in trajectory.rows:
            record.append(row)
        written.append(folder / str(number))
    return written


def _suggest_column(paths: list[Path]) -> None:
    """Without a distance there is nothing to judge; a column that is nearly called so is likely to be it."""
    for path in (path for path in paths if path.suffix == ".csv"):
        columns = recorded(path).columns
        near = nearest_column("distance", columns)
        if "distance" not in columns and near:
            raise FedhaltError(f"{path} has no column 'distance': add --column {near}")
