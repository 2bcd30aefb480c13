"""How many images should a network answer at a time? Milliseconds of 1,024 answers, and whether bits change.

    python benchmarks/batches.py [--models cnn resnet18 …] [--repeats 5]

One core, interleaved, the least of the repetitions, seconds of the thread, in the memory format that a run chooses.
`IMAGES` in fedhalt/simulation/federation.py comes from this.
"""

from __future__ import annotations

import argparse
import time
import warnings

import torch
from formats import model

from fedhalt.simulation.formats import prefers_channels_last

MODELS = ("cnn", "tf_efficientnet_lite0", "resnet18", "convnextv2_atto", "mobilenetv3_small_050")
SIZES = (1024, 512, 256, 128, 64)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--pixels", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    images = torch.randint(0, 256, (1024, 3, given.pixels, given.pixels), dtype=torch.uint8)
    for name in given.models:
        made = model(name, prefers_channels_last(name), "products")
        times: dict[int, list[float]] = {size: [] for size in SIZES}
        logits = {}
        for _ in range(given.repeats):
            for size in SIZES:
                begin = time.thread_time()
                logits[size] = torch.cat([made.predict(batch) for batch in images.split(size)])
                times[size].append(1e3 * (time.thread_time() - begin))
        found = {size: min(values) for size, values in times.items()}
        same = [size for size in SIZES if torch.equal(logits[size], logits[SIZES[0]])]
        words = ", ".join(f"{size} {value:.0f}" for size, value in found.items())
        print(f"{name:24} {words} ms; the same bits with {', '.join(map(str, same))}", flush=True)


if __name__ == "__main__":
    main()
