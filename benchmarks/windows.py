"""How many rounds to average? Fixed windows against one that is estimated from the drift, without data.

    python benchmarks/windows.py [--data-root ../shared/data] [--out results/average] [--only probe]

Reads the runs of benchmarks/average.py, which kept the model of every round. Every five rounds from round 40 on, the
last k models are averaged and evaluated: for fixed k, and for the estimate from drift_10 and from drift_20
(`best_window`: the least error in parameter distance, at most 40 rounds). Balanced test accuracy in percent, mean over
these rounds and over the seeds that are there. The last columns: the median of the estimated windows, and in how many
of the rounds the estimate beat ten.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from pathlib import Path

import torch
from average import METRIC, ROUNDS, RUNS, SEEDS
from safetensors.torch import load_file

from fedhalt import Trajectory
from fedhalt.rules import named_rule
from fedhalt.rules.signals.drift import best_window
from fedhalt.simulation import RunSpec
from fedhalt.simulation.federation import Federation
from fedhalt.simulation.runner import file_name

FIXED, MOST = (1, 2, 5, 10, 20, 40), 40
ESTIMATED = {"from drift_10": 10, "from drift_20": 20}
AT = range(40, ROUNDS + 1, 5)

Scores = dict[str, list[float]]
"""By column of the table, one number for each of the rounds."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", default="../shared/data")
    parser.add_argument("--out", type=Path, default=Path("results/average"))
    parser.add_argument("--only", default="", help="runs whose name holds this")
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(f"| run | seeds | {' | '.join(map(str, FIXED))} | {' | '.join(ESTIMATED)} | windows | beat ten |")
    print("|---" * (len(FIXED) + len(ESTIMATED) + 4) + "|")
    for name, settings in RUNS.items():
        if given.only not in name:
            continue
        specs = [RunSpec(**settings, seed=seed) for seed in SEEDS]
        there = [spec for spec in specs if whole(given.out / spec.id)]
        if there:
            print(row(name, [scores(spec, given.out / spec.id, given.data_root) for spec in there]), flush=True)


def whole(folder: Path) -> bool:
    return folder.exists() and len(Trajectory.load(folder / "trajectory.jsonl")) >= ROUNDS


def row(name: str, found: list[Scores]) -> str:
    merged = {column: [value for scores in found for value in scores[column]] for column in found[0]}
    cells = [f"{statistics.mean(merged[column]):.1f}" for column in [*map(str, FIXED), *ESTIMATED]]
    windows = [f"{statistics.median(merged[f'k {column}']):.0f}" for column in ESTIMATED]
    better = [sum(mine > ten for mine, ten in zip(merged[column], merged["10"], strict=True)) for column in ESTIMATED]
    total = len(merged["10"])
    beat = ", ".join(f"{number} of {total}" for number in better)
    return f"| {name} | {len(found)} | {' | '.join(cells)} | {', '.join(windows)} | {beat} |"


def scores(spec: RunSpec, folder: Path, data_root: str) -> Scores:
    """Every window at every one of the rounds, for one run."""
    federation, rows = Federation(spec, data_root), Trajectory.load(folder / "trajectory.jsonl").rows
    vectors = [federation.vectors(load_file(file)) for file in models(folder)]
    sums = torch.cat([torch.zeros(1, len(vectors[0][0]), dtype=torch.float64),
                      torch.stack([x.double() for x, _ in vectors]).cumsum(0)])  # fmt: skip
    made: Scores = {column: [] for column in [*map(str, FIXED), *ESTIMATED, *(f"k {each}" for each in ESTIMATED)]}
    for r in AT:
        known: dict[int, float] = {}
        for column, k in [*((str(k), k) for k in FIXED), *estimates(rows[r - 1])]:
            if k not in known:
                mean = ((sums[r] - sums[r - k]) / k).float()
                known[k] = 100 * federation.evaluate(mean, vectors[r - 1][1])[METRIC]
            made[column].append(known[k])
            if column in ESTIMATED:
                made[f"k {column}"].append(k)
    return made


def models(folder: Path) -> Iterator[Path]:
    for r in range(1, ROUNDS + 1):
        yield folder / "models" / f"{file_name(named_rule('budget', rounds=r))}.safetensors"


def estimates(row: dict[str, float]) -> list[tuple[str, int]]:
    """The windows that the drift of this round asks for."""
    return [
        (column, max(1, round(min(MOST, best_window(row[f"drift_{window}"], window)))))
        for column, window in ESTIMATED.items()
    ]


if __name__ == "__main__":
    main()
