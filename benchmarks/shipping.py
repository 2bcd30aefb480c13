"""What do the average and the drift cost? As a share of a round of the small CNN.

    python benchmarks/shipping.py [--rounds 30]

The same models go through a stopper with and without `average=10`, side by side, round by round; the difference is held
against a round of training on digits, and stands alone for a model of 10^6 parameters. Processor time, medians.
benchmarks/flower.py holds it against a round of Flower.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from fedhalt import EarlyStopper
from fedhalt.rules import named_rule

SETTINGS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "average=10": {"average": 10},
    'average="running:10"': {"average": "running:10"},
    "drift alone": {"rule": named_rule("drift").rule},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    given = parser.parse_args()
    size, seconds = cnn_round()
    print(f"small CNN, {size:,} parameters: {seconds * 1000:.1f} ms a round")
    for setting, extra in costs(size, given.rounds).items():
        print(f"  {setting:22} {extra * 1000:7.2f} ms, {extra / seconds:.2%} of a round")
    print("10^6 parameters")
    for setting, extra in costs(10**6, given.rounds).items():
        print(f"  {setting:22} {extra * 1000:7.2f} ms")


def costs(size: int, rounds: int) -> dict[str, float]:
    """Seconds that each setting adds to an update."""
    draw = np.random.default_rng(0)
    models = [draw.standard_normal(size).astype(np.float32) for _ in range(5)]
    stoppers = {name: EarlyStopper(models[0], **settings) for name, settings in SETTINGS.items()}
    seconds: dict[str, list[float]] = {name: [] for name in SETTINGS}
    for r in range(rounds):
        for name, stopper in stoppers.items():
            seconds[name].append(timed(lambda stopper=stopper, r=r: stopper.update(models[r % 5])))
    plain = statistics.median(seconds.pop("nothing"))
    return {name: statistics.median(each[20:]) - plain for name, each in seconds.items()}


def timed(work: Callable[[], Any]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def cnn_round() -> tuple[int, float]:
    """The parameters of the small CNN, and processor seconds of a round on digits: 5 clients, 5 epochs."""
    from fedhalt.simulation import RunSpec, engine
    from fedhalt.simulation.federation import Federation

    federation = Federation(RunSpec(data="digits", clients=20, cohort=5, lr=0.05, c=0.5))
    rounds = engine.rounds(federation.method(), federation)
    return federation.parameters, statistics.median(timed(lambda: next(rounds)) for _ in range(5))


if __name__ == "__main__":
    main()
