"""`fedhalt stopbench --record`: trains the runs of StopBench that are missing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from ..stopbench import runs, setting
from ..stopbench.record import missing, pack_recorded
from ..tuning.plans import Execution
from .reproduce import train


def record_missing(
    out: Path, packed: Path, parallel: int | None, data_root: str | None, say: Callable[[str], None]
) -> None:
    """Trains what is missing, then packs what did not come with the package, also after Ctrl-C."""
    execution = Execution(out=str(out), parallel=parallel or os.cpu_count() or 1, data_root=data_root)
    there = {run.name for run in runs.load_packed(runs.PACKED)}
    ours = [need for need in setting.needs() if need.spec.id not in there]
    left = missing(ours, out, packed)
    try:
        if left:
            train(left, None, execution, Console(stderr=True, highlight=False), "run the same command to resume")
    finally:
        if ours:
            pack_recorded(ours, out, packed, say)
