"""The control that the paper lacks: a random walk and a straight drift through the same rule, and how far runs are off.

For a distance that grows like r^a the growth rate is a / r, so the rule fires near r* = a / τ + ρ whatever the model
learns: near 1 / τ for a straight drift, near 1 / (2 τ) for a random walk, a little earlier with a decaying rate.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..records.trajectory import Trajectory
from ..rules import GrowthRate, stop_round
from . import render
from .gains import runs
from .render import plt
from .rows import Results, mean, spread, stop
from .setting import METHODS, RHO, TASKS, TAU, TAU_BAD, TAUS, TITLES, Need, Scale, needs

TITLE = "Control: the rule as a clock"
DECAY = 0.998
DIMENSIONS, LENGTH, WALKS = 10_248, 400, 10
"""As many parameters as the probe of the blood cells has, rounds enough for every threshold, the number of walks."""
CONTROLS = ("straight drift", "straight drift, decaying", "random walk", "random walk, decaying")


def specs(scale: Scale) -> Iterator[Need]:
    yield from needs(scale, skews=[("dirichlet", 0.1)], rates=["good", "bad"])


def control(name: str, seed: int) -> Trajectory:
    """The distances of a model that learns nothing."""
    draw = np.random.default_rng(seed)
    steps = draw.standard_normal((1 if name.startswith("straight") else LENGTH, DIMENSIONS))
    decay = DECAY ** np.arange(LENGTH) if name.endswith("decaying") else np.ones(LENGTH)
    distance = np.sqrt(np.square(np.cumsum(decay[:, None] * steps, axis=0)).sum(axis=1))
    return Trajectory([{"round": r + 1, "distance": float(distance[r])} for r in range(LENGTH)])


def stops(name: str) -> dict[float, list[float]]:
    """Where the rule ends the control at each threshold, for several walks; a straight line is always the same."""
    walks = [control(name, seed) for seed in range(WALKS if "walk" in name else 1)]
    return {tau: [float(stop_round(GrowthRate(tau, RHO), walk) or math.nan) for walk in walks] for tau in TAUS}


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    controls = {name: stops(name) for name in CONTROLS}
    rows = [
        [name, "r*", *(render.number(mean(found[tau]), spread(found[tau])) for tau in TAUS)]
        for name, found in controls.items()
    ]
    rows += [[f"a = {a:g}", "a/τ + ρ", *(f"{a / tau + RHO:.0f}" for tau in TAUS)] for a in (1.0, 0.5)]
    table, written = render.table(folder / "clock-controls", ["control", "", *(f"τ = {tau:g}" for tau in TAUS)], rows)
    band = {tau: (mean(controls[CONTROLS[3]][tau]), mean(controls[CONTROLS[1]][tau])) for tau in (TAU, TAU_BAD)}
    parts = [table]
    for rate, tau in (("good", TAU), ("bad", TAU_BAD)):
        lines, picture = [], []
        for task in scale.tasks:
            for method in METHODS:
                found = runs(results, scale, method, task=task, skew="dirichlet", c=0.1, lr=scale.rates[rate])
                lines.append([TASKS[task], TITLES[method], *_line(found, tau, band[tau])])
                picture += [(task, method, each.round) for row in found if (each := stop(row, "growth", tau, RHO))]
        header = [
            "task",
            "method",
            "r*",
            "exponent a at the stop",
            "a/τ + ρ",
            "r* minus that",
            "in the band of the controls",
        ]
        text, files = render.table(folder / f"clock-{rate}", header, lines)
        low, high = band[tau]
        parts += [
            f"## {rate} rate, τ = {tau:g}: between the walk ({low:.0f}) and the drift ({high:.0f})?\n\n{text}",
            f"![clock](clock-{rate}.png)",
        ]
        written += [*files, *_picture(picture, band[tau], scale, f"τ = {tau:g}, {rate} rate", folder / f"clock-{rate}")]
    note = (
        f"ρ = {RHO}, rounds from 1. Controls: {DIMENSIONS:,} dimensions, the decaying ones lose {1 - DECAY:.1%} of "
        f"their step a round, as the rates of the runs do; mean ± standard deviation over {WALKS} walks. "
        "Runs: Dirichlet 0.1, Φ = 0.001."
    )
    return [render.page(folder / "clock.md", TITLE, note, *parts), *written]


def _line(found: list[dict[str, Any]], tau: float, band: tuple[float, float]) -> list[str]:
    stopped = [(each.round, row[f"exponent {tau:g}"]) for row in found if (each := stop(row, "growth", tau, RHO))]
    rounds, slopes = [float(r) for r, _ in stopped], [float(a) for _, a in stopped]
    clock = [a / tau + RHO for a in slopes]
    off = [r - c for r, c in zip(rounds, clock, strict=True)]
    inside = sum(band[0] <= r <= band[1] for r in rounds)
    numbers = [render.number(mean(rounds), spread(rounds)), render.number(mean(slopes), spread(slopes), 2)]
    numbers += [render.number(mean(clock)), render.number(mean(off), spread(off), sign=True)]
    return [*numbers, f"{inside} of {len(found)}"]


def _picture(
    points: list[tuple[str, str, int]], band: tuple[float, float], scale: Scale, title: str, stem: Path
) -> list[Path]:
    figure, axis = plt.subplots(figsize=(7, 3), layout="constrained")
    axis.axhspan(*band, color="#dddddd", label="from random walk to straight drift")
    for place, task in enumerate(scale.tasks):
        mine = [(METHODS.index(method) + 0.15 * (place - 0.5), r) for name, method, r in points if name == task]
        mark, colour = ("o", "s", "^")[place], (render.TEAL, render.RED, "black")[place]
        axis.plot([x for x, _ in mine], [y for _, y in mine], mark, color=colour, ms=4, label=TASKS[task])
    axis.set_xticks(range(len(METHODS)), [TITLES[method] for method in METHODS], rotation=30, ha="right")
    axis.set(ylabel="stop round r*", title=title, ylim=(0, None))
    axis.legend(fontsize=7)
    return render.save(figure, stem)
