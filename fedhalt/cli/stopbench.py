"""`fedhalt stopbench`: compares stopping rules on recorded runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from .. import files
from ..errors import FedhaltError, require_one_of
from ..stopbench import bench, draw, runs
from ..stopbench.entries import ENTRIES
from ..stopbench.pairs import ENTRIES2
from ..stopbench.score import LEVELS
from ..views.terminal.display import make_console
from .options import Wide
from .types import COUNT, ListOf, OneOf, flat


def stopbench_command(
    rule: Annotated[
        list[Any] | None,
        typer.Option(click_type=ListOf(OneOf("rule", ENTRIES2)), help=f"Rules: {', '.join(ENTRIES2)}. Default: all."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--runs", help="Recorded runs, packed or as run folders. Default: those in the package."),
    ] = None,
    tune: Annotated[
        str, typer.Option(metavar="TASK", help="Choose settings on this task and compare rules on the others.")
    ] = "blood",
    by: Annotated[
        str | None,
        typer.Option(
            metavar="FIELD", help="Also break down by a field of the runs: data, model, method, skew, lr, seed."
        ),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(help="Write tables, scores and figures to stopbench2/ (set 1: stopbench/) in this folder."),
    ] = None,
    wide: Wide = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as one object.")] = False,
    number: Annotated[
        int | None,
        typer.Option(
            "--set",
            min=1,
            max=2,
            help="StopBench 1, or 2: rules with the model they ship. Default: 2; 1 for --runs without averages.",
        ),
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="What is recorded and what is left, with core hours.")] = False,
    record: Annotated[
        bool, typer.Option("--record", help="Train missing runs first, and pack them into --results.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="With --record: folder of run folders. Default: runs/paper; set 2: runs/stopbench2."),
    ] = None,
    parallel: Annotated[
        int | None,
        typer.Option(click_type=COUNT, help="With --record: runs to train at the same time. Default: one per core."),
    ] = None,
    data_root: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="With --record: folder of the data files.")
    ] = None,
) -> None:
    """Score stopping rules on recorded runs: accuracy lost against rounds used, and screening.

    fedhalt stopbench
    fedhalt stopbench --rule growth,exponent
    fedhalt stopbench --runs my-runs --tune blood
    """
    asked = flat(rule)
    if record and folder is not None:
        raise FedhaltError(f"--record trains the runs of StopBench itself: leave out --runs {folder}")
    given = runs.load(folder) if folder is not None else None
    if number is None:
        number = 2 if given is None or all(run.average is not None for run in given) else 1
    if number == 1:
        for name in asked:
            require_one_of("rule of StopBench 1", name, ENTRIES)
    made = results or Path("results")
    ours = made / ("stopbench" if number == 1 else "stopbench2")
    packs = ours / runs.PACKED.name
    trained = out or Path("runs/paper" if number == 1 else "runs/stopbench2")
    if record or listed:
        from .record import list_runs, record_missing  # needs torch, scores do not

        if record:
            record_missing(number, trained, made, packs, parallel, data_root, _say)
        if listed:
            list_runs(number, trained, made, packs, make_console(120))
            return
    found = given if given is not None else _packed(number, packs)
    if number == 2:
        from .stopbench2 import score

        score(found, asked, tune, by, ours if results is not None else None, wide, as_json)
        return
    if by is not None:
        bench.fields(found, by)  # before the work, not after it
    if results is not None:
        ours.mkdir(parents=True, exist_ok=True)
    measured = bench.measured(found, asked or _readable(found), tune)
    rows, controls = bench.scores(measured), bench.on_controls(measured)
    if results is not None:
        for path in draw.write_results(rows, bench.curves(measured), controls, ours):
            _say(f"written: {path}")
    apart = bench.by_field(measured, by) if by is not None else {}
    if as_json:
        typer.echo(files.to_json({"levels": list(LEVELS), "scores": rows, "controls": controls, "by": apart}))
        return
    console = make_console(200)
    _show(rows, controls, console, wide)
    if apart:
        title = f"the deciding runs by {by}, at that setting: share of the rounds used, regret in points"
        _print(title, *draw.by_table(apart), console)


def _packed(number: int, ours: Path) -> list[runs.Run]:
    """The runs that come with the package, and those that were recorded here."""
    mine = runs.load_packed(ours)
    if mine:
        _say(f"with {len(mine)} runs of {ours}")
    found = runs.load_packed(runs.PACKED if number == 1 else runs.PACKED2, ours)
    if not found:
        raise FedhaltError(f"no run of StopBench {number} is packed yet: fedhalt stopbench --set {number} --record")
    return found


def _readable(found: list[runs.Run]) -> list[str]:
    """The rules that can be scored on these runs."""
    names = [name for name in ENTRIES if bench.readable(name, found)]
    if len(names) < len(ENTRIES):
        left = ", ".join(name for name in ENTRIES if name not in names)
        _say(f"left out, because not every run recorded what they read: {left}")
    return names


def _say(text: str) -> None:
    Console(stderr=True, highlight=False).print(text, markup=False, soft_wrap=True)


def _show(rows: list[dict[str, Any]], controls: dict[str, dict[str, int]], console: Console, wide: bool) -> None:
    for part in dict.fromkeys(row["part"] for row in rows):
        title = f"{draw.heading(rows, part)}: regret in points at a mean cost of 10 to 70% of the rounds"
        header, cells = draw.table(rows, part)
        shown = len(header) if wide else 2 + len(LEVELS)  # the rule, its patience, and the regret at every cost
        _print(title, header[:shown], [row[:shown] for row in cells], console)
    title = "synthetic runs: where each rule stops them at its setting nearest to a cost of 30 % on the tuned part"
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
