"""What does judging cost? One long record replayed, and many short ones reported, beside an earlier version.

Each measurement is a process of its own, so that its peak memory is its own. With `--against` (the folder of another
version's checkout, such as one that `git worktree add ../before 0.1.0` makes) both versions take turns on the same
files. On a busy machine compare processor seconds, and only within one run.

    python benchmarks/judging.py [--rounds 5000000] [--runs 10000] [--length 200] [--against ../before]
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent


def record(path: Path, rounds: int) -> None:
    """A record with every line sealed: distance and accuracy, as `Trajectory.append` writes them."""
    from fedhalt.records import lines

    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        file.write(lines.to_header({}))
        for r in range(1, rounds + 1):
            file.write(lines.to_line({"round": r, "distance": r**0.5, "test_accuracy": 1 - 1 / (r + 1)}))


def measure(tree: Path, arguments: list[str]) -> tuple[float, float, float]:
    """Seconds of processor, seconds of clock and peak megabytes of one `fedhalt` command."""
    command = [sys.executable, __file__, "--command", *arguments]
    environment = {**os.environ, "PYTHONPATH": os.fspath(tree), "OMP_NUM_THREADS": "1"}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stderr
    busy, passed, peak = said.splitlines()[-1].split()
    return float(busy), float(passed), float(peak)


def command(arguments: list[str]) -> None:
    """In a process of its own: the command, and what it took as the last line of the errors."""
    import time

    from fedhalt.cli.app import app

    begin, busy = time.perf_counter(), time.process_time()
    try:
        app(arguments)
    except SystemExit as ended:
        if ended.code:
            raise
    passed, busy = time.perf_counter() - begin, time.process_time() - busy
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{busy} {passed} {peak}", file=sys.stderr)


def compare(title: str, trees: dict[str, Path], arguments: list[str], rows: int, repeats: int) -> None:
    print(title)
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in trees}
    for _ in range(repeats):
        for name, tree in trees.items():
            found[name].append(measure(tree, arguments))
    for name, taken in found.items():
        busy, passed, peak = (min(each) for each in zip(*taken, strict=True))
        print(
            f"  {name:8} {busy:7.2f} s ({passed:.2f} s by the clock), {busy / rows * 1e6:.2f} µs a row, {peak:.0f} MB"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5_000_000)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--length", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--against", type=Path)
    given = parser.parse_args()
    trees = {"before": given.against.resolve()} if given.against else {}
    trees["now"] = HERE
    with tempfile.TemporaryDirectory() as folder:
        one, many, page = Path(folder) / "one.jsonl", Path(folder) / "runs", Path(folder) / "page.html"
        record(one, given.rounds)
        replay = ["replay", os.fspath(one), "--rule", "growth", "--threshold", "1e-12", "--json"]  # it never stops
        compare(f"replay, {given.rounds} rounds", trees, replay, given.rounds, given.repeats)
        for index in range(given.runs):
            record(many / f"run-{index:05}" / "trajectory.jsonl", given.length)
        report = ["report", os.fspath(many), "-o", os.fspath(page)]
        rows = given.runs * given.length
        compare(f"report, {given.runs} runs of {given.length} rounds", trees, report, rows, given.repeats)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--command"]:
        command(sys.argv[2:])
    else:
        main()
