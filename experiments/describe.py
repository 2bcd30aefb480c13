"""The numbers in docs/findings.md about one recorded run: how far, how fast, how good, and where the rule stops.

python experiments/describe.py runs/ID
"""

from __future__ import annotations

import argparse
import itertools
from pathlib import Path

import numpy as np

from fedhalt import GrowthRate, Trajectory, stop_round


def describe(run: Trajectory) -> None:
    r, distance = run.column("round"), run.column("distance")
    plain, balanced = run.column("test_accuracy"), run.column("test_balanced_accuracy")
    print(f"{len(run)} rounds, median {np.median(run.column('seconds')):.2f} s each")
    stops = {threshold: stop_round(GrowthRate(threshold), run) for threshold in (0.005, 0.01, 0.05, 0.1)}
    print("stop round of the paper's rule by threshold, patience 10:", stops)
    edges = sorted({1, *(round(len(run) * share) for share in (0.1, 0.2, 0.5, 1.0))})
    for begin, end in itertools.pairwise(edges):
        part = slice(begin - 1, end)
        slope = np.polyfit(np.log(r[part]), np.log(distance[part]), 1)[0]
        means = f"{plain[part].mean():.1%} (balanced {balanced[part].mean():.1%})"
        print(f"rounds {begin} to {end}: d ln distance / d ln round {slope:.2f}, mean accuracy {means}")
    spread = [f"{scores[-10:].mean():.1%} +- {scores[-10:].std():.1%}" for scores in (plain, balanced)]
    best = f"best {plain.max():.1%} at round {int(plain.argmax()) + 1}"
    print(f"last ten rounds: accuracy {spread[0]}, balanced {spread[1]}; {best}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    describe(Trajectory.load(parser.parse_args().run / "trajectory.jsonl"))
