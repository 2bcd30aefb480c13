"""What does the criterion cost? Our distance, `torch.norm(a - b)` and the memory bandwidth, side by side in one run.

The bound is the fastest read of both arrays we know on this machine: numpy's dot of the two (one pass, no
writes). Ratios are medians over interleaved repetitions, so load on the machine hits all three alike.

    python benchmarks/criterion.py [--sizes 1e6 1e7 1e8]
"""

from __future__ import annotations

import argparse
import statistics
import time
import tracemalloc

import numpy as np
import torch

from fedhalt import EarlyStopper, squared_distance


def timed(work) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def exact(a: np.ndarray, b: np.ndarray) -> float:
    """||a - b|| with float64 throughout, in pieces."""
    step = 1 << 20
    gaps = (a[i : i + step].astype(np.float64) - b[i : i + step] for i in range(0, a.size, step))
    return float(np.sqrt(sum(np.dot(gap, gap) for gap in gaps)))


def measure(size: int) -> None:
    rng = np.random.default_rng(0)
    start = rng.standard_normal(size, dtype=np.float32)
    now = rng.standard_normal(size, dtype=np.float32)
    now *= np.float32(0.01)
    now += start
    a, b = torch.from_numpy(now), torch.from_numpy(start)
    works = {
        "bound": lambda: np.dot(now, start),
        "fedhalt": lambda: squared_distance(now, start),
        "fedhalt on torch": lambda: squared_distance(a, b),
        "torch.norm(a - b)": lambda: torch.norm(a - b),
    }
    repeats = max(3, min(200, int(1e9 / size)))
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            times[name].append(timed(work))
    median = {name: statistics.median(values) for name, values in times.items()}
    truth = exact(now, start)
    error = {
        "fedhalt": abs(squared_distance(now, start) ** 0.5 / truth - 1),
        "fedhalt on torch": abs(squared_distance(a, b) ** 0.5 / truth - 1),
        "torch.norm(a - b)": abs(float(torch.norm(a - b)) / truth - 1),
    }
    print(
        f"\n{size:,} float32 parameters, {repeats} repetitions, {2 * 4 * size / median['bound'] / 1e9:.1f} GB/s bound"
    )
    for name in works:
        share = median["bound"] / median[name]
        wrong = f"  relative error {error[name]:.1e}" if name in error else ""
        print(f"  {name:18} {median[name] * 1e3:10.2f} ms  {share:5.0%} of the bound{wrong}")
    tracemalloc.start()
    stopper = EarlyStopper(start=start)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.reset_peak()
    stopper.update(now)
    extra = tracemalloc.get_traced_memory()[1] - kept
    tracemalloc.stop()
    print(f"  memory: start {kept / 1e6:.1f} MB, {extra / 1e6:.2f} MB more while measuring")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=float, nargs="+", default=[1e6, 1e7, 1e8])
    for size in parser.parse_args().sizes:
        measure(int(size))
