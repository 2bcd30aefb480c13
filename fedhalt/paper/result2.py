"""Figure `result2`: the share of the budget that FedAvg uses under the proposed rule, by skew and c."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from . import render
from .gains import pairs
from .render import plt
from .rows import Results, mean, spread
from .setting import RHO, SKEWS, TASKS, TAU, Need, Scale
from .table2 import specs as table2_specs

TITLE = "Figure result2: used rounds of FedAvg"
NAMES = {
    "dirichlet": "label skew (Dirichlet)",
    "pathological": "label skew (Pathological)",
    "quantity": "quantity skew",
}


def specs(scale: Scale) -> Iterator[Need]:
    yield from (need for need in table2_specs(scale) if need.spec.method == "fedavg")


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    figure, axes = plt.subplots(1, len(SKEWS), figsize=(9.5, 1.0 + 0.7 * len(scale.tasks)), layout="constrained")
    rows = []
    for axis, (skew, values) in zip(axes, SKEWS.items(), strict=True):
        grid = []
        for task in scale.tasks:
            line = []
            for c in values:
                found = pairs(results, scale, "fedavg", TAU, task=task, skew=skew, c=c, lr=scale.rates["good"])
                used = [100 * each.proposed.round / scale.rounds for each in found]
                line.append(mean(used))
                rows.append([TASKS[task], f"{NAMES[skew]}, c = {c:g}", render.number(mean(used), spread(used)),
                             render.number(mean([float(each.proposed.round) for each in found]))])  # fmt: skip
            grid.append(line)
        render.heat(
            axis, grid, [TASKS[task] for task in scale.tasks], [f"c = {c:g}" for c in values], colours=render.USED,
            low=0, high=100, text="{:.1f} %", size=8,
        )  # fmt: skip
        axis.set_title(NAMES[skew])
    text, written = render.table(folder / "fig-result2", ["task", "skew", "r*/R (%)", "r*"], sorted(rows))
    written += render.save(figure, folder / "fig-result2")
    known = [float(row[2].split(" ")[0]) for row in rows if row[2] != "–"]
    most = max(known, default=math.nan)
    note = (
        f"τ = {TAU}, ρ = {RHO}, rate {scale.rates['good']:g}, R = {scale.rounds}. At most {most:.1f} % of this budget "
        f"({most / 100 * scale.rounds:.0f} rounds) is used; the paper: at most 28.4 % of 500 (142 rounds)."
    )
    return [render.page(folder / "fig-result2.md", TITLE, note, "![used rounds](fig-result2.png)", text), *written]
