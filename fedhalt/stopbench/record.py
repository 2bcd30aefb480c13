"""How the set is made: trains the runs that no folder holds to the end, and packs all that are there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..trajectory import Trajectory
from ..trial import Following
from .runs import SUFFIX, Run, of_trajectory, pack, unpack


def missing(needs: Sequence[Any], out: Path, folder: Path) -> list[Any]:
    """The runs that are neither packed nor recorded to their last round."""
    there = {run.name for run in _packed(folder)}
    return [need for need in needs if need.spec.id not in there and not _ended(out / need.spec.id, need.rounds)]


def packed(needs: Sequence[Any], out: Path, folder: Path, said: Callable[[str], None]) -> None:
    """Packs what is recorded, cut to the rounds of the set, with what was packed before; other runs leave the set."""
    before = {run.name: run for run in _packed(folder)}
    found = []
    for need in needs:
        name = need.spec.id
        if _ended(out / name, need.rounds):
            record = Trajectory.load(out / name / "trajectory.jsonl")
            found.append(of_trajectory(name, Trajectory(record.rows[: need.rounds], header=record.header)))
        elif name in before:
            found.append(before[name])
    written = pack(found, folder)
    for path in set(folder.glob(f"*{SUFFIX}")) - set(written):
        path.unlink()
    size = sum(path.stat().st_size for path in written) / 1e6
    said(f"{len(found)} of {len(needs)} runs packed into {len(written)} files, {size:.1f} MB: {folder}")


def _packed(folder: Path) -> list[Run]:
    return [run for path in sorted(folder.glob(f"*{SUFFIX}")) for run in unpack(path)]


def _ended(folder: Path, rounds: int) -> bool:
    """Whether its last round is there; a run that diverged has no more rounds to give."""
    row = Following(folder / "trajectory.jsonl").look()
    return bool(row) and (row["round"] >= rounds or not math.isfinite(row["distance"]))
