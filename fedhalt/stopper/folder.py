"""The folder that `EarlyStopper.save` writes: a sealed state, the arrays it names, and the record it belongs to."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import files
from ..errors import FedhaltError
from ..measure import tensors
from ..records.trajectory import Trajectory

STATE = "stopper.json"
OURS = re.compile("(start|previous|update|finite|average|drift)(-.+)?-[0-9a-f]{32}[.]safetensors")
"""The names of the files with arrays: what they hold, and the digest."""


def write_state(folder: Path, saved: Mapping[str, Any]) -> None:
    """Commits what was saved, then drops the arrays that it no longer names."""
    text = files.to_json(saved)
    sealed = files.to_json({"fedhalt": "stopper", "version": 1, "digest": files.digest(text.encode()), "saved": text})
    files.write(folder / STATE, f"{sealed}\n".encode(), private=True)
    needed = {*saved["arrays"].values(), *saved.get("tail", {}).get("files", {}).values()}
    for file in folder.glob("*-*.safetensors"):
        if OURS.fullmatch(file.name) and file.name not in needed:
            file.unlink(missing_ok=True)


def read_state(path: Path) -> dict[str, Any]:
    """What was saved, if nothing of it was changed."""
    if not path.exists():
        raise FedhaltError(f"no stopper was saved in {path.parent}: {path.name} is missing")
    content = files.read(path)
    try:
        sealed = files.from_json(content.decode())
    except ValueError as error:
        raise FedhaltError(f"{path} is damaged: {error}") from None
    if not isinstance(sealed, dict) or sealed.get("fedhalt") != "stopper" or sealed.get("version") != 1:
        raise FedhaltError(f"{path} was not written by this version of fedhalt's EarlyStopper.save")
    text = sealed.get("saved")
    if not isinstance(text, str) or files.digest(text.encode(errors="surrogatepass")) != sealed.get("digest"):
        raise FedhaltError(f"{path} is damaged: its digest does not match its content")
    with files.taken_from(path):
        saved: dict[str, Any] = files.from_json(text)
    return saved


def kept_or_written(folder: Path, kind: str, arrays: Mapping[str, Any], file: str | None) -> str:
    """The name of the file that holds these arrays; one that is there from an earlier save is not written again."""
    return file if file is not None and (folder / file).exists() else tensors.write(folder, kind, arrays)


def read_arrays(folder: Path, file: str) -> dict[str, Any]:
    """The arrays of a file that the state names, wherever that name points."""
    return tensors.read(folder / os.path.basename(file))


def resume_trajectory(path: str | os.PathLike[str], folder: Path, saved: Mapping[str, Any], r: int) -> Trajectory:
    """The record as it was at the save, in round r; refused if it lacks rounds or belongs to another stopper."""
    if not Path(path).exists():
        raise FedhaltError(f"the trajectory {path} is gone, which {folder} names: load(folder, trajectory=…)")
    trajectory = Trajectory.resume(path, after=r)
    # where rounds fail, as in a federation, fewer are recorded than the last number says
    rows = trajectory.rows
    last = rows[-1]["round"] if rows else 0
    if last != r or len(rows) != saved.get("recorded", len(rows)):
        raise FedhaltError(
            f"the trajectory {path} holds {len(rows)} rounds up to round {r}, not all that were saved: it has lost "
            "some, or belongs to another stopper"
        )
    if saved.get("row") and row_digest(rows[-1]) != saved["row"]:
        raise FedhaltError(
            f"round {last} in the trajectory {path} is not the one that was saved: it belongs to another stopper"
        )
    return trajectory


def row_digest(row: Mapping[str, Any]) -> str:
    """Tells the last round of this record from that of another one with as many rounds."""
    return files.digest(files.to_json({name: row[name] for name in sorted(row) if row[name] is not None}).encode())
