"""Figure `reason`: the change of the distance has another scale for every method and rate, the growth rate has not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from . import render
from .render import plt
from .rows import Results
from .setting import METHODS, PHI, TASKS, TAU, TITLES, Need, Scale, needs, phis

TITLE = "Figure reason: why the growth rate and not the difference"
RATES = ("good", "bad")
DASHES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)), (0, (8, 2)), (0, (4, 4)), (0, (1, 4)))


def specs(scale: Scale) -> Iterator[Need]:
    first = [need for need in needs(scale, skews=[("dirichlet", 0.1)], rates=RATES, curve=True) if need.spec.seed == 0]
    yield from first


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    written: list[Path] = []
    lines = [f"Seed 0, Dirichlet 0.1, Φ = 0.001, τ = {TAU}; all methods at the good and the bad rate."]
    for task in scale.tasks:
        figure, axes = plt.subplots(2, 2, figsize=(9, 5.2), layout="constrained", sharex=True, sharey="row")
        scales: dict[str, list[float]] = {"difference": [], "growth": []}
        for column, rate in enumerate(RATES):
            for place, method in enumerate(METHODS):
                found = _curve(results, scale, task, method, rate)
                if found is None:
                    continue
                r, distance = found
                change = np.abs(np.diff(distance))
                style = {"ls": DASHES[place], "color": plt.get_cmap("viridis")(place / 10), "lw": 1.0}
                axes[0, column].plot(r[1:], np.maximum(change, 1e-12), label=TITLES[method], **style)
                axes[1, column].plot(r[1:], np.maximum(change / distance[:-1], 1e-12), **style)
                middle = slice(len(change) // 4, len(change) // 2)
                scales["difference"].append(float(np.median(change[middle])))
                scales["growth"].append(float(np.median(change[middle] / distance[:-1][middle])))
            axes[0, column].set_title(f"{rate} rate, {scale.rates[rate]:g}")
            axes[1, column].set_xlabel("round")
        for axis in axes.flat:
            axis.set_yscale("log")
        axes[1, 0].axhline(TAU, color=render.RED, lw=1)
        axes[1, 1].axhline(TAU, color=render.RED, lw=1, label="τ")
        axes[0, 0].set_ylabel(r"$|\delta_r - \delta_{r-1}|$")
        axes[1, 0].set_ylabel("$g_r$")
        if scales["growth"]:
            figure.legend(*axes[0, 0].get_legend_handles_labels(), fontsize=7, ncols=5, loc="outside lower center")
        figure.suptitle(f"{TASKS[task]}")
        written += render.save(figure, folder / f"fig-reason-{task}")
        if scales["growth"]:
            wide = {name: max(values) / max(min(values), 1e-300) for name, values in scales.items()}
            lines.append(
                f"{TASKS[task]}: the median over the second quarter of the run differs between the "
                f"{len(scales['growth'])} runs by a factor of {wide['difference']:.3g} for |δ_r − δ_(r−1)| and of "
                f"{wide['growth']:.3g} for g_r.\n\n![{task}](fig-reason-{task}.png)"
            )
    return [render.page(folder / "fig-reason.md", TITLE, *lines), *written]


def _curve(results: Results, scale: Scale, task: str, method: str, rate: str) -> tuple[np.ndarray, np.ndarray] | None:
    settings = {"skew": "dirichlet", "c": 0.1, "lr": scale.rates[rate], "seed": 0}
    rows = results.curves.get(scale.spec(task, method, phi=phis(method, (PHI,))[0], **settings).id)
    if rows is None:
        return None
    return np.array([row["round"] for row in rows]), np.array([row["distance"] for row in rows], float)
