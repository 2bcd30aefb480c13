"""Which data-free verdict tells hopeless configurations from good ones? Numbers and picture of docs/findings.md.

Why it is kept: it is how the default of `Wandering` was chosen, among quantities that are no rules (signed growth,
outward drift), and its figures have no other command. `fedhalt stopbench` screens by rules, on other runs, and counts a
flag only within the first fifth of the rounds.

python benchmarks/screening.py --choose runs/blood --test runs/derma --picture docs/pictures/screening.png
python benchmarks/screening.py --choose runs/blood runs/derma --test runs/skews runs/cnn runs/digits

Every run folder under a folder is one configuration, recorded to the full budget. Its score is the mean balanced test
accuracy of its last 20 rounds, its place the way from chance (0) to the best run of the same data, model and skew (1).
Below 0.5 it is hopeless, from 0.85 on it is good, between them either verdict is fine. A hopeless run that is never
flagged is a miss, a good one that is flagged a false alarm.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from fedhalt.rules.wandering import Wandering

from fedhalt import GrowthAuthors, GrowthRate, Trajectory, stop_round

HOPELESS, GOOD = 0.5, 0.85
PATIENCES = (3, 5, 10, 15, 20, 30)


@dataclass(frozen=True)
class Run:
    spec: dict[str, Any]
    group: tuple[Any, ...]
    columns: dict[str, Any]
    score: float
    record: Trajectory


def runs(folder: Path) -> Iterator[Run]:
    for path in sorted(folder.glob("*/trajectory.jsonl")):
        record = Trajectory.load(path)
        spec = record.header["spec"]
        columns = {name: record.column(name) for name in ("distance", "update_norm", "test_balanced_accuracy")}
        group = (spec["data"], spec["model"], spec["skew"], spec["c"])
        yield Run(spec, group, columns, float(columns["test_balanced_accuracy"][-20:].mean()), record)


def places(found: list[Run]) -> list[float]:
    """Each run's place between chance and the best of its group."""
    classes = {"blood": 8, "derma": 7, "digits": 10}
    best = {run.group: max(other.score for other in found if other.group == run.group) for run in found}
    return [
        (run.score - 1 / classes[run.spec["data"]]) / (best[run.group] - 1 / classes[run.spec["data"]]) for run in found
    ]


