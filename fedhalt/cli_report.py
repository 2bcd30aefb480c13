"""`fedhalt report` and `fedhalt watch`: recorded runs as one file, or live."""

from __future__ import annotations

import contextlib
import sys
from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import typer
from rich.console import Console

from . import rules
from .check import FedhaltError, parsed
from .judge import Candidate, candidate
from .report import check_paths, report

Paths = Annotated[
    list[Path], typer.Argument(metavar="PATH...", help="Run folders, folders of them, trajectories or CSV files.")
]


def report_command(
    paths: Paths,
    out: Annotated[Path, typer.Option("-o", "--out", help="The file to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="The title. Default: the run, or how many there are.")] = None,
) -> None:
    """One HTML file about recorded runs, that opens from disk and needs no network.

    fedhalt report runs/ -o report.html
    """
    made = report(paths, out, title)
    count = "1 run" if made["runs"] == 1 else f"{made['runs']} runs"
    unreadable = f", {made['unreadable']} of them unreadable" if made["unreadable"] else ""
    typer.echo(f"{out}: {count}{unreadable}, {made['bytes'] / 1e6:.2f} MB")


def watch_command(
    paths: Paths,
    port: Annotated[str, typer.Option(help="Port on 127.0.0.1; 0 takes any that is free.")] = "0",
    terminal: Annotated[bool, typer.Option("--terminal", help="A table here instead of a page in a browser.")] = False,
    rule: Annotated[str, typer.Option(help=f"The rule to begin with: {', '.join(rules.RULES)}.")] = "growth",
    threshold: Annotated[str | None, typer.Option(help="Its threshold. Default: the rule's own.")] = None,
    patience: Annotated[str | None, typer.Option(help="Its patience. Default: the rule's own.")] = None,
) -> None:
    """The same view live while runs go on, in a browser or as a table in the terminal; Ctrl-C ends it.

    fedhalt watch runs/
    """
    chosen = _chosen(rule, threshold, patience)
    number = parsed(port)
    if not isinstance(number, int) or not 0 <= number < 2**16:
        raise FedhaltError(f"port must be a whole number from 0 to 65535, not {port!r}")
    check_paths(paths)
    with contextlib.suppress(KeyboardInterrupt):
        if terminal:
            _in_terminal(paths, chosen)
        else:
            _in_browser(paths, chosen, number)


def _in_terminal(paths: list[Path], chosen: Candidate) -> None:
    from .report.terminal import judged, watch
    from .report.watch import Watched

    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    watch(Watched(paths, partial(judged, candidate=chosen)), chosen, console)


def _in_browser(paths: list[Path], chosen: Candidate, port: int) -> None:
    from .report.data import loaded
    from .report.server import Server
    from .report.watch import Watched

    title = f"fedhalt watch {' '.join(map(str, paths))}"
    with Server(Watched(paths, loaded), title, port) as server:
        settings = urlencode({"rule": chosen.name, **chosen.settings})
        typer.echo(f"http://127.0.0.1:{server.server_address[1]}/#{settings}  (Ctrl-C ends)")
        sys.stdout.flush()
        server.serve_forever()


def _chosen(name: str, threshold: str | None, patience: str | None) -> Candidate:
    given = {"threshold": threshold, "patience": patience}
    settings = {key: parsed(text) for key, text in given.items() if text is not None}
    for key, value in settings.items():
        if value is None:
            raise FedhaltError(f"{key} must be a number, not {given[key]!r}")
    return candidate(name, **settings)
