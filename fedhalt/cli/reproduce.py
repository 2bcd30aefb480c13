"""`fedhalt reproduce`: the paper's tables and figures, from recorded runs or trained anew."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from .. import files
from ..errors import FedhaltError
from ..paper.pace import pace
from ..paper.recording import TimeLeft, collect, record
from ..paper.setting import SCALES, Need, Scale, cost
from ..tuning.plans import EXECUTORS, Execution
from ..views.terminal.display import make_table
from ..views.terminal.reproduce import ReproduceDisplay
from .interrupt import end_after_this_round
from .options import DataRoot
from .types import COUNT, OneOf

if TYPE_CHECKING:
    from ..paper.rows import Results

DEFAULT = "small"


def reproduce_command(
    names: Annotated[list[str] | None, typer.Argument(metavar="ITEM...", help="table2, fig-reason, …, or all.")] = None,
    listed: Annotated[
        bool,
        typer.Option("--list", help="List what is recorded, what is left, and how long that would take here."),
    ] = False,
    scale: Annotated[
        str | None,
        typer.Option(
            click_type=OneOf("scale", SCALES),
            help="small: probes on two cores; network: a pretrained network, fine-tuned; paper: the paper's setting. "
            "Default: small; --list shows all.",
        ),
    ] = None,
    recorded: Annotated[bool, typer.Option("--recorded", help="Draw from the recorded rows; train nothing.")] = False,
    executor: Annotated[
        str, typer.Option(click_type=OneOf("executor", EXECUTORS), help="Where runs are trained.")
    ] = "processes",
    address: Annotated[
        str | None, typer.Option(metavar="URL", help="Address of a Ray cluster. Default: one on this machine.")
    ] = None,
    parallel: Annotated[
        int | None, typer.Option(click_type=COUNT, help="Runs to train at the same time. Default: one per core.")
    ] = None,
    workers: Annotated[int, typer.Option(click_type=COUNT, help="Workers of each run.")] = 1,
    device: Annotated[
        str | None, typer.Option(metavar="DEVICE", help="cpu, cuda, … Default: a GPU if there is one.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder of run folders, shared by all items.")] = Path(
        "runs/paper"
    ),
    results: Annotated[Path, typer.Option(help="Folder for new rows, tables and figures; rows in it are used.")] = Path(
        "results"
    ),
    data_root: DataRoot = None,
    weights: Annotated[
        str | None, typer.Option(metavar="FILE", help="Start from this file instead of the hub's weights.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="With --list: print one object.")] = False,
) -> None:
    """Draw the paper's tables and figures; train only what is not recorded yet.

    Our numbers are shown beside the paper's.

    fedhalt reproduce --list
    fedhalt reproduce table2 --scale small
    fedhalt reproduce all --scale paper --executor ray
    """
    # they import pandas and matplotlib, which no other command needs
    from ..paper import items, pilot, reproduce

    number = parallel or os.cpu_count() or 1
    if listed:
        scales = [scale] if scale else [DEFAULT, *(name for name in SCALES if name != DEFAULT)]
        _list([_scale(name, weights) for name in scales], names or ["all"], results, number, as_json)
        return
    chosen = _scale(scale or DEFAULT, weights)
    found = reproduce.results_in(results, chosen)
    if not names:
        raise FedhaltError(f"name what to draw: {', '.join(items.ITEMS)}, or all; --list says what they are")
    if address is not None and executor != "ray":
        raise FedhaltError(f"an address belongs to a Ray cluster: add --executor ray to {address!r}")
    execution = Execution(
        out=str(out), executor=executor, address=address, parallel=number, workers=workers,
        device=device, data_root=data_root,
    )  # fmt: skip
    wanted = items.named(names, chosen)
    if chosen.name == "network":
        # its pilot chooses the rates of everything else
        _complete(found, reproduce.needs_of([pilot], chosen), execution, recorded)
        chosen = _rated(found, chosen, recorded)
    needs = reproduce.needs_of(wanted.values(), chosen)
    _complete(found, needs, execution, recorded)
    there, said = reproduce.drawable(wanted, found, chosen)
    for name, path in reproduce.draw(there, found, chosen):
        typer.echo(f"{name}: {path}")
    for sentence in said:
        typer.echo(sentence)
    left = len(found.missing(needs))
    if left:
        typer.echo(f"{left} of the runs are not recorded: their cells are empty or have fewer seeds")


def _complete(found: Results, needs: list[Need], execution: Execution, recorded: bool) -> None:
    """Takes over what run folders hold and, unless only recorded rows are asked for, trains the rest."""
    collect(found.missing(needs), found, Path(execution.out))
    missing = found.missing(needs)
    if missing and not recorded:
        then = "run the same command to resume; --recorded draws what is there"
        train(missing, found, execution, Console(highlight=False), then)


def _rated(found: Results, scale: Scale, recorded: bool) -> Scale:
    """The network scale with its pilot's rates; nothing is trained at rates that nobody chose."""
    from ..paper import pilot

    if pilot.choose(found, scale) is None and not recorded:
        raise FedhaltError(f"the pilot left no rate guessing: add one above {max(pilot.RATES):g} to its rates")
    return pilot.rated(found, scale)


