"""Pictures, drawn by matplotlib where it is installed."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import FedhaltError, MissingExtra, require_one_of
from ..records.judging import DRIFT, metrics
from ..rules import GrowthRate, replay
from .words import describe_model, format_stop

if TYPE_CHECKING:
    from ..records.trajectory import Trajectory
    from ..tuning.trial import Trial


def classes_by_client(counts: list[list[int]], title: str, path: Path) -> None:
    """A stacked bar per client, largest first; hatches besides colors for those who do not see them."""
    plt = pyplot("agg")
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
    save(plt, figure, path)


def bars_and_dots(
    names: list[str],
    costs: list[float],
    scores: list[tuple[float | None, float | None, str]],
    titles: tuple[str, str],
    path: Path,
) -> None:
    """Two panels with a line per name: a bar for what it costs, a dot with its spread for what it is worth.

    The axis of the dots fits them, and what each stands for is written beside the panel, where it covers nothing.
    """
    plt = pyplot("agg")
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 0.45 * len(names) + 1.2), layout="constrained", sharey=True)
    places = range(len(names))
    left.barh(places, costs, 0.6, color="#56b4e9")
    for place, cost in zip(places, costs, strict=True):
        left.text(cost, place, f" {cost:.0%}", va="center", fontsize=8)
    for place, (mean, spread, label) in zip(places, scores, strict=True):
        said = "picks none" if mean is None else f"{mean:.1%}  {label}"
        right.text(1.02, place, said, va="center", fontsize=8, transform=right.get_yaxis_transform())
        if mean is not None:
            right.errorbar(mean, place, xerr=spread, fmt="o", color="#d55e00", capsize=3)
    left.set(yticks=places, yticklabels=names, xlabel=titles[0], xlim=(0, 1.12))
    left.invert_yaxis()
    right.set(xlabel=titles[1], xlim=_fitted([(mean, spread or 0.0) for mean, spread, _ in scores if mean is not None]))
    for axis in (left, right):
        axis.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
        axis.spines[["top", "right"]].set_visible(False)
    right.grid(axis="x", alpha=0.3)
    save(plt, figure, path)


def _fitted(dots: list[tuple[float, float]]) -> tuple[float, float]:
    """From the lowest to the highest share with their spreads and some air, but no narrower than five points."""
    if not dots:
        return 0.0, 1.0
    low, high = min(mean - spread for mean, spread in dots), max(mean + spread for mean, spread in dots)
    air = max(0.1 * (high - low), 0.025 - (high - low) / 2)
    return max(0.0, low - air), min(1.005, high + air)


def curves(trajectory: Trajectory) -> Any:
    """Distance, growth and accuracy of one run, one panel each, with the stop of the paper's rule."""
    plt = pyplot()
    rounds, rule = trajectory.column("round"), GrowthRate()
    accuracies = [name for name in trajectory.columns if "accuracy" in name]
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.4), layout="constrained")
    if "distance" in trajectory.columns:
        statuses = list(replay(rule, trajectory))
        left.plot(rounds, trajectory.column("distance"), color="#0072b2")
        growth = [np.nan if status.signal is None else status.signal for status in statuses]
        middle.semilogy(rounds, growth, color="#d55e00")
        middle.axhline(rule.threshold, color="black", linestyle="--", linewidth=1)
        end = next((status for status in statuses if status.stop), statuses[-1])
        for axis in (left, middle, right) if end.stop else ():
            axis.axvline(end.round, color="black", linestyle=":", linewidth=1)
        said = f"stop at round {end.round} ({format_stop(end.reason, end.motion, 'growth')})"
        drift = metrics(trajectory.rows[-1]).get(DRIFT)
        never = f"no stop ({describe_model(end.exponent, end.motion, end.round, drift) or 'model -'})"
        figure.suptitle(said if end.stop else never, fontsize=9)
    for name, style in zip(accuracies, itertools.cycle(("-", "--", ":", "-.")), strict=False):
        values = trajectory.column(name)
        known = ~np.isnan(values)
        right.plot(rounds[known], values[known], style, label=name)
    if accuracies:
        right.legend(fontsize=7, frameon=False)
    for axis, title in ((left, "distance from the start"), (middle, "growth, threshold 0.01"), (right, "accuracy")):
        axis.set(title=title, xlabel="round")
        axis.spines[["top", "right"]].set_visible(False)
    plt.close(figure)  # a notebook shows the figure that it is given, once
    return figure


def trials(found: Sequence[Trial], rounds: int, objective: str) -> Any:
    """A bar per trial for the rounds it used, a dot for its objective; screened ones have none."""
    plt = pyplot()
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 0.32 * len(found) + 1.2), layout="constrained", sharey=True)
    places = range(len(found))
    left.barh(places, [trial.outcome.rounds for trial in found], 0.6, color="#56b4e9")
    right.plot([np.nan if trial.value is None else trial.value for trial in found], places, "o", color="#d55e00")
    left.set(yticks=places, yticklabels=[trial.label for trial in found], xlabel=f"rounds of {rounds}")
    left.invert_yaxis()
    right.set(xlabel=objective)
    right.grid(axis="x", alpha=0.3)
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    plt.close(figure)
    return figure


def save(plt: Any, figure: Any, path: Path) -> Path:
    try:
        figure.savefig(path, dpi=110)
    except ValueError as error:
        raise FedhaltError(f"{path}: {error}") from None
    plt.close(figure)
    return path


def check_picture(path: Path) -> None:
    """Says before any work what would keep a picture from being drawn there; makes its folder."""
    plt = pyplot("agg")
    figure = plt.figure()
    kinds = figure.canvas.get_supported_filetypes()
    plt.close(figure)
    require_one_of("kind of picture", path.suffix.removeprefix(".").lower() or "png", kinds)
    path.parent.mkdir(parents=True, exist_ok=True)
    if not os.access(path.parent, os.W_OK):
        raise FedhaltError(f"{path.parent} cannot be written to")


def pyplot(backend: str | None = None) -> Any:
    """matplotlib with that backend; by default with the one of the notebook or the screen it runs on."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra("a picture", "matplotlib", "report") from None
    if backend is not None:
        matplotlib.use(backend)
    import matplotlib.pyplot as plt

    return plt
