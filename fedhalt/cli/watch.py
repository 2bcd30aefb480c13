"""`fedhalt watch`: recorded runs live, in a browser or in the terminal."""

from __future__ import annotations

import contextlib
import sys
import time
from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import urlencode

import typer

from ..rules import NamedRule, named_rule
from ..views.live import PAUSE, LiveRuns
from ..views.terminal.display import make_console
from .options import RULE, Columns, RecordedPaths, Wide
from .types import COUNT, POSITIVE, Integer, flat


def watch_command(
    paths: RecordedPaths,
    port: Annotated[
        int, typer.Option(click_type=Integer(min=0, max=2**16 - 1), help="Port on 127.0.0.1; 0 for any free one.")
    ] = 0,
    terminal: Annotated[
        bool, typer.Option("--terminal", help="Show a table here instead of a page in a browser.")
    ] = False,
    columns: Columns = None,
    wide: Wide = False,
    rule: Annotated[
        str, typer.Option(click_type=RULE, help=f"The rule to start with: {', '.join(RULE.choices)}.")
    ] = "growth",
    threshold: Annotated[
        float | None, typer.Option(click_type=POSITIVE, help="Its threshold. Default: the rule's own.")
    ] = None,
    patience: Annotated[
        int | None, typer.Option(click_type=COUNT, help="Its patience. Default: the rule's own.")
    ] = None,
) -> None:
    """Show runs live, in a browser or as a table in the terminal, until Ctrl-C.

    PATH is a run folder, a folder of run folders, a trajectory or a CSV file;
    watch waits for a path that does not exist yet.

    fedhalt watch runs/
    """
    typed = {"threshold": threshold, "patience": patience}
    chosen = named_rule(rule, **{name: value for name, value in typed.items() if value is not None})
    with contextlib.suppress(KeyboardInterrupt):
        _wait_for(paths)
        if terminal:
            _in_terminal(paths, chosen, flat(columns), wide)
        else:
            _in_browser(paths, chosen, port)


def _wait_for(paths: list[Path]) -> None:
    """A run may be watched before it begins."""
    for path in paths:
        if not path.exists():
            print(f"waiting for {path} (press Ctrl-C to stop)", file=sys.stderr, flush=True)
        while not path.exists():
            time.sleep(PAUSE)


def _in_terminal(paths: list[Path], chosen: NamedRule, columns: list[str], wide: bool) -> None:
    from ..views.terminal.watch import check_columns, judged, watch

    check_columns(columns)
    watch(LiveRuns(paths, partial(judged, named=chosen)), chosen, make_console(), columns, wide)


def _in_browser(paths: list[Path], chosen: NamedRule, port: int) -> None:
    from ..views.page.data import loaded
    from ..views.server import Server

    title = f"fedhalt watch {' '.join(map(str, paths))}"
    with Server(LiveRuns(paths, loaded), title, port) as server:
        settings = urlencode({"rule": chosen.name, **chosen.settings})
        typer.echo(f"http://127.0.0.1:{server.server_address[1]}/#{settings}  (press Ctrl-C to stop)")
        sys.stdout.flush()
        server.serve_forever()
