"""The pictures and tables of StopBench 2: what every pair gives up at every cost, and what stopping looks like."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import files
from ..rules import Rule, named_rule, stop_round
from ..views.plots import pyplot, save
from .bench import BUDGET, DECIDED, PAPER, TUNED, by_size
from .clusters import draws, task_of
from .draw import as_csv, flat, markdown, plus_minus
from .pairs import ENTRIES2, SHIPS, Pair, Pairs, judged, recommended
from .runs import Run
from .score import LEVELS, at_costs, interval

Table = tuple[list[str], list[list[str]]]
COLOURS = {
    BUDGET: "#888888", PAPER: "#d55e00", "growth-average": "#0072b2", "forward": "#cc79a7", "val-loss": "#009e73",
}  # fmt: skip
"""What a user chooses between: a number of rounds, the paper's rule, ours, and validation data."""
BY = "by {}, tuned and deciding runs: regret in points of what a user chooses between"
OFFERED = (PAPER, "growth-average", "forward", "val-loss", "val-accuracy")
DASH = {"last": ":", "average": "-"}
TASKS = {
    "derma": "skin lesions",
    "derma by site": "skin lesions by site",
    "digits": "digits",
    "fashion": "Fashion-MNIST",
}


class Mark(NamedTuple):
    """A rule whose stop is shown on single runs."""

    rule: Rule
    word: str
    colour: str
    sign: str


MARKS = (
    Mark(named_rule("growth").rule, "the paper's rule (τ = 0.01, ρ = 10)", COLOURS[PAPER], "o"),
    Mark(named_rule("growth-average").rule, "growth-average (the same)", COLOURS["growth-average"], "s"),
    Mark(named_rule("val-loss").rule, "validation loss (needs data)", COLOURS["val-loss"], "^"),
)


