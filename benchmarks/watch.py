"""What does a look of `fedhalt watch` at many runs cost? Beside it, in the same run, one stat of every file.

Nothing changed since the look before: this is what a page that stays open asks for every second. The bound is
what no look can do without, two stats per run (its record and its summary), so the ratio says what finding the
runs and naming them adds, on a fast and on a busy machine alike.

    python benchmarks/watch.py [--runs 10000] [--rounds 200]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from fedhalt.views import live
from fedhalt.views.live import LiveRuns


def record(folder: Path, rounds: int) -> None:
    folder.mkdir(parents=True)
    rows = [{"round": r, "distance": r**0.5, "test_accuracy": 1 - 1 / (r + 1)} for r in range(1, rounds + 1)]
    lines = [{"fedhalt": "trajectory", "version": 1}, *rows]
    (folder / "trajectory.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "summary.json").write_text("{}")


def timed(work) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def measure(root: Path, repeats: int = 9) -> None:
    runs = LiveRuns([root], lambda file, name: {"name": name})  # reading is done once per run, not in every look
    version = runs.since("")["version"]
    files = [
        os.path.join(root, name, file) for name in os.listdir(root) for file in ("trajectory.jsonl", "summary.json")
    ]
    looks, bounds = [], []
    for _ in range(repeats):
        time.sleep(live.PAUSE)
        looks.append(timed(lambda: runs.since(version)))
        bounds.append(timed(lambda: [os.stat(file) for file in files]))
    look, bound = statistics.median(looks), statistics.median(bounds)
    print(f"{len(files) // 2} runs: a look {look:.3f} s, a stat of every file {bound:.3f} s, ratio {look / bound:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=200)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for index in range(given.runs):
            record(Path(folder) / f"run-{index:05}", given.rounds)
        measure(Path(folder))


if __name__ == "__main__":
    main()
