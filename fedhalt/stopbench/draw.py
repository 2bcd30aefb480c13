"""The curves and the table of StopBench as files and as text."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import files
from ..views.plots import pyplot, save
from .bench import BUDGET, PAPER, below
from .score import LEVELS

Controls = Mapping[str, Mapping[str, int]]
LOOK = {BUDGET: ("#888888", "--", ""), PAPER: ("#d55e00", "-", "o"), "forward": ("#0072b2", "-", "s")}
"""Drawn with emphasis: the two rules that all others are compared with, and ours."""
ENDS = ("", "_low", "_high")
OTHERS = [
    (colour, dash, mark)
    for dash, mark in (("-", "s"), (":", "^"), ("-.", "D"))
    for colour in ("#009e73", "#cc79a7", "#56b4e9", "#000000", "#e69f00")
]


def table(rows: Sequence[dict[str, Any]], part: str) -> tuple[list[str], list[list[str]]]:
    """Header and cells of the one table, for one part of the runs."""
    header = [
        "rule", "patience", *(f"{level:.0%}" for level in LEVELS), "better than the paper's at", "worse at",
        "never stopped, at 30%", "screening by", "false alarms", "misses", "flagged at",
    ]  # fmt: skip
    cells = []
    for row in (row for row in rows if row["part"] == part):
        held = list(zip(LEVELS, row["against_paper"], strict=True))
        cells.append([
            row["rule"], str(row["patience"]), *(plus_minus(each, 1, 1) for each in row["regret"]),
            " ".join(f"{level:.0%}" for level, each in held if below(each)),
            " ".join(f"{level:.0%}" for level, each in held if each[1] > 1e-9),
            plus_minus(row["never"][LEVELS.index(0.3)], 100, 0, "%"),
            f"{row['screen_threshold']:g} for {row['screen_patience']}", plus_minus(row["false_alarms"], 100, 0, "%"),
            plus_minus(row["misses"], 100, 0, "%"), plus_minus(row["flagged_at"], 1, 0),
        ])  # fmt: skip
    return header, cells


def markdown(header: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *cells]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def write_results(
    rows: Sequence[dict[str, Any]],
    curves: Sequence[dict[str, Any]],
    controls: Mapping[str, Mapping[str, int]],
    folder: Path,
) -> list[Path]:
    """The tables as Markdown, scores and curves as CSV, and the pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    parts = list(dict.fromkeys(row["part"] for row in rows))
    pages = [f"## {heading(rows, part)}\n\n{markdown(*table(rows, part))}" for part in parts]
    note = (
        "Regret in points of smoothed balanced accuracy at a mean cost of so many rounds; ± is half of the 95 % "
        "bootstrap interval over runs. Made by `fedhalt stopbench`; docs/stopbench.md says how to read it."
    )
    pages.append(f"## The runs that were made\n\n{markdown(*control_table(controls))}")
    made = {
        "table.md": "# StopBench\n\n" + note + "\n\n" + "\n".join(pages),
        "scores.csv": as_csv(flat(row) for row in rows),
        "curves.csv": as_csv(curves),
    }
    for name, text in made.items():
        files.write(folder / name, text.encode())
    return [*(folder / name for name in made), _curves(curves, rows, folder), _screening(rows, folder)]


def control_table(controls: Controls) -> tuple[list[str], list[list[str]]]:
    """Header and cells: where each rule stops the runs whose right answer is known."""
    names = list(dict.fromkeys(name for found in controls.values() for name in found))
    words = [[rule, *(_stop(found.get(name)) for name in names)] for rule, found in controls.items()]
    return ["rule", *names], words


def by_table(found: Mapping[str, Mapping[str, tuple[float, float]]]) -> tuple[list[str], list[list[str]]]:
    """Header and cells: share of the rounds used and regret, a column per value of a field."""
    values = list(dict.fromkeys(value for row in found.values() for value in row))
    return ["rule", *values], [
        [rule, *(f"{row[value][0]:.0%} {row[value][1]:.1f}" for value in values)] for rule, row in found.items()
    ]


