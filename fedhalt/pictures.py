"""Pictures, drawn by matplotlib where it is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .check import FedhaltError, MissingExtra


def classes_by_client(counts: list[list[int]], title: str, path: Path) -> None:
    """A stacked bar per client, largest first; hatches besides colours for those who do not see them."""
    plt = _pyplot()
    table = np.array(sorted(counts, key=sum, reverse=True)).T
    figure, axis = plt.subplots(figsize=(9, 3.6), layout="constrained")
    bottom = np.zeros(table.shape[1])
    colours = plt.get_cmap("viridis")(np.linspace(0, 1, len(table)))
    for z, row in enumerate(table):
        axis.bar(range(len(row)), row, 0.9, bottom, color=colours[z], hatch=("", "//", "..")[z % 3], label=f"class {z}")
        bottom += row
    axis.set(xlabel="clients, largest first", ylabel="samples", title=title)
    axis.legend(ncols=2, fontsize=7, frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    _save(plt, figure, path)


def bars_and_dots(
    names: list[str],
    costs: list[float],
    scores: list[tuple[float | None, float | None, str]],
    titles: tuple[str, str],
    path: Path,
) -> None:
    """Two panels with a line per name: a bar for what it costs, a dot with its spread for what it is worth."""
    plt = _pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 0.45 * len(names) + 1.2), layout="constrained", sharey=True)
    places = range(len(names))
    left.barh(places, costs, 0.6, color="#56b4e9")
    for place, cost in zip(places, costs, strict=True):
        left.text(cost, place, f" {cost:.0%}", va="center", fontsize=8)
    for place, (mean, spread, label) in zip(places, scores, strict=True):
        if mean is None:
            right.text(
                0.5, place, "picks none", va="center", ha="center", fontsize=8, transform=right.get_yaxis_transform()
            )
        else:
            right.errorbar(mean, place, xerr=spread, fmt="o", color="#d55e00", capsize=3)
            right.text(0.01, place, f"{label}  {mean:.1%}", va="center", fontsize=8)
    left.set(yticks=places, yticklabels=names, xlabel=titles[0], xlim=(0, 1.12))
    left.invert_yaxis()
    right.set(xlabel=titles[1], xlim=(0, 1))
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    right.grid(axis="x", alpha=0.3)
    _save(plt, figure, path)


def _save(plt: Any, figure: Any, path: Path) -> None:
    try:
        figure.savefig(path, dpi=110)
    except ValueError as error:
        raise FedhaltError(f"{path}: {error}") from None
    plt.close(figure)


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("a picture", "matplotlib", "report") from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt
