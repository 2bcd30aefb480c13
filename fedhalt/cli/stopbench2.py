"""`fedhalt stopbench --set 2`: pairs of a rule and the model that is shipped, on what is recorded so far."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from .. import files
from ..stopbench import draw, pairs
from ..stopbench.bench import TUNED
from ..stopbench.runs import Run
from ..stopbench.score import LEVELS
from ..stopbench.screening2 import SCREENS, screened
from ..views.terminal.display import make_console, make_table

Table = tuple[list[str], list[list[str]]]


def score(found: list[Run], asked: Sequence[str], tune: str, folder: Path | None, wide: bool, as_json: bool) -> None:
    """Scores the pairs and the screens; writes and prints them."""
    measured = pairs.measured(found, asked or pairs.readable(found), tune)
    rows = pairs.scores(measured)
    screens = screened(measured) if set(SCREENS) <= set(pairs.readable(found)) else []
    if folder is not None:
        _write(folder, rows, screens)
    best = pairs.recommended(rows)
    if as_json:
        told = {"levels": list(LEVELS), "scores": rows, "screening": screens, "recommended": best._asdict(),
                "goals": pairs.goals(rows, best)}  # fmt: skip
        typer.echo(files.to_json(told))
        return
    console = make_console(200)
    for title, (header, cells) in _tables(rows, screens):
        console.print(title, markup=False, soft_wrap=True)
        shown = len(header) if wide else 3 + len(LEVELS)  # the pair, its patience, and the regret at every cost
        table = make_table(header[:shown], left=header[:2])
        for line in cells:
            table.add_row(*line[:shown])
        console.print(table)
        console.print()
    console.print(f"least regret on the tuned part at 10 to 30%, without data: {best.rule}, ships {best.ship}")
    for goal, reached in pairs.goals(rows, best).items():
        console.print(f"goal {goal.replace('_', ' ')}: {'reached' if reached else 'not reached'}")


def _write(folder: Path, rows: Sequence[dict[str, Any]], screens: Sequence[dict[str, Any]]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    pages = [f"## {title}\n\n{draw.markdown(*table)}" for title, table in _tables(rows, screens)]
    made = {"table.md": "# StopBench 2\n\n" + "\n".join(pages), "scores.csv": draw.as_csv(map(draw.flat, rows))}
    if screens:
        made["screening.csv"] = draw.as_csv(map(draw.flat, screens))
    for name, text in made.items():
        files.write(folder / name, text.encode())
        typer.echo(f"written: {folder / name}", err=True)


def _tables(rows: Sequence[dict[str, Any]], screens: Sequence[dict[str, Any]]) -> list[tuple[str, Table]]:
    """Titles and tables: the pairs of each part, then the screens of each part."""
    found = []
    levels = [f"{level:.0%}" for level in LEVELS]
    against = [f"{level} - {rival}" for rival in ("paper's", "budget's") for level in levels[:3]]
    for part in dict.fromkeys(row["part"] for row in rows):
        mine = [row for row in rows if row["part"] == part]
        cells = [
            [row["rule"] + ("*" if row["needs"] else ""), row["ship"], str(row["patience"])]
            + [draw.plus_minus(each, 1, 1) for key in ("regret",) for each in row[key]]
            + [draw.plus_minus(each, 1, 1) for key in ("against_paper", "against_budget") for each in row[key][:3]]
            for row in mine
        ]
        title = f"{part}: {mine[0]['runs']} runs, regret in points (* needs data or a number from clients)"
        found.append((title, (["rule", "ships", "patience", *levels, *against], cells)))
    for part in dict.fromkeys(row["part"] for row in screens):
        mine = [row for row in screens if row["part"] == part]
        cells = [
            [row["screen"], f"{row['threshold']:g} for {row['patience']}"]
            + [draw.plus_minus(row[key], 100, 0, "%") for key in ("false_alarms", "misses", "too_small_flagged")]
            for row in mine
        ]
        title = f"screening by round 50, {part}: {mine[0]['good']} good runs, {mine[0]['hopeless']} hopeless"
        found.append((title, (["screen", "setting", "false alarms", "misses", "too small, flagged"], cells)))
    return sorted(found, key=lambda each: TUNED in each[0])
