"""What is the average of the last ten global models worth? The table of docs/choosing.md, three seeds.

    python benchmarks/average.py [--data-root ../shared/data] [--out results/average] [--only digits] [--seeds 0 1 2]
                                 [--picture docs/pictures/average.png]

Balanced test accuracy in percent at rounds 20, 50, 100 and 150: the last model (mean over five rounds before and after,
because single rounds jump) and the mean of the last ten models; the mean over seeds and, in brackets, the range of the
difference. Runs are resumed where they were left, so the command can be called again. The model of every round is kept:
benchmarks/windows.py averages other numbers of rounds. A second table says what the average gained by the drift of the
rounds. The picture shows two of the runs, seed 0.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

from fedhalt import GrowthRate, Trajectory, stop_round
from fedhalt.rules import named_rules
from fedhalt.rules.signals.drift import best_window
from fedhalt.simulation import RunSpec, run
from fedhalt.views.words import format_drift

PROBE = {"model": "probe:tf_efficientnet_lite0", "pretrained": True, "resize": 64, "skew": "dirichlet", "c": 0.1}
RUNS: dict[str, dict[str, Any]] = {
    "digits, small CNN": {"data": "digits", "clients": 20, "cohort": 5, "skew": "dirichlet", "c": 0.1, "lr": 0.05},
    "blood, probe, Dirichlet 0.1": {**PROBE, "data": "blood", "lr": 0.1},
    "skin, probe, Dirichlet 0.1": {**PROBE, "data": "derma", "lr": 0.1},
    "blood, probe, quantity 0.1": {**PROBE, "data": "blood", "lr": 0.1, "skew": "quantity"},
    "blood, probe, SCAFFOLD": {**PROBE, "data": "blood", "lr": 0.1, "method": "scaffold"},
    "blood, probe, FedDyn": {**PROBE, "data": "blood", "lr": 0.1, "method": "feddyn"},
    "blood, probe, iid": {**PROBE, "data": "blood", "lr": 0.1, "skew": "iid"},
    "blood, probe, rate 10 (bad)": {**PROBE, "data": "blood", "lr": 10.0},
    "blood, small CNN": {"data": "blood", "skew": "dirichlet", "c": 0.1, "lr": 0.05},
}
AT, AROUND, SEEDS = (20, 50, 100, 150), 5, (0, 1, 2)
METRIC = "test_balanced_accuracy"
PICTURED = {"Blood cells, linear probe": "blood, probe, Dirichlet 0.1", "Digits, small CNN": "digits, small CNN"}
ROUNDS = AT[-1] + AROUND
EVERY_ROUND = named_rules(["budget"], {"rounds": [*range(1, ROUNDS + 1)]})
"""A run keeps the model of a rule's stop; these stop at every round."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", default="../shared/data")
    parser.add_argument("--out", type=Path, default=Path("results/average"))
    parser.add_argument("--only", default="", help="runs whose name holds this")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--picture", type=Path)
    given = parser.parse_args()
    chosen = {name: settings for name, settings in RUNS.items() if given.only in name}
    for seed in given.seeds:
        for settings in chosen.values():
            spec = RunSpec(**settings, seed=seed)
            run(spec, given.out, rounds=ROUNDS, watch=EVERY_ROUND, stop="never", average=10, workers=given.workers,
                data_root=given.data_root)  # fmt: skip
    print("| run | " + " | ".join(f"round {r}" for r in AT) + " | drift_20 at 40, 100, 140 |")
    print("|---" * (len(AT) + 2) + "|")
    for name, settings in chosen.items():
        print(f"| {name} | " + " | ".join(line([recorded(given.out, settings, seed) for seed in given.seeds])) + " |")
    print(by_drift([recorded(given.out, settings, seed) for settings in chosen.values() for seed in given.seeds]))
    if given.picture:
        draw({title: recorded(given.out, RUNS[name], 0) for title, name in PICTURED.items()}, given.picture)


def recorded(out: Path, settings: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    return Trajectory.load(out / RunSpec(**settings, seed=seed).id / "trajectory.jsonl").rows


def line(records: list[list[dict[str, Any]]]) -> list[str]:
    cells = []
    for r in AT:
        pairs = [at(rows, r) for rows in records]
        last, average = (statistics.mean(pair[side] for pair in pairs) for side in (0, 1))
        gains = [after - before for before, after in pairs]
        cells.append(f"{last:.1f} → {average:.1f} ({min(gains):+.1f} to {max(gains):+.1f})")
    drifts = [statistics.mean(rows[r - 1]["drift_20"] for rows in records) for r in (40, 100, 140)]
    windows = [best_window(drift, 20) for drift in drifts]
    return [*cells, ", ".join(f"{drift:.1f} (k = {k:.0f})" for drift, k in zip(drifts, windows, strict=True))]


def at(rows: list[dict[str, Any]], r: int) -> tuple[float, float]:
    """The last model around round r, and the average at it, in percent."""
    around = [row[METRIC] for row in rows[r - 1 - AROUND : r + AROUND]]
    return 100 * statistics.mean(around), 100 * rows[r - 1][f"{METRIC}_average"]


def by_drift(records: list[list[dict[str, Any]]]) -> str:
    """What the average gained, every ten rounds, by the word for drift_10 there."""
    gains: dict[str, list[float]] = {}
    for rows in records:
        for r in range(20, AT[-1] + 1, 10):
            last, average = at(rows, r)
            gains.setdefault(format_drift(rows[r - 1]["drift_10"]).split()[0], []).append(average - last)
    lines = ["| drift_10 | looks | gain of the average, mean | lowest | below the last model |", "|---" * 5 + "|"]
    for word in filter(gains.get, ("scattering", "settling", "drifting")):
        found = gains[word]
        worse = sum(gain < 0 for gain in found)
        lines.append(f"| {word} | {len(found)} | {statistics.mean(found):+.1f} | {min(found):+.1f} | {worse} |")
    return "\n".join(lines)


def draw(runs: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Accuracy by round of the last model and of the average, with the stop of the paper's rule."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ink, red = "#1b1f24", "#c2410c"
    figure, axes = plt.subplots(1, len(runs), figsize=(9.6, 3.6), layout="constrained")
    for axis, (title, rows) in zip(axes, runs.items(), strict=True):
        rounds = [row["round"] for row in rows]
        last, average = ([100 * row[column] for row in rows] for column in (METRIC, f"{METRIC}_average"))
        axis.plot(rounds, last, color=ink, lw=0.8, alpha=0.55, label="last model")
        axis.plot(rounds, average, color=red, lw=2.2, label="mean of the last ten")
        stop = stop_round(GrowthRate(), rows)
        if stop is not None:
            axis.axvline(stop, color=ink, ls="--", lw=1)
            axis.text(stop + 2, 3, f"growth stops\nat round {stop}", fontsize=9, color=ink)
        axis.set(title=title, xlabel="federated round", ylim=(0, 100))
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(x=0.01)
    axes[0].set_ylabel("balanced test accuracy (%)")
    axes[0].legend(frameon=False, loc="lower right", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
