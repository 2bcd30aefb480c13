"""Figure `intro`: what tuning costs as the number of clients and the size of the model grow, measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import render
from .render import plt
from .rows import Results, Row
from .setting import PAPER, Need, Scale

TITLE = "Figure intro: the cost of tuning"
COHORTS = (5, 10, 20, 40, 80)
MODELS = ("cnn", "convnextv2_atto", "convnextv2_femto", "convnextv2_pico", "convnextv2_nano")
ROUNDS = 5
TUNING = 78 * 500
"""Rounds of one search: 26 methods with their Φ, three rates, 500 rounds each."""


def specs(scale: Scale) -> Iterator[Need]:
    for cohort in COHORTS:
        yield _need(scale, "cnn", cohort)
    for model in MODELS:
        yield _need(scale, model, 10)


def measured(results: Results, scale: Scale) -> dict[str, list[tuple[float, Row]]]:
    """What varies, its values and what was measured there; down and up are a float32 vector for each client."""
    clients = [(float(m), results.rows.get(_need(scale, "cnn", m).spec.id)) for m in COHORTS]
    models = [results.rows.get(_need(scale, model, 10).spec.id) for model in MODELS]
    return {
        "clients per round M": [(m, row) for m, row in clients if row],
        "parameters d": [(row["bytes"] / (2 * 10 * 4), row) for row in models if row],
    }


def slopes(results: Results, scale: Scale) -> list[tuple[str, float, float]]:
    """The exponents with which traffic and time grow."""
    found = []
    for label, points in measured(results, scale).items():
        if len(points) > 1:
            x = np.log([value for value, _ in points])
            fits = [float(np.polyfit(x, np.log([row[key] for _, row in points]), 1)[0]) for key in ("bytes", "seconds")]
            found.append((label, fits[0], fits[1]))
    return found


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    figure, axes = plt.subplots(1, 2, figsize=(8.5, 3.2), layout="constrained")
    rows = []
    for axis, (label, points) in zip(axes, measured(results, scale).items(), strict=True):
        x = [value for value, _ in points]
        traffic = [row["bytes"] * TUNING / 1e12 for _, row in points]
        hours = [row["seconds"] * TUNING / 3600 for _, row in points]
        axis.loglog(x, traffic, "o-", color=render.TEAL, label="traffic (TB)")
        axis.loglog(x, hours, "s--", color=render.RED, label="training (hours)")
        axis.set_xlabel(label)
        if label.startswith("clients"):
            axis.set_xticks(x, [f"{value:g}" for value in x])
            axis.minorticks_off()
        axis.legend(fontsize=7)
        for (value, row), tb, h in zip(points, traffic, hours, strict=True):
            numbers = [f"{row['bytes'] / 1e6:,.1f}", f"{row['seconds']:.2f}", f"{tb:,.2f}", f"{h:,.0f}"]
            rows.append([label, f"{value:,.0f}", *numbers])
    axes[0].set_ylabel(f"one search of {TUNING:,} rounds")
    written = render.save(figure, folder / "fig-intro")
    header = ["grows", "value", "MB a round", "seconds a round", "TB a search", "hours a search"]
    text, files = render.table(folder / "fig-intro", header, rows)
    grown = "; ".join(f"with {label}: traffic ∝ x^{t:.2f}, time ∝ x^{h:.2f}" for label, t, h in slopes(results, scale))
    note = (
        f"Skin lesions, 32 pixels, FedAvg, five epochs, N = 100, mean of {ROUNDS} measured rounds on one core, no "
        "evaluation; left the small CNN, right M = 10. Under this skew (Dirichlet 0.1) a round of few clients takes as "
        "long as those happen to hold data, so the points at small M scatter. "
        f"Fitted: {grown}. The paper's figure is a drawing; these are measurements."
    )
    return [render.page(folder / "fig-intro.md", TITLE, note, "![cost](fig-intro.png)", text), *written, *files]


def _need(scale: Scale, model: str, cohort: int) -> Need:
    """The same for every scale: sizes and cohorts are what varies here."""
    settings: dict[str, Any] = {"model": model, "pretrained": False, "size": 28, "cohort": cohort, "evaluate_every": 0}
    return Need(PAPER.spec("derma", "fedavg", resize=32, lr=0.001, **settings), ROUNDS)
