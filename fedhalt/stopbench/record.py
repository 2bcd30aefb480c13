"""How a set is made: which runs no folder holds to the end, and how all that are there are packed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

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
            run = of_trajectory(name, Trajectory(record.rows[: need.rounds], header=record.header))
            if need.average is not None and run.average is None:
                said(f"left out: {name} was recorded without an average; move {out / name} away to record it again")
                continue
            found.append(run)
        elif name in before:
            found.append(before[name])
    written = pack(found, folder)
    size = sum(path.stat().st_size for path in written) / 1e6
    said(f"{len(found)} of {len(needs)} runs packed into {len(written)} files, {size:.1f} MB: {folder}")


class Part(NamedTuple):
    """The runs of one task, model and rate: how many there are, are recorded, are left, and how long those take."""

    task: str
    model: str
    rate: str
    runs: int
    recorded: int
    left: int
    hours: float


def overview(needs: Sequence[Need], out: Path, *folders: Path) -> list[Part]:
    """Which runs are recorded and which are left, in the order of the list; hours are those of one core."""
    from ..paper.setting import cost  # needs torch, scores do not

    left = {need.spec.id for need in missing(needs, out, *folders)}
    parts: dict[tuple[str, str, str], list[Need]] = {}
    for need in needs:
        spec = need.spec
        site = " by site" if spec.skew == "natural" else ""
        parts.setdefault((spec.data + site, spec.model.partition(":")[0], f"{spec.lr:g}"), []).append(need)
    found = []
    for part, members in parts.items():
        open_ = [need for need in members if need.spec.id in left]
        hours = sum(map(cost, open_)) / 3600
        found.append(Part(*part, len(members), len(members) - len(open_), len(open_), hours))
    return found


def _ended(folder: Path, rounds: int) -> bool:
    """Whether its last round is there; a run that diverged has no more rounds to give."""
    row = TrajectoryTail(folder / "trajectory.jsonl").poll()
    return bool(row) and (row["round"] >= rounds or not math.isfinite(row["distance"]))
