"""How the set is made: trains the runs that no folder holds to the end, and packs all that are there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..trajectory import Trajectory
from ..trial import Following
from .runs import of_trajectory, pack


def missing(needs: Sequence[Any], out: Path) -> list[Any]:
    """The runs that are not recorded to their last round; one that diverged has no more rounds to give."""
    return [need for need in needs if not _ended(out / need.spec.id, need.rounds)]


def packed(needs: Sequence[Any], out: Path, folder: Path, said: Callable[[str], None]) -> None:
    """Packs the finished runs, each cut to the rounds of the set, and removes packed files that no run is in now."""
    found = []
    for need in needs:
        if _ended(out / need.spec.id, need.rounds):
            record = Trajectory.load(out / need.spec.id / "trajectory.jsonl")
            found.append(of_trajectory(need.spec.id, Trajectory(record.rows[: need.rounds], header=record.header)))
    written = pack(found, folder)
    for path in set(folder.glob("*.npz")) - set(written):
        path.unlink()
    size = sum(path.stat().st_size for path in written) / 1e6
    said(f"{len(found)} of {len(needs)} runs packed into {len(written)} files, {size:.1f} MB: {folder}")


def _ended(folder: Path, rounds: int) -> bool:
    row = Following(folder / "trajectory.jsonl").look()
    return bool(row) and (row["round"] >= rounds or not math.isfinite(row["distance"]))
