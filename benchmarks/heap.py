"""What does it gain that glibc keeps the memory a step frees? Milliseconds of a gradient and its page faults.

    python benchmarks/heap.py [--models cnn tf_efficientnet_lite0 …] [--images 120] [--repeats 3]

Each side in a process of its own, in turns, one core, seconds of the thread: medians of 15 gradients, and the median
ratio over the repetitions with the least and the most. `fedhalt/simulation/heap.py` is what is compared.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import statistics
import subprocess
import sys
import time

MODELS = ("cnn", "tf_efficientnet_lite0", "resnet18", "convnextv2_atto")


def side(name: str, images: int, kept: bool) -> None:
    """One process: prints milliseconds, page faults, and the most memory in MB."""
    import torch
    from formats import model

    from fedhalt.simulation.formats import prefers_channels_last
    from fedhalt.simulation.heap import kept_heap

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    pixels = 28 if name == "cnn" else 32
    x, y = torch.randint(0, 256, (images, 3, pixels, pixels), dtype=torch.uint8), torch.randint(0, 8, (images,))
    made = model(name, prefers_channels_last(name), "products")
    w, times = made.vector(), []
    with kept_heap() if kept else contextlib.nullcontext():
        for index in range(18):  # the first three warm up
            if index == 3:
                before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            begin = time.thread_time()
            made.gradient(w, x, y)
            times.append(1e3 * (time.thread_time() - begin))
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps([statistics.median(times[3:]), (used.ru_minflt - before) / 15, used.ru_maxrss / 1024]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--images", type=int, default=120)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--side", choices=("kept", "plain"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        return side(given.models[0], given.images, given.side == "kept")
    for name in given.models:
        found: dict[str, list[list[float]]] = {"plain": [], "kept": []}
        for _ in range(given.repeats):
            for word, values in found.items():
                call = [sys.executable, __file__, "--side", word, "--models", name, "--images", str(given.images)]
                values.append(json.loads(subprocess.run(call, capture_output=True, text=True, check=True).stdout))
        ratios = [one[0] / other[0] for one, other in zip(found["plain"], found["kept"], strict=True)]
        said = [
            f"{word} {statistics.median(v[0] for v in values):.1f} ms, {statistics.median(v[1] for v in values):,.0f} "
            f"faults, {statistics.median(v[2] for v in values):.0f} MB"
            for word, values in found.items()
        ]
        gain = f"{statistics.median(ratios):.2f} x ({min(ratios):.2f} to {max(ratios):.2f})"
        print(f"{name:24} {'; '.join(said)}: {gain}", flush=True)
    return None


if __name__ == "__main__":
    main()
