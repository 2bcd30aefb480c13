"""What does a federated round cost? Ours against a tight loop of the same work, for three networks; memory.

    python benchmarks/round.py [--models cnn tf_efficientnet_lite0 convnextv2_atto] [--rounds 8] [--quick]

Work: 100 clients of 120 random images, batch 256, momentum, weight decay, clipping; training only. The small CNN has 10
clients a round for 5 epochs at 28 pixels, the larger networks 4 clients for one epoch at 32. The loop has one thread,
float images that lie ready, one model, and is timed in both memory formats: ours, in the format of its default, is
compared with the faster one. Everything is interleaved round by round; ratios are medians over the rounds, with the
least and the most. Two loops at once say what two cores give here. Flower, pfl and others: benchmarks/race.py.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from fedhalt.simulation import RunSpec, backbones, engine
from fedhalt.simulation.federation import Federation
from fedhalt.simulation.model import normalised

BATCH, LR, CLASSES = 256, 0.01, 8
FORMATS = {"plain": torch.contiguous_format, "channels_last": torch.channels_last}


@dataclass(frozen=True)
class Work:
    """A network, and what a round of it is."""

    model: str
    pixels: int
    cohort: int
    epochs: int
    clients: int = 100
    each: int = 120

    def spec(self, file: Path, **settings: object) -> RunSpec:
        fixed = {"data": str(file), "model": self.model, "skew": "iid", "clients": self.clients, "cohort": self.cohort}
        fixed |= {"epochs": self.epochs, "batch": BATCH, "lr": LR, "evaluate_every": 0, "buffers": "average"}
        return RunSpec(**{**fixed, **settings})

    def write(self, file: Path) -> None:
        draw, content = np.random.default_rng(0), {}
        for split, n in (("train", self.clients * self.each), ("val", 16), ("test", 16)):
            content[f"{split}_images"] = draw.integers(0, 256, (n, self.pixels, self.pixels, 3), dtype=np.uint8)
            content[f"{split}_labels"] = draw.integers(0, CLASSES, (n, 1), dtype=np.uint8)
        np.savez(file, **content)


WORKS = {
    "cnn": Work("cnn", 28, 10, 5),
    "tf_efficientnet_lite0": Work("tf_efficientnet_lite0", 32, 4, 1),
    "convnextv2_atto": Work("convnextv2_atto", 32, 4, 1),
}


def tight_loop(work: Work, federation: Federation, kind: torch.memory_format) -> Callable[[], None]:
    """One thread, one model, float images in the format that it wants: a function that does one round."""
    images = normalised(federation.data.train.images).contiguous(memory_format=kind)
    labels = federation.data.train.labels
    model = backbones.build(work.model, federation.data).to(memory_format=kind).train()
    start = {name: value.clone() for name, value in model.state_dict().items()}

    def one_round() -> None:
        sums = None
        for client in range(work.cohort):
            model.load_state_dict(start)
            optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9, weight_decay=0.001)
            mine = torch.arange(client * work.each, (client + 1) * work.each)
            for _ in range(work.epochs):
                for index in mine[torch.randperm(work.each)].split(BATCH):
                    optimizer.zero_grad()
                    torch.nn.functional.cross_entropy(model(images[index]), labels[index]).backward()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
                    optimizer.step()
            flat = torch.cat([p.detach().reshape(-1) for p in model.parameters()])
            sums = flat if sums is None else sums + flat

    return one_round


def compare(work: Work, rounds: int, file: Path) -> None:
    work.write(file)
    federation = Federation(work.spec(file))
    works = {name: tight_loop(work, federation, kind) for name, kind in FORMATS.items()}
    pair = [tight_loop(work, federation, FORMATS["channels_last" if federation.spec.channels_last else "plain"])
            for _ in range(2)]  # fmt: skip
    with ThreadPoolExecutor(2) as pool:
        works["both"] = lambda: list(pool.map(lambda each: each(), pair))  # type: ignore[assignment, return-value]
        for workers, each in ((1, map), (2, pool.map)):
            generator = engine.rounds(federation.method(), federation, each=each)
            works[f"ours-{workers}"] = lambda generator=generator: next(generator)
        times: dict[str, list[float]] = {name: [] for name in works}
        for r in range(rounds + 1):
            for name, one_round in works.items():
                begin = time.perf_counter()
                one_round()
                if r:  # the first warms up
                    times[name].append(time.perf_counter() - begin)
    best = min(FORMATS, key=lambda name: statistics.median(times[name]))
    print(f"{work.model}: {work.cohort} clients of {work.each} images, epochs {work.epochs}, {work.pixels} pixels")
    for name in FORMATS:
        print(f"  tight loop, {name:13} {statistics.median(times[name]):6.2f} s a round")
    for name, words, above, below in (
        ("both", "two loops at once", [2 * loop for loop in times[best]], times["both"]),
        ("ours-1", "ours, one worker", times["ours-1"], times[best]),
        ("ours-2", "ours, two workers", times["ours-1"], times["ours-2"]),
    ):
        said = {"both": "x is what two cores give here", "ours-1": f"x the time of the loop in {best}",
                "ours-2": "x faster than one worker"}[name]  # fmt: skip
        print(f"  {words:25} {statistics.median(times[name]):6.2f} s   {spread(above, below)} {said}", flush=True)


def spread(above: list[float], below: list[float]) -> str:
    """The median ratio of times that were taken in the same round, with the least and the most."""
    ratios = [one / other for one, other in zip(above, below, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def peak_memory(file: str, clients: int, method: str) -> None:
    """Prints the peak resident memory, in MB, of three rounds with that many clients of the same images."""
    torch.set_num_threads(1)
    federation = Federation(WORKS["cnn"].spec(Path(file), clients=clients, method=method))
    for _ in itertools.islice(engine.rounds(federation.method(), federation), 3):
        pass
    print("MB", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def compare_memory(file: Path) -> None:
    WORKS["cnn"].write(file)
    for method in ("fedavg", "scaffold"):
        found = []
        for clients in (100, 10_000):
            call = f"import round; round.peak_memory({str(file)!r}, {clients}, {method!r})"
            code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); {call}"
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
            found.append(float(done.stdout.split()[-1]))
        print(f"peak memory, {method:13} {found[0]:.0f} MB with 100 clients, {found[1]:.0f} MB with 10,000", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", choices=list(WORKS), default=list(WORKS))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="little work and one round: does it run?")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    with tempfile.TemporaryDirectory() as folder:
        for name in given.models:
            work = WORKS[name]
            if given.quick:
                work = Work(name, work.pixels, 2, 1, clients=4, each=4)
            compare(work, 1 if given.quick else given.rounds, Path(folder) / f"{name}.npz")
        if not given.quick:
            compare_memory(Path(folder) / "memory.npz")


if __name__ == "__main__":
    main()
