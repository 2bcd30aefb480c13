"""What does the small CNN gain by its own mean over pixels? Milliseconds of a gradient, beside torch's pooling.

    python benchmarks/pooling.py [--images 120] [--repeats 60]

One core, in turns, the least of the repetitions, seconds of the thread, in both memory formats.
`Mean` in fedhalt/simulation/model.py is what is compared.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch import nn

from fedhalt.simulation.heap import kept_heap
from fedhalt.simulation.model import Mean, Model, SmallCNN

SIDES = {"torch": (nn.AdaptiveAvgPool2d(1), nn.Flatten()), "mean": (Mean(),)}


def cnn(pooling: tuple[nn.Module, ...], channels_last: bool) -> Model:
    torch.manual_seed(0)
    module = SmallCNN(3, 8)
    module.features = nn.Sequential(*module.features[:-1], *pooling)
    return Model(module, channels_last=channels_last)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=120)
    parser.add_argument("--repeats", type=int, default=60)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    x = torch.randint(0, 256, (given.images, 3, 28, 28), dtype=torch.uint8)
    y = torch.randint(0, 8, (given.images,))
    for channels_last in (True, False):
        sides = {name: cnn(pooling, channels_last) for name, pooling in SIDES.items()}
        times: dict[str, list[float]] = {name: [] for name in sides}
        for index in range(given.repeats + 3):  # the first three warm up
            for name, model in sides.items():
                begin = time.thread_time()
                model.gradient(model.vector(), x, y)
                if index >= 3:
                    times[name].append(1e3 * (time.thread_time() - begin))
        torchs, ours = (min(found) for found in times.values())
        name = "channels_last" if channels_last else "plain"
        print(f"{name:14} torch's pooling {torchs:.1f} ms, mean {ours:.1f} ms: {torchs / ours:.2f} x", flush=True)


if __name__ == "__main__":
    with kept_heap():
        main()
