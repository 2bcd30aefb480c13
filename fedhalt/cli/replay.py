"""`fedhalt replay`: where a rule would have stopped what was recorded or saved, also while it is being written."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from .. import files
from ..errors import FedhaltError
from ..records.checkpoints import Checkpoints
from ..records.judging import Verdict, judge, metrics
from ..records.opening import recorded
from ..records.stored import RECORD, budget_of, read_summary, stored_rules
from ..records.trajectory import Trajectory
from ..rules import RULES, NamedRule, Stepper, named_rules
from ..rules.named import LIMITS
from ..views.names import short_names
from ..views.recorded import find_records
from ..views.terminal.display import make_console
from ..views.terminal.replay import show_verdicts
from ..views.words import format_stop
from .options import (
    COUNT_LIST,
    RULE_LIST,
    THRESHOLD_LIST,
    AreCheckpoints,
    Columns,
    Exclude,
    Include,
    JsonList,
    Start,
    Wide,
    refuse_without_checkpoints,
)
from .types import COUNT, POSITIVE, flat


class Run(NamedTuple):
    """A recorded run: where it is, what was recorded, and what it says about itself."""

    path: str
    trajectory: Trajectory
    summary: dict[str, Any]


def replay_command(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Run folders, folders of them, trajectories or CSV files."),
    ],
    rule: Annotated[
        list[Any] | None,
        typer.Option(
            click_type=RULE_LIST,
            help=f"Rules to try: {', '.join([*RULES, *LIMITS])}. Default: the rules recorded with the run, or growth.",
        ),
    ] = None,
    threshold: Annotated[list[Any] | None, typer.Option(click_type=THRESHOLD_LIST, help="Thresholds to try.")] = None,
    patience: Annotated[list[Any] | None, typer.Option(click_type=COUNT_LIST, help="Patiences to try.")] = None,
    rounds: Annotated[
        list[Any] | None, typer.Option(click_type=COUNT_LIST, help="Budgets to try, for the rule budget.")
    ] = None,
    column: Annotated[
        str | None, typer.Option(metavar="NAME", help="Read this recorded column instead of distance.")
    ] = None,
    columns: Columns = None,
    wide: Wide = False,
    as_json: JsonList = False,
    checkpoints: AreCheckpoints = False,
    start: Start = None,
    include: Include = None,
    exclude: Exclude = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", rich_help_panel="Saved models", help="Wait for more models, and say when to stop."),
    ] = False,
    average: Annotated[
        int | None,
        typer.Option(
            click_type=COUNT, rich_help_panel="Saved models",
            help="Write the mean of this many models, up to the stop or the last one, to --output.",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", rich_help_panel="Saved models", help="A .safetensors file."),
    ] = None,
    interval: Annotated[
        float,
        typer.Option(click_type=POSITIVE, rich_help_panel="Saved models", help="Seconds between checks."),
    ] = 1.0,
) -> None:  # fmt: skip
    """Show where a rule would have stopped recorded runs, or models saved by any tool.

    PATH is a run folder, a folder of run folders, a trajectory or a CSV file.

    fedhalt replay runs/ --threshold 0.005,0.01,0.05 --patience 1,5,10
    fedhalt replay run.jsonl --rule growth,val-loss
    fedhalt replay run.jsonl --rule 'minutes=90,val_accuracy>=0.8'
    fedhalt replay models/ --checkpoints
    fedhalt replay models/ --checkpoints --average 10 -o model.safetensors
    """
    settings = {"threshold": flat(threshold), "patience": flat(patience), "rounds": flat(rounds)}
    given = bool(rule) or any(settings.values())
    asked = named_rules(flat(rule) or ["growth"], settings)
    if not checkpoints:
        refuse_without_checkpoints(
            {"--start": start, "--include": include, "--exclude": exclude, "--follow": follow, "--average": average}
        )
    _check_average(average, output, paths, asked)
    measured = tuple({"distance", *(name for named in asked for name in named.rule.reads)})
    models = partial(Checkpoints, columns=measured, start=start, include=include, exclude=exclude, average=average)
    if follow:
        if len(paths) != 1:
            raise FedhaltError(f"--follow watches one folder, not {len(paths)}")
        verdicts = _follow(models(paths[0]), asked, column, interval, quiet=as_json)
        names = [verdict.file for verdict in verdicts]
    else:
        runs = _models(paths, models) if checkpoints else _records(paths)
        verdicts, names = _judge(runs, asked if given else None, column)
    if average is not None and output is not None:
        _write_average(models(paths[0]), average, verdicts[0], output, quiet=as_json)
    if as_json:
        typer.echo(files.to_json([verdict.to_json() for verdict in verdicts]))
    elif not follow:
        show_verdicts(make_console(), verdicts, names, flat(columns), wide)


def _check_average(average: int | None, output: Path | None, paths: list[Path], asked: list[NamedRule]) -> None:
    if (average is None) != (output is None):
        raise FedhaltError("--average and --output go together: --average 10 -o model.safetensors")
    if output is not None and output.suffix != ".safetensors":
        raise FedhaltError(f"--output must be a .safetensors file, not {output}")
    if average is not None and (len(paths) != 1 or len(asked) != 1):
        raise FedhaltError(
            f"--average ships the model of one folder and one rule, not of {len(paths)} and {len(asked)}"
        )


def _write_average(models: Checkpoints, average: int, verdict: Verdict, output: Path, quiet: bool) -> None:
    """The mean of the models up to the stop, or up to the last one."""
    if output.absolute().parent == models.folder.absolute():
        raise FedhaltError(f"{output} would lie among the models themselves: name another folder")
    last = max(row["round"] for row in models.rows())
    data, names = models.average(average, verdict.stop_round or last)
    files.write(output, data)
    told = f"{output}: the mean of {len(names)} models, {names[0]} to {names[-1]}"
    make_console(stderr=quiet).print(told, markup=False, soft_wrap=True)


def _records(paths: list[Path]) -> Iterator[Run]:
    """The recorded runs under these paths; a folder without a record stands for the run folders in it."""
    for path in paths:
        inside = path.is_dir() and not os.path.lexists(path / RECORD)
        found = [Path(file).parent for file in find_records([path]).values()] if inside else []
        problems = []
        for one in found or [path]:
            try:
                trajectory = recorded(one)
                if not len(trajectory):
                    raise FedhaltError(f"{one} holds no round to judge")
            except FedhaltError as error:
                problems.append(str(error))
                continue
            yield Run(os.fspath(one), trajectory, read_summary(one))
        if problems and len(problems) == len(found or [path]):
            raise FedhaltError(problems[0])
        for problem in problems:  # one of many runs does not keep the others from being judged
            warnings.warn(f"left out: {problem}", stacklevel=2)


def _models(paths: list[Path], read: Callable[[Path], Checkpoints]) -> Iterator[Run]:
    for path in paths:
        trajectory = Trajectory(read(path).rows())
        if not len(trajectory):
            raise FedhaltError(f"{path} holds no round to judge")
        yield Run(os.fspath(path), trajectory, {})


def _judge(runs: Iterator[Run], asked: list[NamedRule] | None, column: str | None) -> tuple[list[Verdict], list[str]]:
    """Every run under the rules asked for, by default its own; and what each verdict's run is called."""
    verdicts: list[Verdict] = []
    specs: dict[str, Any] = {}
    for run in runs:
        specs[run.path] = run.trajectory.header.get("spec")
        planned = budget_of(run.trajectory, run.summary)
        watched = asked or stored_rules(run.trajectory, run.summary) or named_rules(["growth"], {})
        verdicts += [judge(run.path, run.trajectory, named, column, planned) for named in watched]
    own = [os.path.basename(os.path.normpath(path)) for path in specs]
    unique = [name if own.count(name) == 1 else path for name, path in zip(own, specs, strict=True)]
    short = dict(zip(specs, short_names(list(specs.values()), unique), strict=True))
    return verdicts, [short[verdict.file] for verdict in verdicts]


def _follow(
    models: Checkpoints, asked: list[NamedRule], column: str | None, interval: float, quiet: bool
) -> list[Verdict]:
    """Judges each model as it appears; returns once every rule has said stop."""
    if column:
        raise FedhaltError("--column names a recorded column; --checkpoints measures the distance itself")
    trajectory = Trajectory()
    stepper = Stepper([named.rule for named in asked])
    console = make_console(stderr=quiet)
    for row in models.follow(interval):
        trajectory.append(row)
        shown = "  ".join(f"{name} {value:.6g}" for name, value in metrics(row).items())
        console.print(f"round {row['round']}  {row['checkpoint']}  {shown}", markup=False, soft_wrap=True)
        for index in stepper.step(row):
            status = stepper.fired[index]
            reason = format_stop(status.reason, status.motion, asked[index].name)
            console.print(f"stop now: {asked[index]} at round {status.round} ({reason})", markup=False, soft_wrap=True)
        if len(stepper.fired) == len(asked):
            break
    return [judge(os.fspath(models.folder), trajectory, named) for named in asked]
