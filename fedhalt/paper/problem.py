"""The illustration `problem`: with a fixed number of rounds a bad configuration costs as much as a good one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from . import render
from .render import plt
from .rows import Results, scored
from .setting import CHANCE, RHO, TASKS, TAU_BAD, Need, Scale, needs

TITLE = "Illustration problem: a fixed budget is spent on bad configurations too"
RATES = ("good", "bad")


def specs(scale: Scale) -> Iterator[Need]:
    found = needs(scale, skews=[("dirichlet", 0.1)], rates=RATES, methods=["fedavg"], curve=True)
    yield from (need for need in found if need.spec.seed == 0 and need.spec.data == "blood")


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    figure, axes = plt.subplots(1, 2, figsize=(8.5, 2.8), layout="constrained", sharey=True)
    for axis, rate, colour in zip(axes, RATES, (render.TEAL, render.RED), strict=True):
        spec = scale.spec("blood", "fedavg", skew="dirichlet", c=0.1, lr=scale.rates[rate], seed=0)
        rows, row = results.curves.get(spec.id, []), results.rows.get(spec.id)
        if not rows or row is None:
            continue
        axis.plot(*scored(rows), color=colour, lw=1)
        axis.axhline(100 * CHANCE["blood"], color="black", lw=0.6, ls=":")
        axis.text(scale.rounds, 100 * CHANCE["blood"], "guessing", ha="right", va="bottom", fontsize=7)
        stop = row.get(f"growth {TAU_BAD:g}x{RHO}")
        if rate == "bad" and stop:
            axis.axvspan(stop, scale.rounds, color=colour, alpha=0.12, hatch="//", lw=0)
            share = 1 - stop / scale.rounds
            axis.text((stop + scale.rounds) / 2, 70, f"{share:.0%} of the budget\nfor nothing", ha="center", fontsize=9)
        axis.set(title=f"{rate} configuration: rate {scale.rates[rate]:g}", xlabel="round", xlim=(0, scale.rounds))
    axes[0].set_ylabel("balanced test accuracy (%)")
    figure.suptitle(f"FedAvg, {TASKS['blood']}, Dirichlet 0.1: both are given {scale.rounds} rounds")
    written = render.save(figure, folder / "fig-problem")
    note = f"Recorded runs, seed 0; the hatched part begins where the rule with τ = {TAU_BAD:g}, ρ = {RHO} stops."
    return [render.page(folder / "fig-problem.md", TITLE, note, "![problem](fig-problem.png)"), *written]
