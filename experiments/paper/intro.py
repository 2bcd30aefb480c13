"""Figure `intro`: what tuning costs as the number of clients and the size of the model grow, measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import render
from .render import plt
from .rows import Results
from .setting import PAPER, Need, Scale

TITLE = "Figure intro: the cost of tuning"
COHORTS = (5, 10, 20, 40, 80)
MODELS = ("cnn", "convnextv2_atto", "convnextv2_femto", "convnextv2_pico", "convnextv2_nano")
ROUNDS = 2
TUNING = 78 * 500
"""Rounds of one search: 26 methods with their Φ, three rates, 500 rounds each."""


def specs(scale: Scale) -> Iterator[Need]:
    for cohort in COHORTS:
        yield _need(scale, "cnn", cohort)
    for model in MODELS:
        yield _need(scale, model, 10)


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    clients = [(need.spec.cohort, results.rows.get(need.spec.id)) for need in list(specs(scale))[: len(COHORTS)]]
    models = [(model, results.rows.get(_need(scale, model, 10).spec.id)) for model in MODELS]
    measured = [(x, row) for x, row in clients if row], [(_size(row), row) for _, row in models if row]
    figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.2), layout="constrained")
    rows, slopes = [], []
    for axis, points, label in zip(axes, measured, ("clients per round M", "parameters d"), strict=True):
        if len(points) < 2:
            continue
        x = np.array([point for point, _ in points], float)
        traffic = np.array([row["bytes"] for _, row in points]) * TUNING / 1e12
        hours = np.array([row["seconds"] for _, row in points]) * TUNING / 3600
        axis.loglog(x, traffic, "o-", color=render.TEAL, label="traffic (TB)")
        axis.loglog(x, hours, "s--", color=render.RED, label="training (hours)")
        axis.set_xlabel(label)
        axis.legend(fontsize=7)
        slopes.append((label, *(float(np.polyfit(np.log(x), np.log(y), 1)[0]) for y in (traffic, hours))))
        for (point, row), tb, h in zip(points, traffic, hours, strict=True):
            rows.append(
                [
                    label,
                    f"{point:,.0f}",
                    f"{row['bytes'] / 1e6:,.1f}",
                    f"{row['seconds']:.2f}",
                    f"{tb:,.2f}",
                    f"{h:,.0f}",
                ]
            )
    axes[0].set_ylabel(f"one search of {TUNING:,} rounds")
    written = render.save(figure, folder / "fig-intro")
    header = ["grows", "value", "MB a round", "seconds a round", "TB a search", "hours a search"]
    text, files = render.table(folder / "fig-intro", header, rows)
    grown = "; ".join(f"with {label}: traffic ∝ x^{t:.2f}, time ∝ x^{h:.2f}" for label, t, h in slopes)
    note = (
        f"Skin lesions, 32 pixels, FedAvg, five epochs, N = 100, mean of {ROUNDS} measured rounds on one core, no "
        f"evaluation; left the small CNN, right M = 10. Fitted: {grown}. The paper's figure is a drawing; these are "
        "measurements."
    )
    return [render.page(folder / "fig-intro.md", TITLE, note, "![cost](fig-intro.png)", text), *written, *files]


def _need(scale: Scale, model: str, cohort: int) -> Need:
    """The same for every scale: sizes and cohorts are what varies here."""
    settings: dict[str, Any] = {"model": model, "pretrained": False, "size": 28, "cohort": cohort, "evaluate_every": 0}
    return Need(PAPER.spec("derma", "fedavg", resize=32, lr=0.001, **settings), ROUNDS)


def _size(row: dict[str, Any]) -> float:
    """Down and up are one vector of float32 for each of the ten clients."""
    return float(row["bytes"]) / (2 * 10 * 4)
