"""The illustration `method`: the server watches its own parameters; the task vector grows and settles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import render
from .render import plt
from .rows import Results
from .setting import RHO, TAU, Need, Scale

TITLE = "Illustration method: data-free early stopping"


def specs(scale: Scale) -> Iterator[Need]:
    """A drawing needs no run."""
    yield from ()


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.1), layout="constrained")
    _federation(left)
    _vectors(middle)
    _growth(right)
    written = render.save(figure, folder / "fig-method")
    return [
        render.page(folder / "fig-method.md", TITLE, "A drawing, not a measurement.", "![method](fig-method.png)"),
        *written,
    ]


def _federation(axis: Any) -> None:
    box = {"boxstyle": "round,pad=0.4", "fc": "white"}
    axis.text(
        0.5,
        0.85,
        r"server: $\theta_r$, and the $\theta_0$ it began with",
        ha="center",
        bbox=box | {"ec": render.TEAL},
        fontsize=9,
    )
    for x in (0.15, 0.5, 0.85):
        axis.text(x, 0.15, "client\nits data stay", ha="center", va="center", bbox=box | {"ec": "gray"}, fontsize=8)
        axis.annotate(
            "", (x - 0.03, 0.28), (0.47 + 0.1 * (x - 0.5), 0.76), arrowprops={"arrowstyle": "->", "color": "gray"}
        )
        axis.annotate(
            "", (0.53 + 0.1 * (x - 0.5), 0.76), (x + 0.03, 0.28), arrowprops={"arrowstyle": "->", "color": render.TEAL}
        )
    axis.text(0.5, 0.5, "only parameters travel", ha="center", fontsize=8, bbox={"fc": "white", "ec": "none"})
    axis.set(xlim=(0, 1), ylim=(0, 1), title="1. a round as always")
    axis.axis("off")


def _vectors(axis: Any) -> None:
    end = np.array([1.0, 0.75])
    for place, share in enumerate((0.3, 0.54, 0.72, 0.87, 1.0)):
        bend = 0.12 * np.sin(3 * share) * np.array([-0.6, 0.8])
        tip = share * end + bend
        axis.annotate(
            "",
            tip,
            (0, 0),
            arrowprops={"arrowstyle": "-|>", "color": render.TEAL, "alpha": 0.25 + 0.15 * place, "lw": 1.5},
        )
        axis.text(tip[0] + 0.015, tip[1] + 0.015, rf"$\theta_{place + 1}$", fontsize=8)
    axis.plot(0, 0, "ko", ms=4)
    axis.text(-0.03, -0.07, r"$\theta_0$", fontsize=9)
    axis.text(0.62, 0.18, "$v_r = \\theta_r - \\theta_0$\n$\\delta_r = \\Vert v_r\\Vert$", fontsize=9)
    axis.set(xlim=(-0.1, 1.15), ylim=(-0.12, 1.0), title="2. the task vector grows, then settles")
    axis.axis("off")


def _growth(axis: Any) -> None:
    r = np.arange(2, 41)
    growth = 0.6 * np.exp(-r / 5) + 0.004
    stop = int(r[growth < TAU][RHO - 1])
    axis.semilogy(r, growth, "o-", ms=3, color=render.TEAL)
    axis.axhline(TAU, color=render.RED, lw=1)
    axis.text(2, TAU * 1.1, f"threshold τ = {TAU:g}", fontsize=8)
    axis.axvspan(stop - RHO + 0.5, stop + 0.5, color=render.TEAL, alpha=0.12)
    axis.text(stop - RHO / 2, 0.1, f"{RHO} rounds\nbelow: stop", ha="center", fontsize=8)
    axis.set(
        xlabel="round",
        ylabel=r"$g_r = |\delta_r - \delta_{r-1}| \, / \, \delta_{r-1}$",
        title="3. small growth, ρ rounds in a row",
    )
