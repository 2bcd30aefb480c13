"""`fedhalt stopbench --record` and `--list`: the runs of a StopBench that are there, and those that are missing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from ..paper.setting import NETWORK, Need, Scale
from ..stopbench import runs, setting, setting2
from ..stopbench.record import Part, missing, overview, pack_recorded
from ..tuning.plans import Execution
from ..views.terminal.display import make_table
from .reproduce import train


def record_missing(
    number: int, out: Path, results: Path, packed: Path, parallel: int | None, data_root: str | None,
    say: Callable[[str], None],
) -> None:  # fmt: skip
    """Trains what is missing, then packs what did not come with the package, also after Ctrl-C."""
    execution = Execution(out=str(out), parallel=parallel or os.cpu_count() or 1, data_root=data_root)
    there = {run.name for run in runs.load_packed(packaged(number))}
    ours = [need for need in needs_of(number, results) if need.spec.id not in there]
    left = missing(ours, out, packed)
    try:
        if left:
            train(left, None, execution, Console(stderr=True, highlight=False), "run the same command to resume")
    finally:
        if ours:
            pack_recorded(ours, out, packed, say)


def list_runs(number: int, out: Path, results: Path, packed: Path, console: Console) -> None:
    """What is recorded, what is left, and how long that takes."""
    names = ("task", "model", "rate", "runs", "recorded", "left", "core hours")
    made = make_table(names, left=names[:3])
    rows = overview(needs_of(number, results), out, packaged(number), packed)
    counts = (sum(row.runs for row in rows), sum(row.recorded for row in rows), sum(row.left for row in rows))
    for row in [*rows, Part("all", "", "", *counts, hours=sum(row.hours for row in rows))]:
        made.add_row(*map(str, row[:-1]), f"{row.hours:.1f}")
    console.print(made)
    if number == 2 and _network(results) is None:
        text = (
            "not in the list yet: the fine-tuned network, whose rates fedhalt reproduce pilot --scale network chooses"
        )
        console.print(text, soft_wrap=True)


def packaged(number: int) -> Path:
    """The packed runs that come with the package."""
    return runs.PACKED if number == 1 else runs.PACKED2


def needs_of(number: int, results: Path) -> list[Need]:
    """The runs of this StopBench, in the order in which they are trained."""
    return list(setting.needs()) if number == 1 else list(setting2.needs(_network(results)))


def _network(results: Path) -> Scale | None:
    """The network scale with the rates of its pilot; None until that is recorded."""
    from ..paper import pilot, reproduce

    found = reproduce.results_in(results, NETWORK)
    return pilot.rated(found, NETWORK) if pilot.choose(found, NETWORK) else None
