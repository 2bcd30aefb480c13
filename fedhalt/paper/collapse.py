"""Does the wrong step count of the authors' code explain the collapse under quantity skew? Both variants."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

from . import published, render
from .rows import Results, mean, spread
from .setting import PHIS, TASKS, TITLES, Need, Scale, needs, phis
from .table0 import COUNTED

TITLE = "The collapse under quantity skew: published method and authors' code"
OTHERS = ("fedavg",)
"""A method without a step count, for comparison; their arithmetic of it is ours."""


def specs(scale: Scale) -> Iterator[Need]:
    for methods, compat in (((*OTHERS, *COUNTED), None), (COUNTED, "authors")):
        yield from needs(scale, skews=[("quantity", 0.1)], rates=["good"], phi=PHIS, methods=methods, compat=compat)


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    rows = []
    for task in scale.tasks:
        for method in (*OTHERS, *COUNTED):
            for phi in phis(method):
                cells = []
                for compat in (None, "authors"):
                    found = results.select(
                        task=task, method=method, phi=phi, compat=compat, skew="quantity", c=0.1,
                        lr=scale.rates["good"], model=scale.model["model"],
                    )  # fmt: skip
                    ended = [row for row in found if row["rounds"] >= scale.rounds or row["diverged"]]
                    seeds = " / ".join(f"{row['final']:.1f}" for row in ended)
                    values = [row["final"] for row in ended]
                    cells += [seeds or "–", render.number(mean(values), spread(values))]
                cells.append(_paper(task, method, phi))
                rows.append([TASKS[task], TITLES[method], "" if phi is None else f"{math.log10(phi):.0f}", *cells])
    each = "seeds 0 / 1 / 2"
    header = [
        "task",
        "method",
        "log10 Φ",
        f"published method, {each}",
        "mean",
        f"compat authors, {each}",
        "mean",
        "paper",
    ]
    text, written = render.table(folder / "collapse", header, rows)
    note = (
        f"Balanced accuracy (%) of the last of {scale.rounds} rounds, quantity skew 0.1, rate {scale.rates['good']:g}, "
        "mean ± standard deviation over seeds. The two variants see the same clients, batches and start. The "
        "paper's number stands at the Φ that was best there."
    )
    return [render.page(folder / "collapse.md", TITLE, note, text), *written]


def _paper(task: str, method: str, phi: float | None) -> str:
    row = published.find("table0_accuracy_by_skew", task=TASKS[task], skew=published.SKEWS["Q"], method=TITLES[method])
    if row is None or (phi is not None and row["log10_phi"] != f"{math.log10(phi):.0f}"):
        return ""
    return row["accuracy_percent"]
