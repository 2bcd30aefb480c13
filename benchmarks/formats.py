"""Which memory format does a network want, and what do `products` gain? Milliseconds of a gradient, side by side.

    python benchmarks/formats.py [--models cnn resnet18 …] [--images 120] [--repeats 5] [--compile]

One core, interleaved, the least of the repetitions, seconds of the thread: the table `GAIN` in
fedhalt/simulation/formats.py is made of this. products is `gradient="products"` in the format that a run chooses, and
its factor, with the least and the most of the repetitions, is that against autograd in the same format. `--compile`
adds torch.compile, which needs a C++ compiler, and says how long its first call takes.
"""

from __future__ import annotations

import argparse
import time
import warnings

import timm
import torch

from fedhalt.simulation.formats import prefers_channels_last
from fedhalt.simulation.model import Model, SmallCNN
from fedhalt.simulation.onepixel import products

MODELS = (
    "cnn",
    "tf_efficientnet_lite0",
    "efficientnet_b0",
    "mobilenetv3_small_050",
    "mobilenetv2_050",
    "tf_mobilenetv3_small_minimal_100",
    "regnetx_002",
    "resnet18",
    "convnext_atto",
    "convnextv2_atto",
)


def model(name: str, channels_last: bool, gradient: str = "autograd") -> Model:
    torch.manual_seed(0)
    module = SmallCNN(3, 8) if name == "cnn" else timm.create_model(name, num_classes=8)
    return Model(products(module) if gradient == "products" else module, "average", channels_last)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--images", type=int, default=120)
    parser.add_argument("--pixels", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--compile", action="store_true")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    images = torch.randint(0, 256, (given.images, 3, given.pixels, given.pixels), dtype=torch.uint8)
    labels = torch.randint(0, 8, (given.images,))
    for name in given.models:
        chosen = "channels_last" if prefers_channels_last(name) else "plain"
        sides = {"plain": model(name, False), "channels_last": model(name, True)}
        sides["products"] = model(name, chosen == "channels_last", "products")
        first = ""
        if given.compile:
            for side in ("plain", "channels_last"):
                sides[f"{side}, compiled"] = made = model(name, side == "channels_last")
                made.module.forward = torch.compile(made.module.forward)
                begin = time.perf_counter()
                made.gradient(made.vector(), images, labels)
                first += f"; {side} compiled in {time.perf_counter() - begin:.0f} s"
        times: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(given.repeats + 1):  # the first warms up
            for side, made in sides.items():
                w, begin = made.vector(), time.thread_time()
                made.gradient(w, images, labels)
                times[side].append(1e3 * (time.thread_time() - begin))
        found = {side: min(values[1:]) for side, values in times.items()}
        gains = [one / other for one, other in zip(times[chosen][1:], times["products"][1:], strict=True)]
        words = ", ".join(f"{side} {value:.1f}" for side, value in found.items())
        gained = f"products {found[chosen] / found['products']:.2f} x ({min(gains):.2f} to {max(gains):.2f})"
        other = f"channels_last {found['plain'] / found['channels_last']:.2f} x"
        print(f"{name:34} {words} ms: {other}, {gained}{first}", flush=True)


if __name__ == "__main__":
    main()
