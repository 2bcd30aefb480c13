"""The options of `fedhalt run` and `fedhalt partition` that describe a run: they are the fields of RunSpec."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import FedhaltError, about, require_one_of, text
from ..files import read_toml
from ..methods import METHODS, hyperparameters
from ..simulation.datasets import SHORT
from ..simulation.model import BUFFERS
from ..simulation.partition import PARTITIONERS
from ..simulation.spec import FIELDS, GRADIENTS, HYPERPARAMETERS, ON_EMPTY, OPTIMIZERS, WEIGHTINGS, RunSpec
from .options import STOPPING_OPTIONS
from .types import COUNT, POSITIVE, Float, Integer, Kind, OneOf, Real, number_or_text

NOT_IN_SPEC = (
    "rounds", "rule", "threshold", "patience", "stop", "average", "evaluate", "workers", "device", "out", "data_root",
    "track",
)  # fmt: skip
"""What a run needs besides its spec; all of it may stand in the TOML file too."""

DATA, MODEL, FEDERATION, METHOD, TRAINING, STOPPING, RUNNING = (
    "Data", "Model", "Federation", "Method", "Local training", "Stopping", "Running"
)  # fmt: skip
PANELS = {
    DATA: ("data", "size", "resize", "evaluate_every"),
    MODEL: ("model", "pretrained", "weights", "buffers", "channels_last", "gradient"),
    FEDERATION: ("clients", "cohort", "skew", "c", "on_empty", "key", "held_out"),
    METHOD: ("method", "weighting", "compat"),
    TRAINING: ("lr", "epochs", "batch", "lr_decay", "momentum", "weight_decay", "clip", "optimizer"),
    RUNNING: ("seed",),
}
"""The panel of help that an option is shown in; the order of panels and options is that of help."""

SHARE = Float(min=0, max=1, max_open=True)
NATURAL = Integer(min=0)
TYPES: dict[str, Kind] = {
    "data": OneOf("name", ["digits", *SHORT], others=True),
    "model": OneOf("name", ["cnn"], others=True),
    "weights": OneOf("file", (), others=True),
    "key": OneOf("name", (), others=True),
    "buffers": OneOf("how", BUFFERS),
    "gradient": OneOf("how", GRADIENTS),
    "skew": OneOf("skew", PARTITIONERS),
    "on_empty": OneOf("how", ON_EMPTY),
    "method": OneOf("method", METHODS),
    "compat": OneOf("whose", ["authors"]),
    "optimizer": OneOf("name", OPTIMIZERS),
    "weighting": OneOf("how", WEIGHTINGS),
    "momentum": SHARE,
    "held_out": SHARE,
    "weight_decay": Float(min=0),
    "clip": Float(min=0),
    "c": POSITIVE,
    "lr": POSITIVE,
    "lr_decay": POSITIVE,
    "resize": Integer(min=4),
    "seed": NATURAL,
    "evaluate_every": NATURAL,
}
"""What an option takes; whole numbers above zero where nothing is said and the field is one."""

Config = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", rich_help_panel=RUNNING, help="A TOML file with any of these options; the command line wins."
    ),
]


def with_spec_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command one option per field of RunSpec and per hyperparameter; it receives those given as `given`."""
    annotations: dict[str, Any] = {}
    for panel, names in PANELS.items():
        annotations |= {name: _field_option(FIELDS[name], panel) for name in names}
        if panel == METHOD:
            annotations |= {name: _hyperparameter_option(name) for name in HYPERPARAMETERS}
    options = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in annotations.items()
    ]

    def wrapped(**values: Any) -> None:
        given = {name: values.pop(name) for name in annotations}
        command(**values, given={name: value for name, value in given.items() if value is not None})

    hints = typing.get_type_hints(command, include_extras=True)
    kept = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
            for name, parameter in inspect.signature(command).parameters.items() if name != "given"]  # fmt: skip
    last = [option for option in options if option.name in PANELS[RUNNING]]  # after the command's own panels
    ordered = [*(option for option in options if option not in last), *kept, *last]
    wrapped.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in ordered}
    wrapped.__doc__, wrapped.__name__ = command.__doc__, command.__name__
    return wrapped


def read_settings(
    config: Path | None, given: dict[str, Any], besides: dict[str, Any]
) -> tuple[RunSpec, dict[str, Any]]:
    """The spec and what is not in it, from the file and, over it, the command line."""
    merged = (_read_config(config) if config is not None else {}) | given | besides
    with about(config):
        for name in ("out", "data_root", "device", "stop", "evaluate"):
            text(name, merged.get(name, ""))
        method = require_one_of("method", merged.get("method", "fedavg"), METHODS)
        chosen = {name: number_or_text(merged.pop(name)) for name in HYPERPARAMETERS if name in merged}
        for name in chosen:
            if name in STOPPING_OPTIONS and name not in hyperparameters(method):
                option = STOPPING_OPTIONS[name]
                raise FedhaltError(f"{method} has no hyperparameter {name}; the rule's {option} is --{option}")
            require_one_of(f"hyperparameter of {method}", name, hyperparameters(method))
        fields = {name: _field_value(FIELDS[name], merged.pop(name)) for name in FIELDS if name in merged}
        return RunSpec(**fields, hyperparameters=tuple(chosen.items())), merged


def _read_config(config: Path) -> dict[str, Any]:
    loaded, names = read_toml(config), [*FIELDS, *HYPERPARAMETERS, *NOT_IN_SPEC]
    if "watch" in loaded:
        raise FedhaltError(f"{config}: watch is called rule now: rule = {loaded['watch']!r}")
    return {require_one_of(f"option in {config}", key.replace("-", "_"), names): value for key, value in loaded.items()}


def _field_option(field: dataclasses.Field[Any], panel: str) -> Any:
    flag = f"--{field.name.replace('_', '-')}"
    shown = "" if field.default is None else f" Default: {field.default}."
    texts = {"help": field.metadata["help"] + shown, "rich_help_panel": panel}
    if "bool" in str(field.type):
        return Annotated[bool | None, typer.Option(f"{flag}/--no-{flag[2:]}", **texts)]
    kind = TYPES.get(field.name) or (COUNT if str(field.type).startswith("int") else None)
    return Annotated[str | None, typer.Option(flag, click_type=kind, show_default=False, **texts)]


def _hyperparameter_option(name: str) -> Any:
    defaults = {method: hyperparameters(method)[name] for method in METHODS if name in hyperparameters(method)}
    text = f"Hyperparameter of {'every method' if len(defaults) == len(METHODS) else ', '.join(defaults)}."
    kind: Kind = Real()
    if isinstance(next(iter(defaults.values())), str):
        hints = typing.get_type_hints(METHODS[next(iter(defaults))])
        kind = OneOf("name", typing.get_args(hints[name]))
        text = f"{text} {', '.join(kind.choices)}."
    return Annotated[
        str | None,
        typer.Option(
            f"--{name.replace('_', '-')}", click_type=kind, help=text, show_default=False, rich_help_panel=METHOD
        ),
    ]


def _field_value(field: dataclasses.Field[Any], value: Any) -> Any:
    """A field's value, from the command line or a file; RunSpec checks it."""
    return value if str(field.type).startswith("str") else number_or_text(value)
