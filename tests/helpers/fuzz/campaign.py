"""Runs readers over mutated inputs, each within limits; every input follows from the seed, the reader and its number.

    python tests/helpers/fuzz/campaign.py COUNT [--seed N] [--only READER] [--at NUMBER]

prints how many inputs each reader read and how many it refused, and what is wrong; the inputs of what is wrong are kept
under `fuzz-found/`. `--at` repeats one input.
"""

import argparse
import contextlib
import gc
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[3])]  # tests and the checkout

from helpers.fuzz.readers import READERS

SECONDS = 20
"""Of the processor, for one input; a busy machine does not make them fewer."""
WAITED = 600
"""Seconds of the clock, for one that waits for something."""
MEMORY = 500 * 2**20
"""Bytes that reading may add to what the process has."""
RESERVED = 4 * 2**30
"""Bytes of addresses that it may ask for: more is a MemoryError, which is nothing that a user may see."""
FORBIDDEN = ("pickle.find_class", "os.system", "subprocess.Popen", "os.exec", "socket.connect")

_watched: list[str] | None = None


def _audit(event, args):
    if _watched is not None and event in FORBIDDEN:
        _watched.append(f"{event} {args!r:.200}")


sys.addaudithook(_audit)


class TooLong(BaseException):
    """No `except Exception` of a reader may swallow it."""


class Campaign:
    """Readers prepared in a folder in memory, the limits set, for as long as the block lasts."""

    def __init__(self, readers=READERS, seed=0, found=None):
        self.readers, self.seed, self.found = [reader for reader in readers if reader.available()], seed, found
        self.counts = {reader.name: Counter() for reader in self.readers}
        self.failures = {}
        """The first input of each kind of mistake, by what was wrong."""

    def __enter__(self):
        self._stack = contextlib.ExitStack()
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="fedhalt-fuzz-", dir=memory)))
        self._stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        for reader in self.readers:
            reader.prepare(folder / reader.name)
        warnings.simplefilter("error", RuntimeWarning)  # numpy's, which a user would see
        gc.freeze()
        self._stack.callback(gc.unfreeze)
        for number in (signal.SIGPROF, signal.SIGALRM):
            self._stack.callback(signal.signal, number, signal.signal(number, _too_long))
        limits = resource.getrlimit(resource.RLIMIT_AS)
        self._stack.callback(resource.setrlimit, resource.RLIMIT_AS, limits)
        resource.setrlimit(resource.RLIMIT_AS, (_size() + RESERVED, limits[1]))
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")  # forgets how large the process once was
        self._peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return self

    def __exit__(self, *error):
        self._stack.close()

    def run(self, count, progress=lambda done: None):
        """That many inputs, shared out among the readers by their weights, in turns."""
        turns = [reader for reader in self.readers for _ in range(reader.weight)]
        numbers = Counter()
        for done in range(count):
            reader = turns[done % len(turns)]
            self.one(reader, numbers[reader.name])
            numbers[reader.name] += 1
            progress(done + 1)

    def one(self, reader, number):
        """The input of that number."""
        self.try_out(reader, number, reader.make(random.Random(f"{self.seed} {reader.name} {number}")))

    def try_out(self, reader, number, sample):
        """One input: it is read, or refused, or what is wrong is kept."""
        global _watched
        _watched = []
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        signal.alarm(WAITED)
        try:
            outcome = "read" if reader.attempt(sample) else "refused"
        except (Exception, TooLong) as error:
            outcome = "failed"
            self._keep(reader, number, sample, error)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.alarm(0)
            done, _watched = _watched, None
        self.counts[reader.name][outcome] += 1
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        if done:
            self._keep(reader, number, sample, AssertionError(f"it called {done[0]}"))
        if (grown - self._peak) * 1024 > MEMORY:
            self._keep(reader, number, sample, AssertionError(f"{(grown - self._peak) // 1024} MB more"))
            self._peak = grown

    def _keep(self, reader, number, sample, error):
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if "/fedhalt/" in frame.filename] or frames[-1:]
        where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else ""
        key = f"{reader.name}: {type(error).__name__} at {where}: {str(error)[:60] if not ours else ''}"
        if key in self.failures:
            return
        place = ""
        if self.found is not None:
            folder = Path(self.found) / f"{reader.name}-{self.seed}-{number}"
            shutil.rmtree(folder, ignore_errors=True)
            reader.keep(sample, folder)
            place = f"; the input is in {folder}"
        again = f"tests/helpers/fuzz/campaign.py 1 --seed {self.seed} --only {reader.name} --at {number}"
        self.failures[key] = f"{key}\n    {error!r:.300}{place}; again: {again}"

    def report(self):
        """What came of the inputs, reader by reader."""
        columns = ("read", "refused", "failed")
        lines = [f"{name:16}{found.total():>10,}" + "".join(f"{found[key]:>10,} {key}" for key in columns)
                 for name, found in self.counts.items()]  # fmt: skip
        total = sum(found.total() for found in self.counts.values())
        return "\n".join([*lines, f"{total:,} inputs, {len(self.failures)} mistakes", *self.failures.values()])


def _too_long(*_):
    raise TooLong("it took too long")


def _size():
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:
        return 2**40


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", help="names of readers")
    parser.add_argument("--at", type=int, help="this input alone")
    parser.add_argument("--log", type=Path, help="a file that the counts so far are written to")
    asked = parser.parse_args()
    readers = [reader for reader in READERS if not asked.only or reader.name in asked.only]
    begin = time.monotonic()
    with Campaign(readers, asked.seed, "fuzz-found") as campaign:

        def progress(done):
            if asked.log and done % 5000 == 0:
                asked.log.write_text(f"{time.monotonic() - begin:.0f} s\n{campaign.report()}\n")

        if asked.at is not None:
            for reader in campaign.readers:
                campaign.one(reader, asked.at)
        else:
            campaign.run(asked.count, progress)
    print(campaign.report(), f"{time.monotonic() - begin:.0f} s", sep="\n")
    raise SystemExit(bool(campaign.failures))


if __name__ == "__main__":
    main()
