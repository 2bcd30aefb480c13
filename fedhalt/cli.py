"""The command line: `fedhalt replay | methods`, cli_report.py `report | watch`, cli_stopbench.py, and what needs torch:
cli_run.py `run | partition`, cli_sweep.py `sweep`, cli_reproduce.py `reproduce`."""

from __future__ import annotations

import dataclasses
import os
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from . import __version__, files, rules
from .check import FedhaltError, MissingExtra, parsed, positive
from .checkpoints import Checkpoints
from .cli_report import report_command, watch_command
from .cli_stopbench import stopbench_command
from .judge import Candidate, candidates, judge, metrics, recorded
from .rules.motion import Explained, told, why
from .stopbench.entries import ENTRIES
from .trackers import TRACKERS
from .trajectory import Trajectory

app = typer.Typer(
    help="Data-free early stopping for federated learning.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Several(typer.core.TyperCommand):
    """Lets an option take several values in a row: `--threshold 0.1 0.01`, which click alone does not."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        repeated = {name for option in self.params if getattr(option, "multiple", False) for name in option.opts}
        spread: list[str] = []
        current = ""
        for index, arg in enumerate(args):
            if arg.startswith("--") or (arg.startswith("-") and parsed(arg) is None):
                name = arg.partition("=")[0]
                current = name if name in repeated else ""
            elif current and args[index - 1] != current:
                if parsed(arg) is not None or arg in rules.RULES or arg in ENTRIES or arg in TRACKERS:
                    spread.append(current)
                else:
                    current = ""
            spread.append(arg)
        return super().parse_args(ctx, spread)


@app.callback(invoke_without_command=True)
def top(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        typer.echo(f"fedhalt {__version__}")
        raise typer.Exit


@app.command(cls=Several)
def replay(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Trajectories, CSV files or run folders.")],
    rule: Annotated[list[str], typer.Option(help=f"Rules: {', '.join(rules.RULES)}.")] = ["growth"],  # noqa: B006
    threshold: Annotated[list[str] | None, typer.Option(help="Thresholds to try (the paper's tau).")] = None,
    patience: Annotated[list[str] | None, typer.Option(help="Patiences to try (the paper's rho).")] = None,
    rounds: Annotated[list[str] | None, typer.Option(help="Budgets to try, for the rule `budget`.")] = None,
    column: Annotated[str | None, typer.Option(help="Read this column in place of the rule's first.")] = None,
    checkpoints: Annotated[bool, typer.Option("--checkpoints", help="PATH is a folder of saved models.")] = False,
    start: Annotated[Path | None, typer.Option(help="The model that is theta_0 (default: the first one).")] = None,
    include: Annotated[list[str] | None, typer.Option(help="Watch only arrays that match, e.g. 'model.*'.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Leave out arrays that match, e.g. '*.running_*'.")] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Keep watching the folder and say when to stop.")] = False,
    interval: Annotated[str, typer.Option(help="Seconds between two looks with --follow.")] = "1.0",
    as_json: Annotated[bool, typer.Option("--json", help="Print a list of objects.")] = False,
) -> None:
    """Where would a rule have stopped? Judges recorded runs, or saved models of any tool, again.

    fedhalt replay run.jsonl --threshold 0.005 0.01 0.05 0.1 --patience 1 5 10
    """
    settings = {"threshold": threshold, "patience": patience, "rounds": rounds}
    asked = candidates(rule, {name: [_number(name, text) for text in texts or []] for name, texts in settings.items()})
    given = {"--start": start, "--include": include, "--exclude": exclude, "--follow": follow}
    for option, value in given.items():
        if value and not checkpoints:
            raise FedhaltError(f"{option} goes with --checkpoints and a folder of saved models")
    columns = tuple({"distance", *(name for candidate in asked for name in candidate.rule.reads)})

    def models(folder: Path) -> Checkpoints:
        return Checkpoints(folder, columns, start, include, exclude)

    if follow:
        if len(paths) != 1:
            raise FedhaltError(f"--follow watches one folder, not {len(paths)}")
        results = _follow(
            models(paths[0]), asked, column, positive("interval", _number("interval", interval)), quiet=as_json
        )
    else:
        results = []
        for path in paths:
            trajectory = Trajectory(models(path).rows()) if checkpoints else recorded(path)
            if not len(trajectory):
                raise FedhaltError(f"{path} holds no round to judge")
            results += [judge(os.fspath(path), trajectory, candidate, column) for candidate in asked]
    if as_json:
        typer.echo(files.to_json(results))
    elif not follow:
        _show(results)


@app.command()
def methods(as_json: Annotated[bool, typer.Option("--json", help="Print a list of objects.")] = False) -> None:
    """The federated methods: their key hyperparameter, what they send and keep, what a step costs."""
    from .methods import METHODS, hyperparameters

    listed = [
        {"method": name, **dataclasses.asdict(cls.facts), "hyperparameters": hyperparameters(name)}
        for name, cls in METHODS.items()
    ]
    if as_json:
        typer.echo(files.to_json(listed))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("method", "paper", "Φ", "half", "down", "keeps", "up", "gradients", "optimiser", "hyperparameters"):
        table.add_column(title, justify="right" if title in ("down", "keeps", "up", "gradients") else "left")
    for entry in listed:
        settings = " ".join(f"{key}={value}" for key, value in entry["hyperparameters"].items())
        phi, optimiser = ", ".join(entry["phi"]) or "-", "SGD" if entry["sgd_only"] else "any"
        counts = [str(entry[key]) for key in ("down", "keeps", "up", "gradients")]
        table.add_row(entry["method"], entry["paper"], phi, entry["half"] or "-", *counts, optimiser, settings)
    Console(width=None if sys.stdout.isatty() else 160, highlight=False).print(table, markup=False)
    typer.echo("\ndown, keeps, up: vectors of the model's size; gradients: evaluations per local step")


def _follow(
    models: Checkpoints, asked: list[Candidate], column: str | None, interval: float, quiet: bool
) -> list[dict[str, Any]]:
    """Judges each model as it appears; returns once every rule has said stop."""
    if column:
        raise FedhaltError("--column names a recorded column; --checkpoints measures the distance itself")
    trajectory = Trajectory()
    explained = [Explained(candidate.rule) for candidate in asked]
    states = [rule.begin() for rule in explained]
    going = set(range(len(asked)))
    console = Console(stderr=quiet, width=None if sys.stdout.isatty() else 200, highlight=False)
    for row in models.follow(interval):
        trajectory.append(row)
        shown = "  ".join(f"{name} {value:.6g}" for name, value in metrics(row).items())
        console.print(f"round {row['round']}  {row['checkpoint']}  {shown}", markup=False)
        for index in sorted(going):
            states[index], status = explained[index].step(states[index], row)
            if status.stop:
                going.remove(index)
                reason = why(status.reason, status.exponent, status.motion)
                console.print(f"stop now: {asked[index]} at round {status.round} ({reason})", markup=False)
        if not going:
            break
    return [judge(os.fspath(models.folder), trajectory, candidate) for candidate in asked]


def _show(results: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    names = list(dict.fromkeys(name for result in results for name in result["metrics"]))
    for title in ("file", "rule", "threshold", "patience", "stop round", "of", "used", "reason", "exponent", *names):
        left = title in ("file", "rule", "reason", "exponent")
        table.add_column(title, justify="left" if left else "right", overflow="fold")
    for result in results:
        stop = result["stop_round"]
        table.add_row(
            result["file"],
            f"{result['rule']} {result['budget']}" if "budget" in result else result["rule"],
            _text(result["threshold"]),
            _text(result["patience"]),
            "never" if stop is None else f"{stop} {result.get('checkpoint', '')}".strip(),
            str(result["rounds"]),
            f"{result['used']:.1%}",
            result["reason"] or "-",
            told(result["exponent"], result["motion"], result["reason"]),
            *(_text(result["metrics"].get(name)) for name in names),
        )
    Console(width=None if sys.stdout.isatty() else 144 + 16 * len(names), highlight=False).print(table, markup=False)


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _number(name: str, text: str) -> int | float:
    """A number as typed; the rules say which numbers they take."""
    number = parsed(text)
    if number is None:
        raise FedhaltError(f"{name} must be a number, not {text!r}")
    return number


app.command("report")(report_command)
app.command("watch")(watch_command)
app.command("stopbench", cls=Several)(stopbench_command)


def _add_simulator() -> None:
    """The commands that need torch; without it they only say what to install."""
    try:
        from .cli_reproduce import reproduce_command
        from .cli_run import partition_command, run_command, with_spec_options
        from .cli_sweep import sweep_command
    except MissingExtra as missing:
        text = str(missing)

        def absent() -> None:
            raise FedhaltError(text)

        anything = {"ignore_unknown_options": True, "allow_extra_args": True}
        for name in ("run", "partition", "sweep", "reproduce"):
            app.command(name, help="Needs the extra `sim` (torch).", context_settings=anything)(absent)
        return
    app.command("run", cls=Several)(with_spec_options(run_command))
    app.command("partition")(with_spec_options(partition_command))
    app.command("sweep", cls=Several)(sweep_command)
    app.command("reproduce")(reproduce_command)


def main() -> None:
    """Runs a command; what a user can cause ends as one sentence and status 2, never as a traceback."""
    warnings.showwarning = lambda message, *_, **__: print(f"fedhalt: {message}", file=sys.stderr)
    try:
        light = ("replay", "report", "watch", "stopbench", "methods", "--version")  # torch takes seconds to import
        if not sys.argv[1:2] or sys.argv[1] not in light:
            _add_simulator()
        app()
    except FedhaltError as error:
        print(f"fedhalt: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except OSError as error:
        print(f"fedhalt: {error.filename + ': ' if error.filename else ''}{error.strerror or error}", file=sys.stderr)
        raise SystemExit(2) from None
