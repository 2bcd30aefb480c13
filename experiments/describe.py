"""The numbers in docs/findings.md about one recorded run: how far, how fast, how good, and where rules stop.

python experiments/describe.py runs/ID
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from fedhalt import GrowthRate, Trajectory, stop_round


def describe(run: Trajectory) -> None:
    r, distance = run.column("round"), run.column("distance")
    plain, balanced = run.column("test_accuracy"), run.column("test_balanced_accuracy")
    print(f"{len(run)} rounds, median {np.median(run.column('seconds')):.2f} s each")
    print(
        "stop round of the paper's rule, patience 10:",
        {t: stop_round(GrowthRate(t), run) for t in (0.005, 0.01, 0.05, 0.1)},
    )
    edges = sorted({1, *(round(len(run) * share) for share in (0.1, 0.2, 0.5, 1.0))})
    for begin, end in zip(edges, edges[1:], strict=False):
        part = slice(begin - 1, end)
        slope = np.polyfit(np.log(r[part]), np.log(distance[part]), 1)[0]
        means = f"{plain[part].mean():.1%} (balanced {balanced[part].mean():.1%})"
        print(f"rounds {begin} to {end}: d ln distance / d ln round {slope:.2f}, mean accuracy {means}")
    last = f"{plain[-10:].mean():.1%} +- {plain[-10:].std():.1%}, balanced {balanced[-10:].mean():.1%} +- {balanced[-10:].std():.1%}"
    print(f"last ten rounds: {last}; best {plain.max():.1%} at round {int(plain.argmax()) + 1}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    describe(Trajectory.load(parser.parse_args().run / "trajectory.jsonl"))
