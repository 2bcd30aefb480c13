"""Where does the time of `fedhalt run` go? Training, evaluation, measuring, writing, display, at three sizes.

    python benchmarks/shares.py [--data-root ../shared/data] [--cases probe cnn efficientnet] [--quick]

The command itself runs, on a terminal of its own and with a worker per core, on blood cells (100 clients, 10 a round, 5
epochs, evaluated in every round); the functions behind each share are timed. The first round, which builds models, does
not count. Aims: what is neither training nor evaluation stays under 5 % for the small CNN and under 25 % for a probe.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import rich.live

from fedhalt.cli import main as fedhalt
from fedhalt.simulation import engine
from fedhalt.simulation.federation import Federation
from fedhalt.simulation.measured import Measured
from fedhalt.simulation.store import RunFolder
from fedhalt.views.terminal.run import RunDisplay

PROBE = "--data blood --model probe:tf_efficientnet_lite0 --pretrained --resize 64 --lr 0.1"
CASES = {
    "probe": (f"{PROBE} --gradient closed", 60),
    "probe-autograd": (PROBE, 60),
    "cnn": ("--data blood --lr 0.01", 6),
    "efficientnet": ("--data blood --model tf_efficientnet_lite0 --buffers average --lr 0.01", 3),
}
QUICK = {"cnn": ("--data digits --clients 10 --cohort 2 --epochs 1", 3)}
MAIN = ("training", "evaluation")
PARTS = {
    "evaluation": [(Federation, "evaluate")],
    "measuring": [(Measured, "measure"), (Measured, "saved")],
    "writing": [(RunFolder, "commit"), (RunFolder, "save_model")],
    "display": [(RunDisplay, "__call__"), (rich.live.Live, "refresh")],
}


class Shares:
    """Seconds by part since the end of the first round."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self.begin = self.end = 0.0

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            # a display draws in a thread of its own: what it takes there from the others is its processor time
            clock = time.perf_counter if threading.current_thread() is threading.main_thread() else time.thread_time
            begin = clock()
            try:
                return function(*args, **options)
            finally:
                self.spent[part] += clock() - begin
                self.end = time.perf_counter()

        return call

    def rounds(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Iterator[engine.Round]:
            generator = function(*args, **options)
            for r in range(10**9):
                if r == 1:
                    self.spent.clear()
                    self.begin = time.perf_counter()
                begin = time.perf_counter()
                done = next(generator)
                self.spent["training"] += time.perf_counter() - begin
                yield done

        return call


def run(options: str, rounds: int, data_root: str | None) -> Shares:
    """One run of the command, in this process, on a terminal."""
    shares, patched = Shares(), []
    for part, places in PARTS.items():
        for owner, name in places:
            patched.append((owner, name, getattr(owner, name)))
            setattr(owner, name, shares.timed(part, getattr(owner, name)))
    patched.append((engine, "rounds", engine.rounds))
    engine.rounds = shares.rounds(engine.rounds)  # type: ignore[assignment]
    ours, theirs = os.openpty()
    reader = threading.Thread(target=drain, args=(ours,), daemon=True)
    reader.start()
    before = sys.stdout
    with tempfile.TemporaryDirectory() as folder, open(theirs, "w") as terminal:
        words = f"fedhalt run {options} --rounds {rounds + 1} --stop never --out {folder}"
        sys.argv = [*words.split(), *(["--data-root", data_root] if data_root else [])]
        sys.stdout = terminal
        try:
            fedhalt()
        except SystemExit as ended:
            if ended.code:
                raise
        finally:
            sys.stdout = before
            for owner, name, function in patched:
                setattr(owner, name, function)
    return shares


def drain(terminal: int) -> None:
    try:
        while os.read(terminal, 1 << 16):
            pass
    except OSError:
        pass  # the other end is closed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", default="../shared/data")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--quick", action="store_true", help="the digits, three rounds: does it run?")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    names = ("training", *PARTS)
    print(f"{'':15} {'a round':>10}  {'  '.join(f'{name:>10}' for name in (*names, 'other', 'around'))}")
    for title, (options, rounds) in QUICK.items() if given.quick else ((name, CASES[name]) for name in given.cases):
        shares = run(options, rounds, None if given.quick else given.data_root)
        whole = shares.end - shares.begin
        parts = {name: shares.spent[name] / whole for name in names}
        parts["other"] = max(0.0, 1 - sum(parts.values()))
        parts["around"] = 1 - sum(parts[name] for name in MAIN)
        cells = "  ".join(f"{share:10.1%}" for share in parts.values())
        print(f"{title:15} {1e3 * whole / rounds:7.0f} ms  {cells}", flush=True)


if __name__ == "__main__":
    main()
