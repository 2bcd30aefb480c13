"""Table 2: accuracy at the proposed stop minus accuracy at the validation stop, by method, skew and c."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ..rules import named_rule
from . import published, render
from .gains import pairs
from .render import plt
from .rows import Results, mean, spread
from .setting import ALL_SKEWS, METHODS, RHO, SYMBOLS, TASKS, TAU, TITLES, VALIDATION, Need, Scale, needs

TITLE = "Table 2: gain over validation-based stopping"
THREE = tuple(named_rule(name, threshold=TAU, patience=RHO) for name in ("growth", *VALIDATION))
KINDS = {
    "": (
        "balanced",
        None,
        "Balanced accuracy against the better validation rule (chosen on test data, as the paper does)",
    ),
    "-loss": ("balanced", "val-loss", "Balanced accuracy against validation loss alone"),
    "-accuracy": ("balanced", "val-accuracy", "Balanced accuracy against validation accuracy alone"),
    "-smooth": (
        "smooth",
        None,
        "Balanced accuracy, mean of the last five rounds up to each stop, against the better rule",
    ),
    "-plain": ("plain", None, "Plain accuracy against the better validation rule"),
}


def specs(scale: Scale) -> Iterator[Need]:
    yield from needs(scale, skews=ALL_SKEWS, rates=["good"], until=THREE)


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    parts, written, header = [], [], ["task", "method", *(f"{SYMBOLS[skew]} {c:g}" for skew, c in ALL_SKEWS)]
    for suffix, (measure, rival, words) in KINDS.items():
        rows, shades, grids = [], [], {}
        for task in scale.tasks:
            found = {(m, *s): _gain(results, scale, task, m, s, measure, rival) for m in METHODS for s in ALL_SKEWS}
            theirs = {(m, *s): _paper(task, m, s) for m in METHODS for s in ALL_SKEWS}
            grids[task] = (
                [[found[m, *s][0] for s in ALL_SKEWS] for m in METHODS],
                [[theirs[m, *s] for s in ALL_SKEWS] for m in METHODS],
            )
            for method in METHODS:
                ours = [found[method, *s] for s in ALL_SKEWS]
                rows.append([TASKS[task], TITLES[method], *(render.number(*each, sign=True) for each in ours)])
                shades.append([None, None, *(render.shade(each[0], 25.0) for each in ours)])
                if not suffix:
                    paper = [theirs[method, *s] for s in ALL_SKEWS]
                    rows.append(["", "paper", *(render.number(each, sign=True) for each in paper)])
                    shades.append([None, None, *(render.shade(each, 25.0) for each in paper)])
        text, files = render.table(folder / f"table2{suffix}", header, rows, shades)
        parts += [f"## {words}", text]
        written += files
        if not suffix:
            written += _picture(grids, scale, folder)
    note = (
        f"τ = {TAU}, ρ = {RHO}, rate {scale.rates['good']:g}, Φ = 0.001; points of accuracy, mean ± standard deviation "
        "over seeds; every rule is judged on the same trajectory. Runs in which a rule never fired within "
        f"{scale.rounds} rounds are left out of its mean, as in the paper."
    )
    return [render.page(folder / "table2.md", TITLE, note, "![gains](table2.png)", *parts), *written]


def _gain(
    results: Results, scale: Scale, task: str, method: str, skew: tuple[str, float], measure: str, rival: str | None
) -> tuple[float, float]:
    found = pairs(results, scale, method, TAU, task=task, skew=skew[0], c=skew[1], lr=scale.rates["good"])
    gains = [gain for each in found if (gain := each.gain(measure, rival)) is not None]
    return mean(gains), spread(gains)


def _paper(task: str, method: str, skew: tuple[str, float]) -> float:
    c = f"{skew[1]:.0f}" if skew[0] == "pathological" else str(skew[1])
    row = published.find("table2_gain_over_validation", task=TASKS[task], method=TITLES[method], skew=skew[0], c=c)
    return float(row["accuracy_gain_points"]) if row else math.nan


def _picture(grids: dict[str, tuple[list[list[float]], list[list[float]]]], scale: Scale, folder: Path) -> list[Path]:
    figure, axes = plt.subplots(len(grids), 2, figsize=(10.5, 2.9 * len(grids)), layout="constrained", squeeze=False)
    columns = [f"${SYMBOLS[skew]}$\n{c:g}" for skew, c in ALL_SKEWS]
    for line, (task, both) in zip(axes, grids.items(), strict=True):
        for axis, who, values in zip(line, ("ours", "paper"), both, strict=True):
            render.heat(
                axis, np.array(values), [TITLES[m] for m in METHODS], columns, colours=render.GAIN, low=-25, high=25,
                text="{:+.1f}",
            )  # fmt: skip
            axis.set_title(f"{TASKS[task]}, {who}")
    figure.suptitle("gain in balanced accuracy (points) of the proposed stop over the best validation stop")
    return render.save(figure, folder / "table2")
