"""Figure `reason`: the change of the distance has another scale for every method and rate, the growth rate has not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import render
from .render import plt
from .rows import Results
from .setting import METHODS, PHI, TASKS, TAU, TITLES, Need, Scale, needs, phis

TITLE = "Figure reason: why the growth rate and not the difference"
RATES = ("good", "bad")
WINDOW = 9
DASHES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)), (0, (8, 2)), (0, (4, 4)), (0, (1, 4)))


def specs(scale: Scale) -> Iterator[Need]:
    first = [need for need in needs(scale, skews=[("dirichlet", 0.1)], rates=RATES, curve=True) if need.spec.seed == 0]
    yield from first


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    written: list[Path] = []
    lines = [
        f"Seed 0, Dirichlet 0.1, Φ = 0.001, τ = {TAU}; all methods at the good and the bad rate; "
        f"running medians over {WINDOW} rounds."
    ]
    for task in scale.tasks:
        wide = factors(results, scale, task)
        if not wide:
            continue
        figure, axes = plt.subplots(2, 2, figsize=(9, 5.2), layout="constrained", sharex=True, sharey="row")
        for column, rate in enumerate(RATES):
            for place, method in enumerate(METHODS):
                change, growth = _curve(results, scale, task, method, rate)
                if not len(change):
                    continue
                style = {"ls": DASHES[place], "color": plt.get_cmap("viridis")(place / 10), "lw": 1.0}
                r = np.arange(2, len(change) + 2)
                axes[0, column].plot(r, _smooth(change), label=TITLES[method], **style)
                axes[1, column].plot(r, _smooth(growth), **style)
            axes[0, column].set_title(f"{rate} rate, {scale.rates[rate]:g}")
            axes[1, column].set_xlabel("round")
            axes[1, column].axhline(TAU, color=render.RED, lw=1)
            for axis in axes[:, column]:
                axis.set_yscale("log")
                if not axes[0, column].get_lines():  # nothing recorded at this rate
                    axis.axis("off")
        axes[0, 0].set_ylabel(r"$|\delta_r - \delta_{r-1}|$")
        axes[1, 0].set_ylabel("$g_r$")
        known = max(axes[0], key=lambda axis: len(axis.get_lines()))
        figure.legend(*known.get_legend_handles_labels(), fontsize=7, ncols=5, loc="outside lower center")
        figure.suptitle(TASKS[task])
        written += render.save(figure, folder / f"fig-reason-{task}")
        lines.append(
            f"{TASKS[task]}: the median over the second quarter of a run differs between the runs by a factor of "
            f"{wide['difference']:.3g} for |δ_r − δ_(r−1)| and of {wide['growth']:.3g} for g_r.\n\n"
            f"![{task}](fig-reason-{task}.png)"
        )
    return [render.page(folder / "fig-reason.md", TITLE, *lines), *written]


def _smooth(values: Any) -> Any:
    """The running median over nearby rounds: single rounds jump by a factor of ten."""
    half = WINDOW // 2
    return [float(np.median(values[max(0, i - half) : i + half + 1])) for i in range(len(values))]


def factors(results: Results, scale: Scale, task: str) -> dict[str, float]:
    """Largest over smallest typical value among all methods and both rates: what one threshold would have to span."""
    curves = [_curve(results, scale, task, method, rate) for method in METHODS for rate in RATES]
    known = [(change, growth) for change, growth in curves if len(change) > 8]
    if not known:
        return {}
    typical = [[float(np.median(each[len(each) // 4 : len(each) // 2])) for each in pair] for pair in known]
    low, high = np.min(typical, axis=0), np.max(typical, axis=0)
    return {name: float(high[i] / max(low[i], 1e-300)) for i, name in enumerate(("difference", "growth"))}


def _curve(results: Results, scale: Scale, task: str, method: str, rate: str) -> tuple[Any, Any]:
    """|δ_r − δ_(r−1)| and g_r from round 2 on; empty if the run is not recorded."""
    settings = {"skew": "dirichlet", "c": 0.1, "lr": scale.rates[rate], "seed": 0}
    rows = results.curves.get(scale.spec(task, method, phi=phis(method, (PHI,))[0], **settings).id, [])
    distance = np.array([row["distance"] for row in rows], float)
    change = np.abs(np.diff(distance))
    return change, change / distance[:-1]
