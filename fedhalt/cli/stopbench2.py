"""`fedhalt stopbench --set 2`: pairs of a rule and the model that is shipped, on what is recorded so far."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from .. import files
from ..stopbench import draw2, pairs
from ..stopbench.bench import fields
from ..stopbench.runs import Run
from ..stopbench.score import LEVELS
from ..stopbench.screening2 import SCREENS, screened
from ..views.terminal.display import make_console, make_table


def score(
    found: list[Run], asked: Sequence[str], tune: str, by: str | None, folder: Path | None, wide: bool, as_json: bool
) -> None:
    """Scores the pairs and the screens; writes and prints them."""
    values = fields(found, by) if by is not None else []  # before the work, not after it
    measured = pairs.measured(found, asked or pairs.readable(found), tune)
    rows = pairs.scores(measured)
    screens = screened(measured) if set(SCREENS) <= set(pairs.readable(found)) else []
    if folder is not None:
        for path in draw2.write_results(measured, rows, screens, folder):
            typer.echo(f"written: {path}", err=True)
    best = pairs.recommended(rows)
    apart = draw2.by_value(measured, by, values) if by is not None else None
    if as_json:
        told = {"levels": list(LEVELS), "scores": rows, "screening": screens, "recommended": best._asdict(),
                "goals": pairs.goals(rows, best), "by": _records(*apart) if apart else []}  # fmt: skip
        typer.echo(files.to_json(told))
        return
    console = make_console(200)
    tables = draw2.tables(rows, screens)
    if apart is not None:
        tables.append((draw2.BY.format(by), apart))
    for title, (header, cells) in tables:
        console.print(title, markup=False, soft_wrap=True)
        last = f"{LEVELS[-1]:.0%}"  # what follows the regret at every cost is for wide screens
        shown = len(header) if wide or last not in header else 1 + header.index(last)
        table = make_table(header[:shown], left=header[:2])
        for line in cells:
            table.add_row(*line[:shown])
        console.print(table)
        console.print()
    console.print(f"least regret on the tuned part at 10 to 30%, without data: {best.rule}, ships {best.ship}")
    if gained := draw2.gains(rows, best):
        console.print(f"at 10, 20 and 30% of the rounds it gives up so many points less {gained}", soft_wrap=True)
    for goal, reached in pairs.goals(rows, best).items():
        console.print(f"goal {goal.replace('_', ' ')}: {'reached' if reached else 'not reached'}")


def _records(header: list[str], cells: list[list[str]]) -> list[dict[str, str]]:
    """A table as objects."""
    return [dict(zip(header, line, strict=True)) for line in cells]