def train(missing: list[Need], found: Results | None, execution: Execution, console: Console, then: str) -> None:
    """Records what is missing, with progress and time left; Ctrl-C ends it after the round."""
    stopping = end_after_this_round()
    left = TimeLeft([cost(need) for need in missing], execution.parallel)
    with ReproduceDisplay(console, left, Path(execution.out)) as shown:
        trials = record(missing, found, execution, shown, stopping)
    failed = [trial for trial in trials if trial.state == "failed"]
    if failed:
        raise FedhaltError(f"the run {failed[0].label} failed: {failed[0].outcome.error}")
    if stopping():
        console.print(f"interrupted; {then}")
        raise typer.Exit(130)


def _list(scales: list[Scale], names: list[str], results: Path, cores: int, as_json: bool) -> None:
    """What is recorded and what is left, by scale and item."""
    from ..paper import items, pilot, reproduce

    found: list[dict[str, Any]] = []
    for scale in scales:
        # of several scales each shows those of the named items that it has
        mine = [name for name in names if len(scales) == 1 or name not in items.ONLY_NETWORK or scale.name == "network"]
        recorded = reproduce.results_in(results, scale)
        rows = reproduce.overview(items.named(mine, scale), recorded, pilot.rated(recorded, scale), cores)
        found.append({"scale": scale.name, "cores": cores, "items": rows})
    slower = round(pace(), 1)
    if as_json:
        others = {"other_scales": found[1:]} if len(found) > 1 else {}
        typer.echo(files.to_json({"pace": slower, **found[0], **others}))
        return
    console = Console(highlight=False, width=None if Console().is_terminal else 120)
    for scale, each in zip(scales, found, strict=True):
        console.print(f"scale {scale.name}: {scale.words}", soft_wrap=True)
        console.print(_table(each["items"], cores))
        console.print()
    sentence = f"hours are estimates: a core here takes {slower:g} times as long as the one on which rounds were timed"
    console.print(sentence, soft_wrap=True)


def _table(rows: list[dict[str, Any]], cores: int) -> Table:
    here = f"on {cores} core{'s' if cores > 1 else ''}"
    made = make_table(("item", "what", "runs", "recorded", "left", "core time", here), left=("item", "what"))
    for row in rows:
        counts = (f"{row[name]:,}" for name in ("runs", "recorded", "left"))
        made.add_row(row["item"], row["title"], *counts, *(_time(row[name]) for name in ("hours_left", "hours_here")))
    return made


def _time(hours: float) -> str:
    """Nothing for nothing: a few short runs take minutes, and never "0.0 h"."""
    if hours >= 1:
        return f"{hours:,.0f} h" if hours >= 100 else f"{hours:,.1f} h"
    return f"{max(1, round(60 * hours))} min" if hours else ""


def _scale(name: str, weights: str | None) -> Scale:
    scale = SCALES[name]
    if weights is None:
        return scale
    return dataclasses.replace(scale, model={**scale.model, "pretrained": False, "weights": weights})
