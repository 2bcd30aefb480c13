"""Figure `result3`: accuracy at the stop against the threshold, for every method, proposed and validation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from . import render
from .gains import pair, runs
from .render import plt
from .rows import Results, Row, mean, spread, stop
from .setting import METHODS, RHO, TASKS, TAUS, TITLES, VALIDATION, Need, Scale, needs

TITLE = "Figure result3: the threshold"
LINES = 2
"""Lines of panels for each task: ten beside each other are too small to read."""


def specs(scale: Scale) -> Iterator[Need]:
    yield from needs(scale, skews=[("dirichlet", 0.1)], rates=["good"])


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    lines, columns = LINES * len(scale.tasks), len(METHODS) // LINES
    figure, axes = plt.subplots(lines, columns, figsize=(9.5, 1.8 * lines), layout="constrained", sharex=True)
    rows = []
    for block, task in zip(axes.reshape(len(scale.tasks), LINES, columns), scale.tasks, strict=True):
        for axis, method in zip(block.flat, METHODS, strict=True):
            axis.sharey(block[0, 0])
            ours, theirs, rounds = _curves(results, scale, task, method)
            for values, colour, dash, mark in ((ours, render.TEAL, "-", "o"), (theirs, render.RED, "--", "s")):
                middle, wide = np.array([mean(v) for v in values]), np.array([spread(v) for v in values])
                axis.plot(TAUS, middle, color=colour, ls=dash, marker=mark, ms=3, lw=1)
                axis.fill_between(
                    TAUS, middle - np.nan_to_num(wide), middle + np.nan_to_num(wide), color=colour, alpha=0.2
                )
            axis.set_xscale("log")
            axis.set_title(TITLES[method], fontsize=8)
            for tau, mine, rival, r in zip(TAUS, ours, theirs, rounds, strict=True):
                rows.append([TASKS[task], TITLES[method], f"{tau:g}", render.number(mean(r), spread(r)),
                             render.number(mean(mine), spread(mine)), render.number(mean(rival), spread(rival)),
                             str(len(mine))])  # fmt: skip
        for line in block:
            line[0].set_ylabel(f"{TASKS[task]}\nbalanced (%)")
            for axis in line[1:]:
                axis.tick_params(labelleft=False)
    axes[-1, 0].set_xticks(TAUS, [f"{tau:g}".lstrip("0") for tau in TAUS])
    axes[-1, 0].minorticks_off()
    labels = ["proposed", "validation, the better of loss and accuracy"]
    figure.legend(axes[0, 0].get_lines(), labels, loc="outside lower center", ncols=2, title="threshold τ")
    written = render.save(figure, folder / "fig-result3")
    header = ["task", "method", "τ", "r*", "proposed (%)", "better validation rule (%)", "seeds"]
    text, files = render.table(folder / "fig-result3", header, rows)
    note = (
        f"Dirichlet 0.1, rate {scale.rates['good']:g}, Φ = 0.001, ρ = {RHO}; mean and standard deviation over seeds. "
        f"A seed in which a rule never fired within {scale.rounds} rounds counts with the accuracy of the last round."
    )
    return [
        render.page(folder / "fig-result3.md", TITLE, note, "![thresholds](fig-result3.png)", text),
        *written,
        *files,
    ]


def _curves(
    results: Results, scale: Scale, task: str, method: str
) -> tuple[Sequence[list[float]], Sequence[list[float]], Sequence[list[float]]]:
    ours: list[list[float]] = []
    theirs: list[list[float]] = []
    rounds: list[list[float]] = []
    full = [
        row
        for row in runs(results, scale, method, task=task, skew="dirichlet", c=0.1, lr=scale.rates["good"])
        if row["rounds"] >= scale.rounds
    ]
    for tau in TAUS:
        found = [(row, pair(row, tau)) for row in full]
        ours.append([each.proposed.balanced if each else row["final"] for row, each in found])
        rounds.append([float(each.proposed.round) if each else float(row["rounds"]) for row, each in found])
        theirs.append([_better(row, tau) for row in full])
    return ours, theirs, rounds


def _better(row: Row, tau: float) -> float:
    stops = [stop(row, name, tau, RHO) for name in VALIDATION]
    return max(each.balanced if each else row["final"] for each in stops)
