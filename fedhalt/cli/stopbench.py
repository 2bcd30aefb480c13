"""`fedhalt stopbench`: stopping rules against each other on recorded runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from . import files
from .check import FedhaltError, known, parsed, whole
from .stopbench import bench, draw, runs
from .stopbench.entries import ENTRIES
from .stopbench.score import LEVELS


def stopbench_command(
    rule: Annotated[list[str] | None, typer.Option(help=f"Rules to score: {', '.join(ENTRIES)}. Default: all.")] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--runs", help="Recorded runs, packed or as run folders. Default: the checkout's."),
    ] = None,
    tune: Annotated[str, typer.Option(help="The task that settings are chosen on; the others decide.")] = "blood",
    by: Annotated[
        str | None, typer.Option(help="Also apart by a field of the runs: data, model, method, skew, lr, seed.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="Write table, scores, curves and pictures here; docs/results/stopbench is ours.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The scores as one object on standard output.")] = False,
    record: Annotated[bool, typer.Option("--record", help="First train and pack the runs that are missing.")] = False,
    out: Annotated[Path, typer.Option(help="With --record: folder of run folders.")] = Path("runs/paper"),
    parallel: Annotated[str | None, typer.Option(help="With --record: runs at the same time.")] = None,
    data_root: Annotated[str | None, typer.Option(help="With --record: folder of the data files.")] = None,
) -> None:
    """Score stopping rules on recorded runs: accuracy given up against rounds used, and screening.

    fedhalt stopbench
    fedhalt stopbench --rule growth exponent
    fedhalt stopbench --runs my-runs --tune blood
    """
    asked = [known("rule", name, ENTRIES) for name in rule or []]
    console = Console(highlight=False, width=None if Console().is_terminal else 200)
    if record and folder is not None:
        raise FedhaltError(f"--record trains the runs of StopBench itself: leave out --runs {folder}")
    if record:
        _record(out, parallel, data_root)
    found = runs.load(folder or packed_folder())
    if by is not None:
        bench.fields(found, by)  # before the work, not after it
    if results is not None:
        results.mkdir(parents=True, exist_ok=True)
    names = asked or [name for name in ENTRIES if bench.readable(name, found)]
    if not asked and len(names) < len(ENTRIES):
        left = ", ".join(name for name in ENTRIES if name not in names)
        Console(stderr=True).print(f"left out, because not every run recorded what they read: {left}", markup=False)
    measured = bench.measured(found, names, tune)
    rows = bench.scores(measured)
    controls = bench.on_controls(measured)
    if results is not None:
        for path in draw.written(rows, bench.curves(measured), controls, results):
            Console(stderr=True).print(f"written: {path}", markup=False, soft_wrap=True)
    apart = bench.by(measured, by) if by is not None else {}
    if as_json:
        typer.echo(files.to_json({"levels": list(LEVELS), "scores": rows, "controls": controls, "by": apart}))
        return
    _show(rows, controls, console)
    if apart:
        title = f"the deciding runs by {by}, at that setting: share of the rounds used, regret in points"
        _print(title, *draw.by_table(apart), console)


def _show(rows: list[dict[str, Any]], controls: dict[str, dict[str, int]], console: Console) -> None:
    for part in dict.fromkeys(row["part"] for row in rows):
        title = f"{draw.heading(rows, part)}: regret in points at a mean cost of 10 to 70 % of the rounds"
        _print(title, *draw.table(rows, part), console)
    title = "runs that were made: where each rule stops them at its setting nearest to a cost of 30 % on the tuned part"
    _print(title, *draw.control_table(controls), console)
    better = ", ".join(bench.recommended(rows)) or "none"
    text = f"better than the paper's rule at every cost, with the intervals apart: {better}"
    console.print(text, markup=False, soft_wrap=True)


def _print(title: str, header: list[str], cells: list[list[str]], console: Console) -> None:
    made = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left", title_style="")
    for index, name in enumerate(header):
        made.add_column(name, justify="left" if index == 0 else "right", overflow="fold")
    for row in cells:
        made.add_row(*row)
    console.print(made)
    console.print()


def packed_folder() -> Path:
    return files.checkout("experiments/stopbench") / "experiments" / "stopbench" / "trajectories"


def _record(out: Path, parallel: str | None, data_root: str | None) -> None:
    """Trains what is missing, then packs what is there, also after Ctrl-C."""
    from .cli_reproduce import train
    from .reproduce import part
    from .stopbench.record import missing, packed

    setting = part("setting", "stopbench")
    needs = list(setting.needs())
    number = whole("parallel", parsed(parallel) or parallel) if parallel is not None else os.cpu_count() or 1
    settings = {"rounds": setting.ROUNDS, "out": str(out), "parallel": number, "data_root": data_root}
    left, console = missing(needs, out, packed_folder()), Console(stderr=True, highlight=False)
    try:
        if left:
            train(left, None, settings, console, "the same command goes on")
    finally:
        packed(needs, out, packed_folder(), lambda text: console.print(text, markup=False, soft_wrap=True))
