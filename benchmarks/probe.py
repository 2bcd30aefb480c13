"""How much slower is a probe's round with subnormal numbers? Side by side, round by round, on the blood cells.

    python benchmarks/probe.py [--data-root ../shared/data] [--rounds 20]

A fitted head gives the classes that a client lacks probabilities below 1e-38, and arithmetic with such numbers takes a
slow path of the processor; `fedhalt run` flushes them to zero.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

from fedhalt import engine
from fedhalt.spec import RunSpec
from fedhalt.task import Federation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", default="../shared/data")
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    torch.set_num_threads(1)
    for method in ("fedavg", "fedsam", "scaffold"):
        spec = RunSpec(
            data="blood", model="probe:tf_efficientnet_lite0", pretrained=True, resize=64, method=method, lr=0.1
        )
        federation = Federation(spec, given.data_root)
        sides = {flush: engine.rounds(federation.method(), federation) for flush in (False, True)}
        seconds: dict[bool, list[float]] = {False: [], True: []}
        last = {}
        for _ in range(given.rounds):
            for flush, rounds in sides.items():
                torch.set_flush_denormal(flush)
                begin = time.perf_counter()
                last[flush] = next(rounds).state["x"]
                seconds[flush].append(time.perf_counter() - begin)
        torch.set_flush_denormal(False)
        kept, flushed = (statistics.median(seconds[flush][3:]) for flush in (False, True))
        apart = float((last[True] - last[False]).norm() / last[False].norm())
        print(
            f"{method:9} {1e3 * kept:6.1f} ms with subnormal numbers, {1e3 * flushed:6.1f} ms without: "
            f"{kept / flushed:.2f} x; models after {given.rounds} rounds apart by {apart:.1e}"
        )


if __name__ == "__main__":
    main()
