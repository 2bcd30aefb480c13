"""`fedhalt run` and `fedhalt partition`: the options are the fields of RunSpec."""

from __future__ import annotations

import dataclasses
import inspect
import signal
import sys
import tomllib
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from . import files
from .check import FedhaltError, known, parsed, whole
from .judge import candidates
from .methods import METHODS, hyperparameters
from .progress import Lines, Screen, closing, partition_table
from .run import Progress, run
from .spec import FIELDS, HYPERPARAMETERS, RunSpec
from .task import shares
from .trackers import TRACKERS, Tracking

AROUND = ("rounds", "watch", "threshold", "patience", "stop", "workers", "device", "out", "data_root", "track")
"""What a run needs besides its spec; all of it may stand in the TOML file too."""


def with_spec_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command one option per field of RunSpec and per hyperparameter; it receives those given as `given`."""
    own = inspect.signature(command).parameters
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(name, field))
        for name, field in FIELDS.items()
    ]
    for name in HYPERPARAMETERS:
        text = f"Hyperparameter of {', '.join(method for method in METHODS if name in hyperparameters(method))}."
        annotation = Annotated[str | None, typer.Option(f"--{name.replace('_', '-')}", help=text, show_default=False)]
        options.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation))

    def wrapped(**values: Any) -> None:
        given = {name: values.pop(name) for name in (*FIELDS, *HYPERPARAMETERS)}
        command(**values, given={name: value for name, value in given.items() if value is not None})

    hints = typing.get_type_hints(command, include_extras=True)
    kept = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
            for name, parameter in own.items() if name != "given"]  # fmt: skip
    wrapped.__signature__ = inspect.Signature([*options, *kept])  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in [*options, *kept]}
    wrapped.__doc__, wrapped.__name__ = command.__doc__, command.__name__
    return wrapped


Config = Annotated[Path | None, typer.Option(help="A TOML file with any of these options; the command line wins.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one object on standard output.")]


def run_command(
    *,
    rounds: Annotated[str | None, typer.Option(help="The budget of rounds. Default: 500.")] = None,
    watch: Annotated[list[str] | None, typer.Option(help="Rules to watch. Default: growth.")] = None,
    threshold: Annotated[str | None, typer.Option(help="Threshold of the watched rules. Default: 0.01.")] = None,
    patience: Annotated[str | None, typer.Option(help="Patience of the watched rules. Default: 10.")] = None,
    stop: Annotated[str | None, typer.Option(help="End when all rules fired, first or never. Default: all.")] = None,
    workers: Annotated[str | None, typer.Option(help="Single-thread workers. Default: one per core.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu or cuda. Default: cuda if there is one.")] = None,
    out: Annotated[str | None, typer.Option(help="Folder of run folders. Default: runs.")] = None,
    data_root: Annotated[str | None, typer.Option(help="Folder of the data files. Default: FEDHALT_DATA.")] = None,
    track: Annotated[list[str] | None, typer.Option(help=f"Also write to: {', '.join(TRACKERS)}.")] = None,
    config: Config = None,
    as_json: AsJson = False,
    given: dict[str, Any],
) -> None:
    """Train a federation on this machine and stop it by the rule.

    fedhalt run --data blood --method fedprox --lam 0.01 --skew dirichlet --c 0.1 --lr 0.001 --seed 0
    """
    typed = {"rounds": rounds, "watch": watch, "threshold": threshold, "patience": patience, "stop": stop,
             "workers": workers, "device": device, "out": out, "data_root": data_root, "track": track}  # fmt: skip
    spec, around = _settings(config, given, {name: value for name, value in typed.items() if value is not None})
    rules: dict[str, list[Any]] = {}
    for name in ("threshold", "patience"):
        rules[name] = [_value(around[name])] if name in around else []
    budget = _whole("rounds", around.get("rounds", 500))
    names = around.get("watch", ["growth"])
    if "budget" in names:
        rules["rounds"] = [budget]
    asked = candidates(names if isinstance(names, list) else [names], rules)
    stopping = after_this_round()
    console = Console(stderr=as_json, highlight=False, width=None if sys.stdout.isatty() else 160)
    view = Screen if console.is_terminal else Lines
    options: dict[str, Any] = {name: around[name] for name in ("stop", "device", "data_root") if name in around}
    if "workers" in around:
        options["workers"] = _whole("workers", around["workers"])
    out_folder = Path(around.get("out", "runs"))
    _say_what_is_there(console, out_folder / spec.id)
    tracked = around.get("track", [])
    names = tracked if isinstance(tracked, list) else [tracked]
    with view(console, asked) as shown, Tracking(names, out_folder / spec.id, asked, spec.to_json()) as tracking:

        def progress(now: Progress) -> None:
            shown(now)
            tracking(now.row)

        summary = run(spec, out_folder, rounds=budget, watch=asked, progress=progress, interrupted=stopping, **options)
    if as_json:
        typer.echo(files.to_json(summary))
    else:
        closing(console, summary)
    if summary["reason"] == "interrupted":
        raise typer.Exit(130)


def partition_command(
    *,
    data_root: Annotated[str | None, typer.Option(help="Folder of the data files. Default: FEDHALT_DATA.")] = None,
    picture: Annotated[Path | None, typer.Option(help="Draw classes by client to this file.")] = None,
    config: Config = None,
    as_json: AsJson = False,
    given: dict[str, Any],
) -> None:
    """Show who would hold what: a table and a picture of classes by client."""
    given = {"cohort": "1", **given}  # nobody is sampled here
    spec, around = _settings(config, given, {} if data_root is None else {"data_root": data_root})
    counts = shares(spec, around.get("data_root"))
    if as_json:
        typer.echo(files.to_json({"skew": spec.skew, "c": spec.c, "seed": spec.seed, "counts": counts}))
    else:
        partition_table(Console(highlight=False, width=None if sys.stdout.isatty() else 120), spec, counts)
    if picture is not None:
        from .pictures import classes_by_client

        classes_by_client(counts, f"{spec.data}, {spec.skew} c={spec.c:g}, seed {spec.seed}", picture)


def _say_what_is_there(console: Console, folder: Path) -> None:
    """A run that is there already looks like magic unless one says so."""
    record = folder / "trajectory.jsonl"
    if record.exists():
        number = max(0, record.read_bytes().count(b"\n") - 1)
        console.print(
            f"{folder} holds {number} rounds already; only what is missing is trained", markup=False, soft_wrap=True
        )


def _settings(config: Path | None, given: dict[str, Any], around: dict[str, Any]) -> tuple[RunSpec, dict[str, Any]]:
    """The spec and the rest, from the file and, over it, the command line."""
    merged: dict[str, Any] = {}
    if config is not None:
        try:
            loaded = tomllib.loads(config.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise FedhaltError(f"{config} is not a TOML file: {error}") from None
        names = [*FIELDS, *HYPERPARAMETERS, *AROUND]
        merged = {known(f"option in {config}", key.replace("-", "_"), names): value for key, value in loaded.items()}
    merged |= given | around
    for name in ("out", "data_root", "device", "stop"):
        if not isinstance(merged.get(name, ""), str):
            raise FedhaltError(f"{name} must be text, not {merged[name]!r}")
    method = merged.get("method", "fedavg")
    known("method", method, METHODS)
    chosen = {name: _value(merged.pop(name)) for name in HYPERPARAMETERS if name in merged}
    for name in chosen:
        known(f"hyperparameter of {method}", name, hyperparameters(method))
    fields = {name: _typed(FIELDS[name], merged.pop(name)) for name in FIELDS if name in merged}
    return RunSpec(**fields, hyperparameters=tuple(chosen.items())), merged


def _option(name: str, field: dataclasses.Field[Any]) -> Any:
    flag = f"--{name.replace('_', '-')}"
    shown = "" if field.default is None else f" Default: {field.default}."
    if "bool" in str(field.type):
        return Annotated[bool | None, typer.Option(f"{flag}/--no-{flag[2:]}", help=field.metadata["help"] + shown)]
    return Annotated[str | None, typer.Option(flag, help=field.metadata["help"] + shown, show_default=False)]


def _typed(field: dataclasses.Field[Any], value: Any) -> Any:
    """A field's value from the text that was typed; RunSpec checks it."""
    if not isinstance(value, str) or str(field.type).startswith("str"):
        return value
    number = _value(value)
    if isinstance(number, str):
        raise FedhaltError(f"{field.name} must be a number, not {value!r}")
    return number


def _value(text: Any) -> Any:
    """A number if it is one, else the text itself."""
    number = parsed(text) if isinstance(text, str) else None
    return text if number is None else number


def _whole(name: str, text: Any) -> int:
    return whole(name, _value(text))


def after_this_round() -> Callable[[], bool]:
    """Ctrl-C asks for an end after the round; a second one ends at once."""
    asked: list[int] = []

    def handle(number: int, frame: Any) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print("\nfedhalt: ending after this round (Ctrl-C again: at once; nothing recorded is lost)", file=sys.stderr)

    signal.signal(signal.SIGINT, handle)
    return lambda: bool(asked)
