"""What does it cost that a power cut loses at most 30 seconds? Syncing, as a share of the training of the small CNN.

    python benchmarks/durability.py [--rounds 30]

A federation on digits is trained twice: as always, where the last round is synced every 15 seconds, and with a sync
after every round, the most that can be asked for. The share is the time within syncs over the time of the run.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from typing import Any

from fedhalt.simulation import RunSpec, run, store

SPEC = RunSpec(data="digits", clients=20, cohort=5, lr=0.05, c=0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    usual = store.SYNC_EVERY
    for name, every in ((f"every {usual:g} s", usual), ("every round", 0.0)):
        store.SYNC_EVERY = every
        seconds, syncs = timed(given.rounds)
        each = f"{len(syncs)} syncs of {statistics.median(syncs):.4f} s"
        print(f"{name:12} {given.rounds} rounds in {seconds:.2f} s, {each}: {sum(syncs) / seconds:.2%} of the run")


def timed(rounds: int) -> tuple[float, list[float]]:
    """Seconds of the run without its set-up, and of every sync in it."""
    syncs: list[float] = []
    plain, begin = store.RunFolder.sync, [0.0]

    def sync(folder: Any) -> None:
        start = time.perf_counter()
        plain(folder)
        syncs.append(time.perf_counter() - start)

    def progress(now: Any) -> None:
        if now.row["round"] == 1:
            begin[0] = time.perf_counter()
            syncs.clear()

    store.RunFolder.sync = sync  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory(dir=".") as folder:
            run(SPEC, folder, rounds=rounds, stop="never", progress=progress)
            return time.perf_counter() - begin[0], syncs
    finally:
        store.RunFolder.sync = plain  # type: ignore[method-assign]


if __name__ == "__main__":
    main()
