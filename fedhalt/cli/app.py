"""The command line: one file per command; here is what holds them together, and how errors end."""

from __future__ import annotations

import io
import os
import re
import sys
import warnings
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import click
import typer

from .. import __version__
from ..errors import FedhaltError, MissingExtra
from .methods import methods_command
from .options import STOPPING_OPTIONS, Command
from .replay import replay_command
from .report import report_command
from .stopbench import stopbench_command
from .watch import watch_command

COMMANDS = ("run", "replay", "report", "watch", "sweep", "partition", "methods", "stopbench", "reproduce")
"""In the order in which a person meets them."""

SIMULATOR = {
    "run": "Train a federation on this machine and stop it by a rule.",
    "sweep": "Search for a good configuration; stop hopeless trials early and good ones once they converge.",
    "partition": "Show how the data would be split among clients.",
    "reproduce": "Draw the paper's tables and figures; train only what is not recorded yet.",
}
"""The commands that need torch, which takes seconds to import: only the requested one is loaded."""


CLOSED_PIPE = 141
"""The status of a process that SIGPIPE ended, as shells report it."""


class Commands(typer.core.TyperGroup):
    """The commands in their order."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self.commands, key=COMMANDS.index)


app = typer.Typer(
    cls=Commands,
    help="Early stopping for federated learning that needs no data: the server watches only its own parameters.",
    epilog="Start with: fedhalt run --clients 20 --cohort 5 --c 0.5 --lr 0.05",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def top(version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False) -> None:
    if version:
        typer.echo(f"fedhalt {__version__}")
        raise typer.Exit


app.command("replay", cls=Command)(replay_command)
app.command("report", cls=Command)(report_command)
app.command("watch", cls=Command)(watch_command)
app.command("methods", cls=Command)(methods_command)
app.command("stopbench", cls=Command)(stopbench_command)


def main() -> None:
    """Runs a command; what a user can cause ends as one sentence and status 2, never as a traceback."""
    warnings.showwarning = lambda message, *_, **__: print(f"fedhalt: {message}", file=sys.stderr)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files may be any bytes
    try:
        _add_simulator(_asked())
        code = app(standalone_mode=False, prog_name="fedhalt")
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        raise SystemExit(2) from None
    except click.ClickException as error:
        _end(_explain(error))
    except FedhaltError as error:
        _end(str(error))
    except (KeyboardInterrupt, click.Abort):
        raise SystemExit(130) from None
    except BrokenPipeError:
        # whoever read the output has enough of it, as `head` has
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(CLOSED_PIPE) from None
    except SystemExit as end:
        # rich leaves with status 1 when it meets a closed pipe
        raise SystemExit(CLOSED_PIPE if isinstance(end.__context__, BrokenPipeError) else end.code) from None
    except MemoryError:
        _end("this does not fit into the memory of this process")
    except OSError as error:
        _end(f"{error.filename}: " * bool(error.filename) + str(error.strerror or error))
    raise SystemExit(code if isinstance(code, int) else 0)


def _asked() -> str:
    """The command of this call, also of one that asks for the completion of a line."""
    words = os.environ.get("_TYPER_COMPLETE_ARGS", os.environ.get("COMP_WORDS", "")).split()
    return next((word for word in (words or sys.argv)[1:] if not word.startswith("-")), "")


def _explain(error: click.ClickException) -> str:
    """What is wrong with a command line, and where help is."""
    said = error.format_message().rstrip(".")
    for hint in re.findall(r" \(?Did you mean [^?]*\?\)?", said)[1:]:  # click and typer both add one
        said = said.replace(hint, "", 1)
    if isinstance(error, click.NoSuchOption) and error.option_name.lstrip("-") in STOPPING_OPTIONS:
        said = f"No such option {error.option_name}; use --{STOPPING_OPTIONS[error.option_name.lstrip('-')]}"
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    return f"{said} (try {ctx.command_path} --help)" if ctx else said


def _end(sentence: str) -> NoReturn:
    print(f"fedhalt: {sentence}", file=sys.stderr)
    raise SystemExit(2) from None


def _add_simulator(asked: str) -> None:
    """The commands that need torch: the one asked for in full, the others by name; without torch all say so."""
    for name, sentence in SIMULATOR.items():
        if name != asked:
            _add_command(name, lambda: None, sentence)
    if asked not in SIMULATOR:
        return
    try:
        _add_command(asked, *_simulator_command(asked))
    except MissingExtra as missing:
        _add_command(asked, _excuse(str(missing)), "Needs the extra `sim` (torch).", anything=True)


def _simulator_command(name: str) -> tuple[Callable[..., Any], str | None]:
    """The command and, where its docstring is not all of it, its help."""
    from .partition import partition_command
    from .reproduce import reproduce_command
    from .run import HELP, run_command
    from .spec_options import with_spec_options
    from .sweep import sweep_command

    commands: dict[str, Callable[..., Any]] = {
        "run": with_spec_options(run_command),
        "sweep": sweep_command,
        "partition": with_spec_options(partition_command),
        "reproduce": reproduce_command,
    }
    return commands[name], HELP if name == "run" else None


def _add_command(name: str, command: Callable[..., Any], sentence: str | None, anything: bool = False) -> None:
    app.registered_commands = [each for each in app.registered_commands if each.name != name]
    settings = {"ignore_unknown_options": True, "allow_extra_args": True} if anything else {}
    app.command(name, cls=Command, help=sentence, context_settings=settings)(command)


def _excuse(sentence: str) -> Callable[[], None]:
    def absent() -> None:
        raise FedhaltError(sentence)

    return absent
