"""How the set is made: trains the runs that no folder holds to the end, and packs all that are there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..records.tail import TrajectoryTail
from ..records.trajectory import Trajectory
from .runs import Run, load_packed, of_trajectory, pack

if TYPE_CHECKING:
    from ..paper.setting import Need


def missing(needs: Sequence[Need], out: Path, *folders: Path) -> list[Need]:
    """The runs that are neither packed in one of the folders nor recorded to their last round."""
    there = {run.name for run in load_packed(*folders)}
    return [need for need in needs if need.spec.id not in there and not _ended(out / need.spec.id, need.rounds)]


def pack_recorded(needs: Sequence[Need], out: Path, folder: Path, said: Callable[[str], None]) -> None:
    """Packs what is recorded, cut to the rounds of the set, with what was packed before; other runs leave the set."""
    before = {run.name: run for run in load_packed(folder)}
    found: list[Run] = []
    for need in needs:
        name = need.spec.id
        if _ended(out / name, need.rounds):
            record = Trajectory.load(out / name / "trajectory.jsonl")
            found.append(of_trajectory(name, Trajectory(record.rows[: need.rounds], header=record.header)))
        elif name in before:
            found.append(before[name])
    written = pack(found, folder)
    size = sum(path.stat().st_size for path in written) / 1e6
    said(f"{len(found)} of {len(needs)} runs packed into {len(written)} files, {size:.1f} MB: {folder}")


def _ended(folder: Path, rounds: int) -> bool:
    """Whether its last round is there; a run that diverged has no more rounds to give."""
    row = TrajectoryTail(folder / "trajectory.jsonl").poll()
    return bool(row) and (row["round"] >= rounds or not math.isfinite(row["distance"]))
