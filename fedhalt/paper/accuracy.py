"""Tables of accuracy, ours above the paper's: what tables 0 and 1 share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from . import published, render
from .rows import Results, mean, spread
from .setting import METHODS, TASKS, TITLES, Scale, phis


class Cell(NamedTuple):
    """The best over phi: mean and spread over seeds, the exponent of phi, how many seeds."""

    mean: float
    spread: float
    log_phi: int | None
    seeds: int


Published = Callable[[str, str], tuple[float, int | None] | None]
"""The paper's accuracy and exponent of phi for the titles of a task and a method; None for what it did not run."""


class Line(NamedTuple):
    """A line of a table: its label, the settings of its runs, and what the paper has there."""

    label: str
    where: dict[str, Any]
    published: Published
    methods: Sequence[str] = METHODS
    tasks: Sequence[str] | None = None
    """Where not every task has such runs: those that do."""


MEASURES = {
    "final": "Balanced accuracy (%) of the last round, as in the paper's tables",
    "best": "Balanced accuracy (%) of the best round (the paper does not say which of the two it shows)",
    "final_plain": "Plain accuracy (%) of the last round",
}


def cell(results: Results, scale: Scale, method: str, measure: str, **where: Any) -> Cell | None:
    """Mean over seeds at the best phi, which is a choice on test data, as in the paper.

    While runs are missing, the phi is chosen on the seeds that all of its values have: more seeds are no advantage.
    """
    found: dict[float | None, dict[int, float]] = {}
    for phi in phis(method):
        runs = results.select(method=method, phi=phi, model=scale.model["model"], **where)
        ended = [run for run in runs if run["rounds"] >= scale.rounds or run["diverged"]]
        if ended:
            found[phi] = {run["seed"]: run[measure] for run in ended}
    if not found:
        return None
    common = set.intersection(*(set(values) for values in found.values()))
    best = max(found, key=lambda phi: mean([found[phi][seed] for seed in common or found[phi]]))
    values = list(found[best].values())
    return Cell(mean(values), spread(values), None if best is None else round(math.log10(best)), len(values))


def draw(results: Results, scale: Scale, name: str, title: str, blocks: Sequence[Line], folder: Path) -> list[Path]:
    """A page with one table per measure, and each table in LaTeX."""
    parts, written = [], []
    for measure, words in MEASURES.items():
        rows = []
        for task in scale.tasks:
            lines = [line for line in blocks if line.tasks is None or task in line.tasks]
            cells = {
                line.label: {m: cell(results, scale, m, measure, task=task, **line.where) for m in line.methods}
                for line in lines
            }
            for line in lines:
                rows.append([TASKS[task], line.label, "ours", *_ours(cells, line)])
                theirs = [line.published(TASKS[task], TITLES[method]) for method in METHODS]
                if measure == "final" and any(theirs):
                    rows.append(["", "", "paper", *(_paper(each) for each in theirs)])
        header = ["task", "runs", "", *(TITLES[method] for method in METHODS)]
        suffix = "" if measure == "final" else f"-{measure.replace('_', '-')}"
        text, files = render.table(folder / f"{name}{suffix}", header, rows)
        parts += [f"## {words}", text]
        written += files
    seeds = f"Mean ± standard deviation over the seeds that are there (up to three); {scale.rounds} rounds."
    key = "In parentheses log10 of the best Φ; ▲ the best line of this method in a task; bold the best of a line."
    return [render.page(folder / f"{name}.md", title, f"{seeds} {key}", *parts), *written]


def _ours(cells: dict[str, dict[str, Cell | None]], line: Line) -> list[str]:
    mine = cells[line.label]
    top = max((each.mean for each in mine.values() if each), default=math.nan)
    shown = []
    for method in METHODS:
        each = mine.get(method)
        if each is None:
            shown.append("–")
            continue
        rivals = [other[method].mean for other in cells.values() if other.get(method)]  # type: ignore[union-attr]
        arrow = "▲" if each.mean >= max(rivals) else "▼"
        phi = "" if each.log_phi is None else f" ({each.log_phi})"
        text = f"{render.number(each.mean, each.spread)} {arrow}{phi}"
        shown.append(f"**{text}**" if each.mean == top else text)
    return shown


def published_in(table: str, **where: Any) -> Published:
    """What a table of the paper says where these columns have these values."""

    def found(task: str, method: str) -> tuple[float, int | None] | None:
        row = published.find(table, task=task, method=method, **where)
        if row is None:
            return None
        return float(row["accuracy_percent"]), int(row["log10_phi"]) if row["log10_phi"] else None

    return found


def _paper(each: tuple[float, int | None] | None) -> str:
    if each is None:
        return "–"
    return f"{each[0]:.1f}" + ("" if each[1] is None else f" ({each[1]})")
