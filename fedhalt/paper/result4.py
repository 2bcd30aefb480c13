"""Figure `result4`: the share of the budget that bad configurations use, by method, skew, c and patience."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..rules import named_rule
from . import render
from .gains import runs
from .render import plt
from .rows import Results, mean, stop
from .setting import ALL_SKEWS, METHODS, RHO, RHOS, SYMBOLS, TASKS, TAU_BAD, TITLES, Need, Scale, needs

TITLE = "Figure result4: patience on bad configurations"
PAPER = {1: 1.3, 5: 2.8, 10: 4.3}
"""The paper's averages in percent of 500 rounds."""


def specs(scale: Scale) -> Iterator[Need]:
    until = (named_rule("growth", threshold=TAU_BAD, patience=RHO),)
    yield from needs(scale, skews=ALL_SKEWS, rates=["bad"], until=until)


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    figure, axes = plt.subplots(
        len(RHOS), len(scale.tasks), figsize=(4.9 * len(scale.tasks), 8.4), layout="constrained", squeeze=False
    )
    rows, used = [], {rho: [] for rho in RHOS}  # type: tuple[list[list[str]], dict[int, list[float]]]
    never = {rho: 0 for rho in RHOS}
    for line, task in zip(axes.T, scale.tasks, strict=True):
        for axis, rho in zip(line, RHOS, strict=True):
            grid = np.full((len(METHODS), len(ALL_SKEWS)), np.nan)
            for i, method in enumerate(METHODS):
                for j, (skew, c) in enumerate(ALL_SKEWS):
                    there = runs(results, scale, method, task=task, skew=skew, c=c, lr=scale.rates["bad"])
                    stops = [stop(row, "growth", TAU_BAD, rho) for row in there]
                    never[rho] += sum(each is None for each in stops)
                    values = [100 * (each.round if each else scale.rounds) / scale.rounds for each in stops]
                    grid[i, j] = mean(values)
                    used[rho] += values
            columns = [f"${SYMBOLS[skew]}$\n{c:g}" for skew, c in ALL_SKEWS]
            render.heat(axis, grid, [TITLES[m] for m in METHODS], columns, colours=render.USED, low=0, high=40, size=7)
            axis.set_title(f"{TASKS[task]}, ρ = {rho}")
    for rho, values in used.items():
        rounds, paper = mean(values) / 100 * scale.rounds, PAPER[rho]
        largest = render.number(max(values, default=float("nan")))
        rows.append([
            f"{rho}", "all runs", render.number(mean(values)), f"{rounds:.1f}", f"{paper} ({paper * 5:.0f})", largest,
            f"{never[rho]} of {len(values)}",
        ])  # fmt: skip
    header = ["ρ", "", "mean r*/R (%)", "mean r*", "paper: % of 500 (rounds)", "largest (%)", "never stopped"]
    text, written = render.table(folder / "fig-result4", header, rows)
    written += render.save(figure, folder / "fig-result4")
    note = (
        f"Rate {scale.rates['bad']:g}, τ = {TAU_BAD}, Φ = 0.001, R = {scale.rounds}, in percent of R; a run that never "
        "stops counts with 100 %."
    )
    return [render.page(folder / "fig-result4.md", TITLE, note, "![used rounds](fig-result4.png)", text), *written]
