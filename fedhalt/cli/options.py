"""What several commands share: their options, and how old spellings fail."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import FedhaltError, about, require_one_of
from ..integrations.trackers import TRACKERS
from ..rules import RULES
from ..rules.named import LIMITS, listed
from .types import COUNT, POSITIVE, ListOf, OneOf, option_name

RecordedPaths = Annotated[
    list[Path], typer.Argument(metavar="PATH...", help="Run folders, folders of them, trajectories or CSV files.")
]
JsonList = Annotated[bool, typer.Option("--json", help="Print a list of objects.")]
JsonObject = Annotated[bool, typer.Option("--json", help="Print one object on standard output.")]
DataRoot = Annotated[
    str | None, typer.Option(metavar="FOLDER", help="Folder of the data files. Default: $FEDHALT_DATA.")
]

MODELS = "Saved models"
AreCheckpoints = Annotated[
    bool, typer.Option("--checkpoints", rich_help_panel=MODELS, help="PATH is a folder of saved models.")
]
Start = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", rich_help_panel=MODELS, help="Measure distances from this model. Default: the first one."
    ),
]
Include = Annotated[
    list[str] | None,
    typer.Option(metavar="PATTERN", rich_help_panel=MODELS, help="Measure only arrays that match, e.g. 'model.*'."),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(metavar="PATTERN", rich_help_panel=MODELS, help="Ignore arrays that match, e.g. '*.running_*'."),
]
Columns = Annotated[
    list[Any] | None,
    typer.Option(click_type=ListOf(OneOf("name", (), others=True)), help="Columns to show; --wide shows all."),
]
Wide = Annotated[bool, typer.Option("--wide", help="Show all columns, however long the lines get.")]


class RuleName(OneOf):
    """One of the rules, or a rule that is named with its number."""

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        if "=" not in str(value):
            return require_one_of(option_name(param), value, [*self.choices, *LIMITS])
        with about(option_name(param)):
            listed(str(value)).make()
        return str(value)


RULE = RuleName("rule", RULES)
RULE_LIST, TRACK_LIST = ListOf(RULE), ListOf(OneOf("name", TRACKERS))
THRESHOLD_LIST, COUNT_LIST = ListOf(POSITIVE), ListOf(COUNT)

STOPPING_OPTIONS = {"tau": "threshold", "rho": "patience"}
"""The paper's symbols of the rule, which are also hyperparameters of some methods."""

RENAMED = {"--watch": "--rule"}
"""Options of earlier versions, and what they are called now."""


def refuse_without_checkpoints(given: dict[str, Any]) -> None:
    """Says which of these options was given, if any."""
    for option, value in given.items():
        if value:
            raise FedhaltError(f"{option} needs --checkpoints and a folder of saved models")


class Command(typer.core.TyperCommand):
    """Says how an option is spelled now where it is given as earlier versions took it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options = {name: option for option in self.params for name in option.opts}
        for arg in args:
            if arg == "--":
                break
            new = RENAMED.get(arg.partition("=")[0])
            if new in options and new is not None:
                raise FedhaltError(f"{arg.partition('=')[0]} is called {new} now: {new} growth,val-loss")
        for at in range(len(args) - 1):
            self._check_list(options, args[at:])
        return super().parse_args(ctx, args)

    def _check_list(self, options: dict[str, Any], args: list[str]) -> None:
        """`--rule growth val-loss`, unless the second is an option, or a path that is there."""
        name, equals, value = args[0].partition("=")
        rest = args[1:] if equals else args[2:]
        option = options.get(name)
        if option is None or not isinstance(option.type, ListOf) or not rest:
            return
        if rest[0].partition("=")[0] in options or os.path.lexists(rest[0]):
            return
        try:
            option.type.convert(rest[0], option, None)
        except FedhaltError:
            return
        raise FedhaltError(
            f"{name} takes several values with commas between them: {name} {value if equals else args[1]},{rest[0]}"
        )
