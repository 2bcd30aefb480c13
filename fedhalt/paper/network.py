"""The paper's regime: a pretrained network, fine-tuned whole. Every run of the list, at its stop and at its end."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..rules import Drift, Wandering, stop_round
from . import plan, render
from .gains import pair
from .render import plt
from .rows import Results, Row, scored, stop
from .setting import CHANCE, RHO, TASKS, TAU, TAU_BAD, TITLES, VALIDATION, Need, Scale

TITLE = "The paper's regime: a pretrained network, fine-tuned whole"
GOOD = (
    "task", "clients", "method", "seed", "last (%)", "average", "best", "r*", "at r* (%)", "average", "drift_10",
    "a/τ + ρ", "loss stops", "accuracy stops", "gain over the better",
)  # fmt: skip
BAD = (
    "task", "clients", "method", "seed", "rounds", "last (%)", "guessing", "r*", "at r* (%)", "condition held",
    "loss stops", "accuracy stops", "drift_10, last", "drift stops", "wandering stops",
)  # fmt: skip


def specs(scale: Scale) -> Iterator[Need]:
    yield from plan.lines(scale)


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    needs = list(specs(scale))
    there = [need for need in needs if results.has(need)]
    good = [_good(results, need) for need in there if need.spec.lr == scale.rates["good"]]
    bad = [_bad(results, need) for need in there if need.spec.lr == scale.rates["bad"]]
    note = (
        f"{len(there)} of {len(needs)} runs are recorded. {scale.words}. Balanced test accuracy; average: that of the "
        f"mean of the last {scale.average} models. A validation rule sees every fifth round, so its patience of {RHO} "
        "rounds is two evaluations."
    )
    parts, written = [note], []
    if good:
        text, files = render.table(folder / "network-good", GOOD, good)
        parts += [f"## The good rate ({scale.rates['good']:g}), τ = {TAU:g}", text, "![accuracy](network.png)"]
        written += [*files, *_picture(results, scale, there, folder / "network")]
    if bad:
        text, files = render.table(folder / "network-bad", BAD, bad)
        parts += [f"## The bad rate ({scale.rates['bad']:g}), τ = {TAU_BAD:g}", text]
        written += files
    return [render.page(folder / "network.md", TITLE, *parts), *written]


def _good(results: Results, need: Need) -> list[str]:
    row, curve = results.rows[need.spec.id], results.curves[need.spec.id]
    found = pair(row, TAU)
    at = curve[found.proposed.round - 1] if found else {}
    slope = row.get(f"exponent {TAU:g}")
    return [
        *_who(need), _number(row["final"]), _percent(_last(curve, "test_balanced_accuracy_average")),
        _number(row["best"]), str(found.proposed.round) if found else "–",
        _number(found.proposed.balanced if found else None), _percent(at.get("test_balanced_accuracy_average")),
        _number(at.get("drift_10"), 2), _number(None if slope is None else slope / TAU + RHO, 0),
        *_rivals(row, TAU), _number(found.gain() if found else None, sign=True),
    ]  # fmt: skip


def _bad(results: Results, need: Need) -> list[str]:
    row, curve = results.rows[need.spec.id], results.curves[need.spec.id]
    found, enough = stop(row, "growth", TAU_BAD, RHO), row.get(f"enough {TAU_BAD:g}")
    guessing = row["final"] <= 100 * CHANCE[need.spec.data] + 5
    screens = [stop_round(rule, curve) for rule in (Drift(), Wandering())]
    return [
        *_who(need), str(int(row["rounds"])) + (", diverged" if row["diverged"] else ""), _number(row["final"]),
        "yes" if guessing else "no", str(found.round) if found else "–", _number(found.balanced if found else None),
        {None: "–", 0: "no", 1: "yes"}[enough], *_rivals(row, TAU_BAD), _number(_last(curve, "drift_10"), 2),
        *("–" if r is None else str(r) for r in screens),
    ]  # fmt: skip


def _who(need: Need) -> list[str]:
    spec = need.spec
    clients = "four sites" if spec.skew == "natural" else f"{spec.skew} {spec.c:g}"
    return [
        TASKS[spec.data],
        clients,
        TITLES[spec.method] + (", compat authors" if spec.compat else ""),
        str(spec.seed),
    ]


def _rivals(row: Row, tau: float) -> list[str]:
    """Where the two validation rules stop."""
    found = (stop(row, name, tau, RHO) for name in VALIDATION)
    return [str(each.round) if each else "–" for each in found]


def _last(curve: list[Row], column: str) -> float | None:
    return next((row[column] for row in reversed(curve) if row.get(column) is not None), None)


def _number(value: float | None, digits: int = 1, sign: bool = False) -> str:
    return render.number(math.nan if value is None else float(value), digits=digits, sign=sign)


def _percent(share: float | None) -> str:
    return _number(None if share is None else 100 * share)


def _picture(results: Results, scale: Scale, there: list[Need], stem: Path) -> list[Path]:
    """Accuracy of the model and of the average, run by run, for seed 0; the stop is marked."""
    shown = [need for need in there if need.spec.lr == scale.rates["good"] and need.spec.seed == 0]
    columns = min(4, len(shown))
    lines = -(-len(shown) // columns)
    figure, axes = plt.subplots(
        lines, columns, figsize=(2.7 * columns, 2.0 * lines + 0.5), layout="constrained", sharex=True, sharey=True,
        squeeze=False,
    )  # fmt: skip
    for axis in axes.flat[len(shown) :]:
        axis.axis("off")
    for axis, need in zip(axes.flat, shown, strict=False):
        _curves(axis, results.curves[need.spec.id], stop(results.rows[need.spec.id], "growth", TAU, RHO))
        axis.set_title("\n".join((", ".join(_who(need)[:2]), _who(need)[2])), fontsize=8)
    for axis in axes.flat[max(0, len(shown) - columns) : len(shown)]:
        axis.set_xlabel("round")
        axis.tick_params(labelbottom=True)
    for line in axes:
        line[0].set_ylabel("balanced (%)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=min(3, columns))
    return render.save(figure, stem)


def _curves(axis: Any, curve: list[Row], found: Any) -> None:
    axis.plot(*scored(curve), color="black", lw=0.8, label="model")
    name = "test_balanced_accuracy_average"
    mean = [(row["round"], 100 * row[name]) for row in curve if row.get(name) is not None]
    axis.plot(*zip(*mean, strict=True), color=render.TEAL, lw=1.6, ls="--", label="average of ten rounds")
    if found:
        axis.axvline(found.round, color=render.RED, lw=1, ls=":", label=f"stop, τ = {TAU:g}")
    axis.set(ylim=(0, 100))