def exponent(distance: Any) -> Any:
    """The slope of ln distance on ln round over the second half of the rounds so far, for every round."""
    x, y = np.log(np.arange(1, len(distance) + 1)), np.log(distance)
    return np.array([np.nan if r < 4 else np.polyfit(x[r // 2 : r], y[r // 2 : r], 1)[0] for r in range(1, len(y) + 1)])


def drift(distance: Any, update: Any) -> Any:
    """What the second half of the rounds so far added to the distance, against a random walk of its updates."""
    squares = np.concatenate([[0.0], np.cumsum(update**2)])
    out = np.full(len(distance), np.nan)
    for r in range(4, len(distance) + 1):
        half = r // 2
        out[r - 1] = (distance[r - 1] - distance[half - 1]) / np.sqrt(squares[r] - squares[half])
    return out


def quantities(run: Run) -> dict[str, Any]:
    """What a verdict could be held against, per round; small is hopeless."""
    distance, update = run.columns["distance"], run.columns["update_norm"]
    before = np.concatenate([[np.nan], distance[:-1]])
    return {
        "exponent of the distance": exponent(distance),
        "signed growth": (distance - before) / before,
        "net / gross movement": distance / np.cumsum(update),
        "distance / update": distance / update,
        "outward drift / noise (z)": drift(distance, update),
        "net / random walk (w)": distance / np.sqrt(np.cumsum(update**2)),
    }


THRESHOLDS = {
    "exponent of the distance": (-0.2, -0.1, 0.0, 0.1, 0.2),
    "signed growth": (-0.1, -0.03, 0.0, 0.01),
    "net / gross movement": (0.04, 0.06, 0.08, 0.1, 0.12, 0.15),
    "distance / update": (1.0, 2.0, 3.0, 4.0, 5.0, 6.0),
    "outward drift / noise (z)": (-0.2, -0.1, -0.05, 0.0, 0.05, 0.1, 0.15, 0.2),
    "net / random walk (w)": (0.3, 0.4, 0.5, 0.6, 0.7, 0.8),
}


def first(values: Any, threshold: float, patience: int) -> int | None:
    """The round in which the values have been below the threshold for `patience` rounds in a row."""
    streak = 0
    for index, below in enumerate(values < threshold):
        streak = streak + 1 if below else 0
        if streak >= patience:
            return index + 1
    return None


def verdict(stops: list[int | None], place: list[float]) -> tuple[int, int, list[int]]:
    """Hopeless runs that were missed, good ones that were flagged, and the rounds of the right flags."""
    missed = sum(stop is None for stop, where in zip(stops, place, strict=True) if where < HOPELESS)
    alarms = sum(stop is not None for stop, where in zip(stops, place, strict=True) if where >= GOOD)
    return missed, alarms, [stop for stop, where in zip(stops, place, strict=True) if where < HOPELESS and stop]


def table(found: list[Run]) -> dict[tuple[str, float, int], tuple[int, int, list[int]]]:
    place = places(found)
    measured = [quantities(run) for run in found]
    rows = {}
    for name, thresholds in THRESHOLDS.items():
        for threshold in thresholds:
            for patience in PATIENCES:
                stops = [first(values[name], threshold, patience) for values in measured]
                rows[name, threshold, patience] = verdict(stops, place)
    for rule, title in ((GrowthRate, "the paper's rule"), (GrowthAuthors, "the authors' code")):
        for threshold in (0.01, 0.1):
            stops = [stop_round(rule(threshold, 10), run.record) for run in found]
            rows[title, threshold, 10] = verdict(stops, place)
    return rows


def show(title: str, found: list[Run], rows: dict[Any, Any], keys: list[Any]) -> None:
    place = places(found)
    bad, good = sum(p < HOPELESS for p in place), sum(p >= GOOD for p in place)
    print(f"\n{title}: {len(found)} runs, {bad} hopeless, {good} good, {len(found) - bad - good} between")
    for key in keys:
        missed, alarms, flagged = rows[key]
        when = f"median round {statistics.median(flagged):.0f} ({min(flagged)} to {max(flagged)})" if flagged else "-"
        print(
            f"  {key[0]:26} {key[1]:6g} x {key[2]:2}: missed {missed} of {bad}, false alarms {alarms} of {good}, {when}"
        )


def best(rows: dict[Any, Any]) -> list[Any]:
    """The best setting of every quantity: fewest errors, then the earliest."""
    names = dict.fromkeys(key[0] for key in rows)

    def cost(key: Any) -> tuple[float, float]:
        missed, alarms, flagged = rows[key]
        return missed + alarms, statistics.median(flagged) if flagged else 1e9

    return [min((key for key in rows if key[0] == name), key=cost) for name in names]


def draw(sets: dict[str, list[Run]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rule = Wandering()
    figure, axes = plt.subplots(1, len(sets), figsize=(5.2 * len(sets), 3.8), layout="constrained", sharey=True)
    for axis, (title, found) in zip(np.atleast_1d(axes), sets.items(), strict=True):
        for run, where in sorted(zip(found, places(found), strict=True), key=lambda pair: -pair[1]):
            kind = 0 if where >= GOOD else 2 if where < HOPELESS else 1
            w = quantities(run)["net / random walk (w)"]
            style = [("#0072b2", "-"), ("#999999", ":"), ("#d55e00", "--")][kind]
            label = ("good", "between", "hopeless")[kind]
            axis.plot(np.arange(1, len(w) + 1), w, color=style[0], ls=style[1], lw=0.8, alpha=0.7, label=label)
        axis.axhline(rule.threshold, color="black", lw=1)
        axis.set(xscale="log", yscale="log", xlabel="round", title=title)
        handles = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
        axis.legend(handles.values(), handles.keys(), frameon=False, fontsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    np.atleast_1d(axes)[0].set_ylabel("w: net movement / random walk")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--choose", type=Path, nargs="+", required=True, help="folders the verdict is chosen on")
    parser.add_argument("--test", type=Path, nargs="*", default=[], help="folders it is only judged on")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--all", action="store_true", help="every setting, not only the best of each quantity")
    given = parser.parse_args()
    chosen_on = [run for folder in given.choose for run in runs(folder)]
    rows = table(chosen_on)
    shipped = ("net / random walk (w)", Wandering().threshold, Wandering().patience)
    keys = list(dict.fromkeys([*best(rows), shipped]))
    title = " and ".join(folder.name for folder in given.choose)
    show(f"{title} (chosen on)", chosen_on, rows, list(rows) if given.all else keys)
    sets = {title: chosen_on}
    for folder in given.test:
        sets[folder.name] = list(runs(folder))
        show(f"{folder.name} (not seen)", sets[folder.name], table(sets[folder.name]), keys)
    if given.picture:
        draw(sets, given.picture)


if __name__ == "__main__":
    main()