def _curves(curves: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]], folder: Path) -> Path:
    """Regret against cost, a column per part; below, how much more than a fixed budget of the same cost gives up."""
    plt = pyplot("agg")
    parts = list(dict.fromkeys(row["part"] for row in rows))
    size = (4.6 * len(parts) + 1.6, 7.2)
    figure, axes = plt.subplots(
        2, len(parts), figsize=size, layout="constrained", squeeze=False, sharex=True, sharey="row"
    )
    for (above, beneath), part in zip(axes.T, parts, strict=True):
        lines = {rule: _line(curves, part, rule) for rule in _looks(rows)}
        for rule, (colour, dash, mark) in _looks(rows).items():
            cost, regret, low, high = lines[rule]
            budget = np.interp(cost, *lines[BUDGET][:2])
            look = {"color": colour, "marker": mark, "markersize": 3.5, "linewidth": 2.2 if rule in LOOK else 1.2}
            above.plot(cost, regret, dash, label=rule, **look)
            beneath.plot(cost, regret - budget, dash, **look)
            if rule in LOOK:
                above.fill_between(cost, low, high, color=colour, alpha=0.15, linewidth=0)
        above.set(title=heading(rows, part), xlim=(0, 1), ylim=(0, None))
        beneath.set(xlabel="share of the rounds used", ylim=(-3, 8))
        for axis in (above, beneath):
            axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("accuracy given up (points)")
    axes[1][0].set_ylabel("more than a fixed budget of the same cost (points)")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside right center", fontsize=7)
    return save(plt, figure, folder / "curves.png")


def _line(curves: Sequence[dict[str, Any]], part: str, rule: str) -> Any:
    """Cost, regret and the ends of its interval at the chosen patience, in the order of cost."""
    names = ("cost", "regret", "regret_low", "regret_high")
    points = [row for row in curves if row["part"] == part and row["rule"] == rule and row["chosen"]]
    return np.array(sorted([row[name] for name in names] for row in points)).T


def _screening(rows: Sequence[dict[str, Any]], folder: Path) -> Path:
    """False alarms against misses, a point per rule at its chosen setting."""
    plt = pyplot("agg")
    part = rows[0]["part"]
    figure, axis = plt.subplots(figsize=(6.6, 4.6), layout="constrained")
    for row in (row for row in rows if row["part"] == part):
        colour, _, mark = _looks(rows)[row["rule"]]
        x, y = (value[0] for value in (row["false_alarms"], row["misses"]))
        bars = [[[value[0] - value[1]], [value[2] - value[0]]] for value in (row["false_alarms"], row["misses"])]
        if not math.isnan(x + y):
            axis.errorbar(
                x, y, bars[1], bars[0], color=colour, marker=mark or "x", capsize=2, lw=0.8, label=row["rule"]
            )
    axis.set(xlabel="false alarms: good runs that are flagged", ylabel="misses: hopeless runs that are not")
    axis.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), title=f"Screening, {heading(rows, part)}")
    axis.grid(alpha=0.3)
    if axis.containers:
        figure.legend(loc="outside right center", fontsize=7)
    return save(plt, figure, folder / "screening.png")


def heading(rows: Sequence[dict[str, Any]], part: str) -> str:
    row = next(row for row in rows if row["part"] == part)
    return f"{part}: {row['runs']} runs, {row['good']} good, {row['hopeless']} hopeless"


def _looks(rows: Sequence[dict[str, Any]]) -> dict[str, tuple[str, str, str]]:
    names = dict.fromkeys(row["rule"] for row in rows)
    rest = [name for name in names if name not in LOOK]
    return {**{name: LOOK[name] for name in LOOK if name in names}, **dict(zip(rest, OTHERS * 3, strict=False))}


def flat(row: dict[str, Any]) -> dict[str, Any]:
    """A row of the table as one of a CSV file: value, low and high apart."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        each = (
            {f"{key}_{level:g}": one for level, one in zip(LEVELS, value, strict=True)}
            if isinstance(value, list)
            else {key: value}
        )
        for name, one in each.items():
            if isinstance(one, tuple):
                flat |= {f"{name}{end}": number for end, number in zip(ENDS, one, strict=True)}
            else:
                flat[name] = one
    return flat


def as_csv(rows: Iterable[dict[str, Any]]) -> str:
    lines = list(rows)
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
    writer.writeheader()
    for row in lines:
        writer.writerow({key: f"{value:.5g}" if isinstance(value, float) else value for key, value in row.items()})
    return text.getvalue()


def plus_minus(value: tuple[float, float, float], times: float, digits: int, unit: str = "") -> str:
    """A number and half the width of its interval."""
    if math.isnan(value[0]):
        return "-"
    return f"{times * value[0]:.{digits}f}{unit} ±{times * (value[2] - value[1]) / 2:.{digits}f}"


def _stop(found: int | None) -> str:
    if found is None:
        return "-"
    return str(found) if found else "never"