def write_results(
    pairs: Pairs, rows: Sequence[dict[str, Any]], screens: Sequence[dict[str, Any]], folder: Path
) -> list[Path]:
    """Tables as Markdown, scores as CSV, and the pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    note = (
        "Regret in points of smoothed balanced accuracy at a mean cost of so many rounds; ± is half of the 95% "
        "bootstrap interval over clusters. Made by `fedhalt stopbench --results results`: see docs/stopbench.md."
    )
    tasks = [task_of(run) for run in pairs.runs]
    found = [
        *in_short(rows),
        *as_they_come(pairs),
        *tables(rows, screens),
        (BY.format("task"), by_value(pairs, "task", tasks)),
    ]
    pages = [f"## {title}\n\n{markdown(*table)}" for title, table in found]
    made = {"table.md": f"# StopBench 2\n\n{note}\n\n" + "\n".join(pages), "scores.csv": as_csv(map(flat, rows))}
    if screens:
        made["screening.csv"] = as_csv(map(flat, screens))
    for name, text in made.items():
        files.write(folder / name, text.encode())
    shown = examples(pairs.runs)
    pictures = [_curves(pairs, folder), *([_stops(shown, folder)] if shown else [])]
    return [*(folder / name for name in made), *pictures]


def in_short(rows: Sequence[dict[str, Any]]) -> list[tuple[str, Table]]:
    """What a user chooses between, and the rule chosen on the tuned part; nothing without deciding runs."""
    mine = [row for row in rows if row["part"] == DECIDED]
    shown = dict.fromkeys([*COLOURS, recommended(rows).rule])
    header = ["rule", "ships", *(f"{level:.0%}" for level in LEVELS)]
    cells = [
        [row["rule"] + ("*" if row["needs"] else ""), row["ship"], *(plus_minus(each, 1, 1) for each in row["regret"])]
        for rule in shown
        for row in mine
        if row["rule"] == rule
    ]
    return [(f"in short: {mine[0]['runs']} deciding runs", (header, cells))] if mine else []


def as_they_come(pairs: Pairs) -> list[tuple[str, Table]]:
    """What rules use and give up with their default settings; nothing without deciding runs."""
    which = pairs.parts.get(DECIDED, np.zeros(len(pairs.runs), dtype=bool))
    some = [run for run, here in zip(pairs.runs, which, strict=True) if here]
    if not some:
        return []
    weights, cells = draws(some), []
    for name in (name for name in OFFERED if Pair(name, "last") in pairs.found):
        settings = named_rule(name).settings
        entry = ENTRIES2[name]._replace(thresholds=[settings["threshold"]], patiences=[settings["patience"]])
        for ship, at in judged(entry, some).items():
            told = (interval(weights @ values[0, 0][:, None])[0] for values in (at.cost, at.regret))
            used, lost = told
            setting = f"{settings['threshold']:g} for {settings['patience']}"
            cells.append([name, setting, ship, plus_minus(used, 100, 0, "%"), plus_minus(lost, 1, 1)])
    title = f"with their default settings: {len(some)} deciding runs"
    return [(title, (["rule", "setting", "ships", "rounds used", "regret"], cells))]


def tables(rows: Sequence[dict[str, Any]], screens: Sequence[dict[str, Any]]) -> list[tuple[str, Table]]:
    """Titles and tables: the pairs and the screens of the deciding part, then those of the other."""
    found = []
    levels = [f"{level:.0%}" for level in LEVELS]
    against = [f"{level} - {rival}" for rival in ("paper's", "budget's") for level in levels[:3]]
    for part in dict.fromkeys(row["part"] for row in rows):
        mine = [row for row in rows if row["part"] == part]
        cells = [
            [row["rule"] + ("*" if row["needs"] else ""), row["ship"], str(row["patience"])]
            + [plus_minus(each, 1, 1) for each in row["regret"]]
            + [plus_minus(each, 1, 1) for key in ("against_paper", "against_budget") for each in row[key][:3]]
            for row in mine
        ]
        title = f"{part}: {mine[0]['runs']} runs, regret in points (* needs data or a number from clients)"
        found.append((title, (["rule", "ships", "patience", *levels, *against], cells)))
    for part in dict.fromkeys(row["part"] for row in screens):
        mine = [row for row in screens if row["part"] == part]
        cells = [
            [row["screen"], f"{row['threshold']:g} for {row['patience']}"]
            + [plus_minus(row[key], 100, 0, "%") for key in ("false_alarms", "misses", "too_small_flagged")]
            for row in mine
        ]
        title = f"screening by round 50, {part}: {mine[0]['good']} good runs, {mine[0]['hopeless']} hopeless"
        found.append((title, (["screen", "setting", "false alarms", "misses", "too small, flagged"], cells)))
    return sorted(found, key=lambda each: TUNED in each[0])


def by_value(pairs: Pairs, name: str, values: Sequence[str]) -> Table:
    """What the rules that a user chooses between give up, with both models, by a value that every run has."""
    cells = []
    for value in sorted(set(values), key=by_size):
        which = np.array([each == value for each in values])
        weights = draws([run for run, here in zip(pairs.runs, which, strict=True) if here])
        for rule in (rule for rule in COLOURS if Pair(rule, "last") in pairs.found):
            for ship in SHIPS:
                curve = pairs.found[Pair(rule, ship)].over(which).patience(pairs.chosen[Pair(rule, ship)])
                at = at_costs(curve.cost, curve.regret, pairs.end[ship][which], weights)
                cells.append([value, str(which.sum()), rule, ship, *(plus_minus(each, 1, 1) for each in interval(at))])
    return [name, "runs", "rule", "ships", *(f"{level:.0%}" for level in LEVELS)], cells


def _curves(pairs: Pairs, folder: Path) -> Path:
    """Regret against cost, a panel per part: the rules that a user chooses between, each with both models."""
    plt = pyplot("agg")
    parts = list(pairs.parts)
    figure, axes = plt.subplots(
        1, len(parts), figsize=(4.4 * len(parts), 4.6), layout="constrained", squeeze=False, sharey=True
    )
    for axis, part in zip(axes[0], parts, strict=True):
        which = pairs.parts[part]
        weights = draws([run for run, here in zip(pairs.runs, which, strict=True) if here])
        levels = np.linspace(0.04, 1, 49).tolist()
        for rule, colour in COLOURS.items():
            for ship in SHIPS if Pair(rule, "last") in pairs.found else ():
                curve = pairs.found[Pair(rule, ship)].over(which).patience(pairs.chosen[Pair(rule, ship)])
                found = interval(at_costs(curve.cost, curve.regret, pairs.end[ship][which], weights, levels))
                value, low, high = np.array(found).T
                axis.plot(levels, value, DASH[ship], color=colour, lw=1.8, label=f"{rule}, {ship}")
                axis.fill_between(levels, low, high, color=colour, alpha=0.1, lw=0)
        axis.set(title=f"{part}: {which.sum()} runs", xlabel="share of the rounds used", xlim=(0, 1), ylim=(0, None))
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("accuracy given up (points)")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=len(COLOURS), fontsize=8, title="rule, and what it ships"
    )
    return save(plt, figure, folder / "curves.png")


def examples(runs: Sequence[Run]) -> list[Run]:
    """One run a task that nothing is tuned on: FedAvg with a probe at the good rate, label skew or sites, seed 0."""
    wanted = {"method": "fedavg", "lr": 0.1, "seed": 0, "lr_decay": 0.998}
    found = {}
    for run in runs:
        spec = run.spec
        here = all(spec.get(key) == value for key, value in wanted.items()) and spec.get("cohort") in (4, 10)
        if here and str(spec.get("model")).startswith("probe:") and spec.get("skew") in ("dirichlet", "natural"):
            found[task_of(run)] = run
    return [found[task] for task in TASKS if task in found]


def _stops(shown: Sequence[Run], folder: Path) -> Path:
    """Accuracy by round of the last model and of the average, and where each rule stops; what is shipped is marked."""
    plt = pyplot("agg")
    figure, axes = plt.subplots(
        1, len(shown), figsize=(3.0 * len(shown), 3.7), layout="constrained", squeeze=False, sharey=True
    )
    for axis, run in zip(axes[0], shown, strict=True):
        rounds = np.arange(1, len(run.rows) + 1)
        average = run.accuracy if run.average is None else run.average
        axis.plot(rounds, 100 * run.accuracy, color="#999999", lw=0.8, label="last model")
        axis.plot(rounds, 100 * average, color="black", lw=1.6, label="average of the last ten")
        for rule, word, colour, sign in MARKS:
            if (r := stop_round(rule, run.rows)) is not None:
                look = {"color": colour, "marker": sign, "ls": "", "markersize": 7, "markeredgecolor": "white"}
                axis.plot([r], [100 * average[r - 1]], label=word, zorder=3, **look)
                axis.plot([r], [100 * run.accuracy[r - 1]], zorder=3, alpha=0.5, **look)
        axis.set(title=TASKS[task_of(run)], xlabel="round", xlim=(0, len(run.rows)))
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("balanced test accuracy (%)")
    entries = dict(zip(*reversed(axes[0][0].get_legend_handles_labels()), strict=True))
    for axis in axes[0][1:]:
        entries |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.legend(entries.values(), entries.keys(), loc="outside lower center", ncols=3, fontsize=8)
    return save(plt, figure, folder / "stops.png")


def gains(rows: Sequence[dict[str, Any]], pair: Pair) -> str:
    """How many points less the pair gives up than the paper's rule and a budget with their last models, in words."""
    there = [row for row in rows if row["part"] == DECIDED and (row["rule"], row["ship"]) == pair]
    parts = []
    for row in there:
        for key, rival in (("against_paper", "the paper's rule"), ("against_budget", "a fixed budget")):
            told = ", ".join(f"{-value:.1f} ({-high:.1f} to {-low:.1f})" for value, low, high in row[key][:3])
            parts.append(f"than {rival} with its last model: {told}")
    return "; ".join(parts)
