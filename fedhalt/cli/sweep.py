"""`fedhalt sweep`: a search space in a TOML file, run to its end, or compared all ways."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import files
from ..errors import FedhaltError
from ..integrations.trackers import TRACKERS, Trackers
from ..tuning import plans as plan
from ..tuning.plans import Plan
from ..tuning.sweeps import best, sweep
from ..tuning.trial import Trial
from ..views.terminal.display import choose, make_console, print_table
from ..views.terminal.sweep import COLUMNS, USUAL, SweepDisplay, format_saved, sweep_table
from .interrupt import end_after_this_round
from .options import TRACK_LIST, Columns, DataRoot, JsonObject, Wide
from .types import COUNT, OneOf, flat


def sweep_command(
    file: Annotated[Path, typer.Argument(metavar="SWEEP.TOML", help="The search space and the settings of the sweep.")],
    compare: Annotated[
        bool, typer.Option("--compare", help="Train all configurations in full, then compare ways of stopping.")
    ] = False,
    picture: Annotated[Path | None, typer.Option(help="Figure that --compare draws. Default: OUT/compare.png.")] = None,
    rounds: Annotated[
        int | None, typer.Option(click_type=COUNT, help="Budget of rounds per trial. Default: 500.")
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            click_type=OneOf("metric", plan.OBJECTIVES), help=f"{', '.join(plan.OBJECTIVES)}. Default: val_loss."
        ),
    ] = None,
    sampler: Annotated[
        str | None,
        typer.Option(click_type=OneOf("sampler", plan.SAMPLERS), help=f"{', '.join(plan.SAMPLERS)}. Default: grid."),
    ] = None,
    trials: Annotated[
        int | None, typer.Option(click_type=COUNT, help="Number of trials, unless the sampler is grid.")
    ] = None,
    storage: Annotated[
        str | None, typer.Option(metavar="URL", help="Optuna's storage. Default: SQLite in --out.")
    ] = None,
    executor: Annotated[
        str | None,
        typer.Option(click_type=OneOf("executor", plan.EXECUTORS), help="Where trials run. Default: processes."),
    ] = None,
    address: Annotated[
        str | None, typer.Option(metavar="URL", help="Address of a Ray cluster. Default: one on this machine.")
    ] = None,
    parallel: Annotated[
        int | None, typer.Option(click_type=COUNT, help="Trials to run at the same time. Default: 1.")
    ] = None,
    workers: Annotated[int | None, typer.Option(click_type=COUNT, help="Workers of each trial. Default: 1.")] = None,
    out: Annotated[str | None, typer.Option(metavar="FOLDER", help="Folder of run folders. Default: runs.")] = None,
    data_root: DataRoot = None,
    track: Annotated[
        list[Any] | None, typer.Option(click_type=TRACK_LIST, help=f"Also write to: {', '.join(TRACKERS)}.")
    ] = None,
    columns: Columns = None,
    wide: Wide = False,
    as_json: JsonObject = False,
) -> None:
    """Search for a good configuration; stop hopeless trials early and good ones once they converge.

    fedhalt sweep examples/sweep.toml --parallel 2
    """
    chosen = choose(COLUMNS, flat(columns), USUAL, wide)
    typed = {"rounds": rounds, "objective": objective, "sampler": sampler, "trials": trials, "storage": storage,
             "executor": executor, "address": address, "parallel": parallel, "workers": workers, "out": out,
             "data_root": data_root}  # fmt: skip
    given = {name: value for name, value in typed.items() if value is not None}
    read, tracked = plan.load(file, given | ({"track": flat(track)} if track else {}))
    trackers = Trackers(tracked)
    if picture is not None and not compare:
        raise FedhaltError(f"--picture {picture} needs --compare")
    if compare:
        _compare(read, trackers, picture, as_json, wide)
        return
    found, stopped = _run(read, trackers, as_json, chosen, wide)
    if as_json:
        typer.echo(files.to_json(_object(read, found)))
    if stopped:
        raise typer.Exit(130)
    if any(trial.state == "failed" for trial in found):
        raise typer.Exit(1)


def _run(
    read: Plan, trackers: Trackers, as_json: bool, chosen: Sequence[str] = USUAL, wide: bool = False
) -> tuple[list[Trial], bool]:
    """Runs the sweep and shows progress."""
    console = make_console(stderr=as_json)
    stopping = end_after_this_round()
    with contextlib.ExitStack() as stack:
        if as_json:  # Ray, for one, prints its own news
            stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        shown = stack.enter_context(SweepDisplay(console, read, USUAL if wide else chosen))
        found = sweep(read, shown, stopping, [trackers])
    failed = [trial for trial in found if trial.state == "failed"]
    if found and len(failed) == len(found):
        raise FedhaltError(f"every trial failed; the first error: {failed[0].outcome.error}")
    if not as_json:
        made, said = sweep_table(found, len(found), read, chosen=chosen)
        print_table(made, console, wide)
        console.print(f"\n{said}", markup=False)
        console.print(f"files: {read.out}", markup=False, soft_wrap=True)
        then = "interrupted; run the same command to resume" if stopping() else f"next:  fedhalt report {read.out}"
        console.print(then, markup=False, soft_wrap=True)
    return found, stopping()


def _compare(read: Plan, trackers: Trackers, picture: Path | None, as_json: bool, wide: bool) -> None:
    from ..tuning.compare import compare
    from ..views.plots import check_picture
    from ..views.terminal.compare import draw_comparison, show_comparison

    if read.sampler in plan.OPTUNA:
        raise FedhaltError(
            f"--compare needs configurations that do not depend on the stops: grid or random, not {read.sampler}"
        )
    path = picture or Path(read.out) / "compare.png"
    check_picture(path)  # what is drawn in the end must not fail after hours of training
    whole = dataclasses.replace(read, screen=None, converge=None)
    found, stopped = _run(whole, trackers, as_json=True)
    if stopped:
        raise typer.Exit(130)
    rows = compare(read, found)
    draw_comparison(rows, path)
    if as_json:
        typer.echo(files.to_json({"strategies": [row.to_json() for row in rows], "picture": str(path)}))
    else:
        show_comparison(make_console(), rows, read, wide)
        typer.echo(f"picture: {path}")


def _object(read: Plan, found: list[Trial]) -> dict[str, Any]:
    leader = best(found, read.higher_is_better)
    return {
        "trials": [
            {"trial": trial.number + 1, "configuration": trial.label, "id": trial.spec.id, **trial.outcome.to_json()}
            for trial in found
        ],
        "best": None if leader is None else leader.spec.id,
        "summary": format_saved(found, read),
    }
