"""Reports: recorded runs as one HTML file, or live in a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from ... import files
from ...errors import FedhaltError
from ..recorded import find_records
from .data import written
from .document import page_of_json
from .glossary import METHODS


def report(
    paths: Iterable[Path], out: Path, title: str | None = None, each: Callable[..., Iterable[Any]] = map
) -> dict[str, int]:
    """Writes one self-contained HTML file about every run under these paths.

    Args:
        paths: Run folders, folders of run folders, trajectories, or CSV files.
        out: The file to write.
        title: The title of the page. Default: derived from the runs.
        each: `map`, or that of a pool of processes, for a great many runs.

    Returns:
        The numbers of `runs` and of `unreadable` runs, and the size in `bytes`.

    Raises:
        FedhaltError: If a path does not exist, or there is no readable run.

    Examples:
        >>> from fedhalt.views import report
        >>> import tempfile, fedhalt
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run = fedhalt.Trajectory.create(f"{folder}/trajectory.jsonl")
        ...     run.append({"distance": 1.0})
        ...     report([Path(folder)], Path(f"{folder}/report.html"))["runs"]
        1
    """
    paths = check_paths(paths)
    records = find_records(paths)
    if not records:
        raise FedhaltError(f"no trajectory.jsonl under {', '.join(map(str, paths))}: `fedhalt run` records one")
    texts, runs = zip(*each(written, list(map(Path, records.values())), list(records)), strict=True)
    broken = [run["problem"] for run in runs if "problem" in run]
    if len(broken) == len(runs):
        raise FedhaltError(broken[0])
    made = page_of_json(title or _title(runs), f'{{"live": false, "runs": [{", ".join(texts)}]}}').encode()
    files.write(out, made)
    return {"runs": len(runs), "unreadable": len(broken), "bytes": len(made)}


def check_paths(paths: Iterable[Path]) -> list[Path]:
    """Returns the paths after checking that all of them exist."""
    paths = list(paths)
    for path in paths:
        if not path.exists():
            raise FedhaltError(f"{path} does not exist: give run folders, folders of them, trajectories or CSV files")
    return paths


def _title(runs: Sequence[dict[str, Any]]) -> str:
    """What was trained, in words; the name of the only run where that is not recorded."""
    data, method = ({run["spec"].get(key) for run in runs} for key in ("data", "method"))
    (which,) = method if len(method) == 1 else (None,)
    named = METHODS.get(str(which), str(which)) if which else ""
    on = f" on {next(iter(data))}" if len(data) == 1 and None not in data else ""
    if len(runs) == 1:
        return f"{named}{on}" if named and on else str(runs[0]["name"])
    what = f" of {named}" if named else ""
    return f"{len(runs)} runs{what}{on}" if what or on else f"{len(runs)} federated runs"
