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
