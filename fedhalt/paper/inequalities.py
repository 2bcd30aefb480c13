"""The inequalities of the paper's analysis on every recorded round, and how often its condition explains a stop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from . import render, result4, table0, table1, table2
from .rows import Results
from .setting import RHO, TASKS, TAU, TAU_BAD, Need, Scale, merged

TITLE = "The analysis of the paper on every recorded round"


def specs(scale: Scale) -> Iterator[Need]:
    yield from merged(need for item in (table0, table1, table2, result4) for need in item.specs(scale))


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    rows, stops = [], []
    words = {scale.rates[word]: word for word in scale.rates}
    for task in scale.tasks:
        for rate, word in words.items():
            mine = [row for row in results.select(task=task, lr=rate, model=scale.model["model"]) if row["checked"]]
            sums = {key: sum(int(row[key]) for row in mine) for key in ("checked", *BROKEN)}
            rows.append([TASKS[task], f"{word} ({rate:g})", str(len(mine)), *(f"{sums[key]:,}" for key in sums)])
            for tau in (TAU, TAU_BAD):
                known = [int(row[f"enough {tau:g}"]) for row in mine if row.get(f"enough {tau:g}") is not None]
                share = f"{sum(known)} of {len(known)}" + (f" ({sum(known) / len(known):.0%})" if known else "")
                stops.append([TASKS[task], f"{word} ({rate:g})", f"{tau:g}", share])
    table, written = render.table(
        folder / "inequalities", ["task", "rate", "runs", "rounds checked", *BROKEN.values()], rows
    )
    second, files = render.table(
        folder / "inequalities-stops", ["task", "rate", "τ", "stops where the condition held"], stops
    )
    note = (
        "Every round of every run of tables 0 to 2 and figure result4, r ≥ 2, all four τ for the condition. The "
        "inequalities are theorems: a round that broke one would be an error of the recording (distances are "
        "correct to 1e-6)."
    )
    condition = (
        "## Does the condition explain the stops?\n\n"
        "The paper argues that a bad configuration stops because δ_(r−1) > ε/τ. Here: among the runs that stopped "
        f"(ρ = {RHO}), those in which this held for all ρ counted rounds, with ε the largest update of these rounds. "
        "In the others the rule fired although updates were larger than τ δ: they pointed sideways and hardly changed "
        "the distance."
    )
    return [render.page(folder / "inequalities.md", TITLE, note, table, condition, second), *written, *files]


BROKEN = {
    "broken change": "|δ_r − δ_(r−1)| > ‖u_r‖",
    "broken growth": "g_r > ‖u_r‖/δ_(r−1)",
    "broken condition": "δ_(r−1) > ‖u_r‖/τ but g_r ≥ τ",
}
