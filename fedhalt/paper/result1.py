"""Figure `result1`: FedAvg's accuracy and growth rate over rounds, with the stops of the three rules and a zoom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..simulation.spec import RunSpec
from . import render
from .gains import pairs
from .render import MARKS, WORDS, plt
from .rows import Results, mean, scored, spread, stop
from .setting import RHO, SEEDS, SITES, TASKS, TAU, VALIDATION, Need, Scale, needs, needs_by_site

TITLE = "Figure result1: FedAvg, proposed and validation-based stopping"
PUBLISHED = {
    "derma": "paper: proposed 79 (58.3 %), loss 29 (44.9 %), accuracy 39 (47.2 %)",
    "blood": "paper: 12 rounds later and 8.9 points better than validation on average",
    "path": "paper: proposed 93 (90.5 %), validation 50 (84.5 %) and 74 (88.6 %)",
}


DIRICHLET: dict[str, Any] = {"skew": "dirichlet", "c": 0.1}


class Panel(NamedTuple):
    """A column of the figure."""

    title: str
    task: str
    split: dict[str, Any]
    published: str


def panels(scale: Scale) -> list[Panel]:
    """The tasks as in the paper, and skin lesions once more with clients as they are found."""
    found = [Panel(TASKS[task], task, DIRICHLET, PUBLISHED.get(task, "not in the paper")) for task in scale.tasks]
    sites = Panel(
        f"{TASKS['derma']}, four sites", "derma", SITES, "not in the paper; all four take part in every round"
    )
    return [*found, sites] if "derma" in scale.tasks else found


def specs(scale: Scale) -> Iterator[Need]:
    yield from needs(scale, skews=[("dirichlet", 0.1)], rates=["good"], methods=["fedavg"], curve=True)
    yield from needs_by_site(scale, methods=["fedavg"], curve=True)


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    shown = [panel for panel in panels(scale) if any(_spec(scale, panel, seed).id in results.curves for seed in SEEDS)]
    figure, axes = plt.subplots(3, len(shown), figsize=(4.2 * len(shown), 7), layout="constrained", squeeze=False)
    lines = [
        f"FedAvg, Dirichlet 0.1 where nothing else is said, rate {scale.rates['good']:g}, τ = {TAU}, ρ = {RHO}; "
        "thick: seed 0, thin: the others."
    ]
    header = ["task", "rule", "stop round", "balanced (%)", "plain (%)", "proposed minus this", "rounds later"]
    rows: list[list[str]] = []
    for column, panel in enumerate(shown):
        _panel(axes[:, column], results, scale, panel)
        rows += _rows(results, scale, panel)
        lines.append(f"- {panel.title}: {panel.published}.")
    text, written = render.table(folder / "fig-result1", header, rows)
    written += render.save(figure, folder / "fig-result1")
    return [render.page(folder / "fig-result1.md", TITLE, *lines, "![trajectories](fig-result1.png)", text), *written]


def _rows(results: Results, scale: Scale, panel: Panel) -> Iterator[list[str]]:
    """Each rule's stop over the seeds, and the proposed one against it."""
    where = {"skew": panel.split["skew"], "c": panel.split.get("c", 1.0), "lr": scale.rates["good"]}
    found = pairs(results, scale, "fedavg", TAU, task=panel.task, **where)
    for name in ("growth", *VALIDATION):
        stops = [(p.proposed if name == "growth" else p.rivals.get(name), p) for p in found]
        there = [(s, p) for s, p in stops if s]
        gains = [p.proposed.balanced - s.balanced for s, p in there]
        later = [float(p.proposed.round - s.round) for s, p in there]
        values = [[float(s.round) for s, _ in there], [s.balanced for s, _ in there], [s.plain for s, _ in there]]
        against = ["", ""] if name == "growth" else [
            render.number(mean(v), spread(v), sign=True) for v in (gains, later)
        ]  # fmt: skip
        yield [panel.title, WORDS[name], *(render.number(mean(v), spread(v)) for v in values), *against]


def _panel(axes: Any, results: Results, scale: Scale, panel: Panel) -> None:
    """Accuracy, the part of it around the stops enlarged, and the growth rate."""
    top, zoom, bottom = axes
    marked: list[tuple[int, float]] = []
    for seed in reversed(SEEDS):
        spec = _spec(scale, panel, seed)
        rows, row = results.curves.get(spec.id), results.rows.get(spec.id)
        if not rows or row is None:
            continue
        r = np.array([each["round"] for each in rows])
        distance = np.array([each["distance"] for each in rows], float)
        style = {"color": "black" if seed == 0 else "#aaaaaa", "lw": 1.2 if seed == 0 else 0.6}
        for axis in (top, zoom):
            axis.plot(*scored(rows), **style)
        bottom.plot(r[1:], np.abs(np.diff(distance)) / distance[:-1], **style)
        for name in ("growth", *VALIDATION) if seed == 0 else ():
            found = stop(row, name, TAU, RHO)
            if found:
                mark, colour, dash = MARKS[name]
                marked.append((found.round, found.balanced))
                label = f"{WORDS[name]}: round {found.round}, {found.balanced:.1f} %"
                for axis in (top, zoom):
                    axis.plot(found.round, found.balanced, mark, ms=9, color=colour, mec="white", label=label, zorder=3)
                bottom.axvline(found.round, color=colour, ls=dash, lw=1)
    if marked:
        rounds, heights = zip(*marked, strict=True)
        zoom.set(xlim=(min(rounds) - 5, max(rounds) + 5), ylim=(min(heights) - 6, max(heights) + 6))
        top.indicate_inset_zoom(zoom, edgecolor="gray")
        top.legend(fontsize=9, loc="lower left", bbox_to_anchor=(0, 1))
    bottom.axhline(TAU, color=render.TEAL, lw=0.8, label=f"τ = {TAU}")
    bottom.set(yscale="log", xlabel="round", ylabel="growth rate $g_r$")
    bottom.sharex(top)
    top.set_title(panel.title, pad=54)
    top.set(ylabel="balanced accuracy (%)")
    zoom.set(ylabel="the same, enlarged")
    bottom.legend(fontsize=9)


def _spec(scale: Scale, panel: Panel, seed: int) -> RunSpec:
    return scale.spec(panel.task, "fedavg", lr=scale.rates["good"], seed=seed, **panel.split)
