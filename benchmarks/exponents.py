"""How fast may a healthy model speed up? For how many rounds in a row recorded runs had a large local exponent.

    python benchmarks/exponents.py [--above 1.5 2.5]

Over the packed runs of both StopBenches and the recorded runs of the network scale; the limit of
`fedhalt.integrations.optuna.TrialStopper` comes from this.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from fedhalt.paper.rows import RECORDED, Results
from fedhalt.rules import Row, motion
from fedhalt.stopbench.runs import PACKED, PACKED2, load_packed


def streaks(rows: Iterable[Row], limits: list[float]) -> list[int]:
    """The longest row of rounds with an exponent above each limit."""
    state, now, longest = motion.begin(), [0] * len(limits), [0] * len(limits)
    for r, row in enumerate(rows, 1):
        state, found = motion.step(state, r, row)
        now = [n + 1 if (found.exponent or 0.0) > limit else 0 for n, limit in zip(now, limits, strict=True)]
        longest = [max(pair) for pair in zip(now, longest, strict=True)]
    return longest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--above", nargs="+", type=float, default=[1.5, 2.5])
    limits = parser.parse_args().above
    sources = {folder.name: [(run.name, run.rows) for run in load_packed(folder)] for folder in (PACKED, PACKED2)}
    sources["network"] = list(Results(RECORDED / "network").curves.items())
    for source, runs in sources.items():
        found = [(streaks(rows, limits), name) for name, rows in runs]
        for index, limit in enumerate(limits):
            most, name = max((each[index], name) for each, name in found)
            print(
                f"{source}: {len(runs)} runs, above {limit:g} for at most {most} rounds in a row ({name})", flush=True
            )


if __name__ == "__main__":
    main()
