"""`fedhalt sweep`: a search space in a TOML file, run to its end, or compared all ways."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from . import files, plan
from .check import FedhaltError, parsed
from .cli_run import after_this_round
from .plan import Plan
from .sweep import best, sweep
from .table import Lines, Screen, saved, table
from .trackers import TRACKERS
from .trial import Trial


def sweep_command(
    file: Annotated[Path, typer.Argument(metavar="SWEEP.TOML", help="The space and the settings of the sweep.")],
    compare: Annotated[bool, typer.Option("--compare", help="Record all, then judge every way of stopping.")] = False,
    picture: Annotated[Path | None, typer.Option(help="Where --compare draws. Default: OUT/compare.png.")] = None,
    rounds: Annotated[str | None, typer.Option(help="The budget of rounds of a trial. Default: 500.")] = None,
    objective: Annotated[str | None, typer.Option(help=f"{', '.join(plan.OBJECTIVES)}. Default: val_loss.")] = None,
    sampler: Annotated[str | None, typer.Option(help=f"{', '.join(plan.SAMPLERS)}. Default: grid.")] = None,
    trials: Annotated[str | None, typer.Option(help="Number of trials, unless the sampler is grid.")] = None,
    storage: Annotated[str | None, typer.Option(help="URL of Optuna's storage. Default: sqlite in OUT.")] = None,
    executor: Annotated[str | None, typer.Option(help="processes or ray. Default: processes.")] = None,
    address: Annotated[str | None, typer.Option(help="Address of a Ray cluster. Default: one on this machine.")] = None,
    parallel: Annotated[str | None, typer.Option(help="Trials at the same time. Default: 1.")] = None,
    workers: Annotated[str | None, typer.Option(help="Workers of each trial. Default: 1.")] = None,
    out: Annotated[str | None, typer.Option(help="Folder of run folders. Default: runs.")] = None,
    data_root: Annotated[str | None, typer.Option(help="Folder of the data files. Default: FEDHALT_DATA.")] = None,
    track: Annotated[list[str] | None, typer.Option(help=f"Also write to: {', '.join(TRACKERS)}.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one object on standard output.")] = False,
) -> None:
    """Search for a good configuration; end hopeless trials early and good ones when they are done.

    fedhalt sweep sweep.toml --parallel 2
    """
    typed = {"rounds": rounds, "objective": objective, "sampler": sampler, "trials": trials, "storage": storage,
             "executor": executor, "address": address, "parallel": parallel, "workers": workers, "out": out,
             "data_root": data_root}  # fmt: skip
    given = {name: _value(name, text) for name, text in typed.items() if text is not None}
    given |= {"track": track} if track else {}
    read = plan.load(file, given)
    if picture is not None and not compare:
        raise FedhaltError(f"--picture {picture} goes with --compare")
    if compare:
        _compare(read, picture, as_json)
        return
    found, stopped = _run(read, as_json)
    if as_json:
        typer.echo(files.to_json(_object(read, found)))
    if stopped:
        raise typer.Exit(130)
    if any(trial.state == "failed" for trial in found):
        raise typer.Exit(1)


def _run(read: Plan, as_json: bool) -> tuple[list[Trial], bool]:
    """Runs the sweep under the eyes of a person."""
    console = Console(stderr=as_json, highlight=False, width=None if sys.stdout.isatty() else 160)
    stopping = after_this_round()
    with contextlib.ExitStack() as around:
        if as_json:  # Ray, for one, prints its own news
            around.enter_context(contextlib.redirect_stdout(sys.stderr))
        shown = around.enter_context((Screen if console.is_terminal else Lines)(console, read))
        found = sweep(read, shown, stopping)
    failed = [trial for trial in found if trial.state == "failed"]
    if found and len(failed) == len(found):
        raise FedhaltError(f"every trial failed, the first by: {failed[0].outcome.get('error')}")
    if not as_json:
        console.print(table(found, len(found), read))
        console.print("interrupted; the same command goes on" if stopping() else f"files: {read.out}", soft_wrap=True)
    return found, stopping()


def _compare(read: Plan, picture: Path | None, as_json: bool) -> None:
    from .compare import compare, draw, show

    if read.sampler in plan.OPTUNA:
        raise FedhaltError(
            f"--compare needs configurations that do not depend on the stops: grid or random, not {read.sampler}"
        )
    whole = dataclasses.replace(read, screen=None, converge=None)
    found, stopped = _run(whole, as_json=True)
    if stopped:
        raise typer.Exit(130)
    rows = compare(read, found)
    path = picture or Path(read.out) / "compare.png"
    draw(rows, read, path)
    if as_json:
        typer.echo(files.to_json({"strategies": rows, "picture": str(path)}))
    else:
        show(Console(highlight=False, width=None if sys.stdout.isatty() else 160), rows, read)
        typer.echo(f"picture: {path}")


def _object(read: Plan, found: list[Trial]) -> dict[str, Any]:
    leader = best(found, read.higher_is_better)
    return {
        "trials": [
            {"trial": trial.number + 1, "configuration": trial.label, "id": trial.spec.id, **trial.outcome}
            for trial in found
        ],
        "best": None if leader is None else leader.spec.id,
        "summary": saved(found, read),
    }


def _value(name: str, text: str) -> Any:
    """A number where a number is meant; the plan checks it."""
    if name not in plan.WHOLE:
        return text
    number = parsed(text)
    if number is None:
        raise FedhaltError(f"{name} must be a number, not {text!r}")
    return number
