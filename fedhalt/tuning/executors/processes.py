"""Where trials run: in this process, or in several that are fed one job at a time.

Jobs and outcomes travel as lines of JSON, so nothing is unpickled and a script needs no main guard. A worker ends with
its sweep, after the round it is in: it looks whether its parent is still there.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from . import files
from .trial import perform

Done = list[tuple[int, dict[str, Any]]]
"""Numbers of trials that ended, with their outcomes; a worker that died leaves the state lost."""


class Executor(Protocol):
    """Takes jobs while it has free slots and hands back outcomes."""

    @property
    def free(self) -> int:
        """How many jobs it would start at once."""

    def start(self, job: dict[str, Any]) -> None:
        """Begins a job."""

    def wait(self, seconds: float) -> Done:
        """What ended meanwhile."""

    def stop(self) -> None:
        """Asks every job to end after its round."""

    def close(self) -> None:
        """Leaves nothing behind."""


class Serial:
    """One job after the other, in this process; `beat` is called after every round."""

    def __init__(self, beat: Callable[[Any], None], interrupted: Callable[[], bool]) -> None:
        self.beat, self.interrupted = beat, interrupted
        self.job: dict[str, Any] | None = None

    @property
    def free(self) -> int:
        return 0 if self.job else 1

    def start(self, job: dict[str, Any]) -> None:
        self.job = job

    def wait(self, seconds: float) -> Done:
        job, self.job = self.job, None
        return [] if job is None else [(job["number"], perform(job, self.beat, self.interrupted))]

    def stop(self) -> None:
        """The job itself asks whether it is interrupted."""

    def close(self) -> None:
        """There is nothing to close."""


class Processes:
    """Several worker processes of this machine; one that dies is replaced when it is next needed."""

    def __init__(self, number: int, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.number, self.log = number, log
        self.idle: list[subprocess.Popen[bytes]] = []
        self.busy: dict[subprocess.Popen[bytes], int] = {}
        self.selector = selectors.DefaultSelector()

    @property
    def free(self) -> int:
        return self.number - len(self.busy)

    def start(self, job: dict[str, Any]) -> None:
        worker = self.idle.pop() if self.idle else self._spawn()
        self.busy[worker] = job["number"]
        assert worker.stdin is not None
        try:
            worker.stdin.write(files.to_json(job).encode() + b"\n")
            worker.stdin.flush()
        except BrokenPipeError:  # it died while idle: `wait` reads the end of its output and reports the job as lost
            pass

    def wait(self, seconds: float) -> Done:
        done: Done = []
        for key, _ in self.selector.select(seconds):
            worker: subprocess.Popen[bytes] = key.data
            assert worker.stdout is not None
            line = worker.stdout.readline()
            if line.endswith(b"\n"):
                self.idle.append(worker)
                done.append((self.busy.pop(worker), files.from_json(line.decode())))
            else:
                self._bury(worker)
                if worker in self.busy:
                    error = f"the worker process ended with {worker.wait()}; its words are in {self.log}"
                    done.append((self.busy.pop(worker), {"state": "lost", "error": error}))
        return done

    def stop(self) -> None:
        for worker in self.busy:
            worker.send_signal(signal.SIGINT)

    def close(self) -> None:
        for worker in (*self.idle, *self.busy):
            worker.send_signal(signal.SIGINT)
            self._bury(worker)
            worker.wait()
        self.selector.close()

    def _bury(self, worker: subprocess.Popen[bytes]) -> None:
        assert worker.stdin is not None and worker.stdout is not None
        self.selector.unregister(worker.stdout)
        self.idle = [other for other in self.idle if other is not worker]
        for pipe in (worker.stdin, worker.stdout):
            try:
                pipe.close()
            except BrokenPipeError:
                pass

    def _spawn(self) -> subprocess.Popen[bytes]:
        here = os.fspath(Path(__file__).parent.parent)  # the same fedhalt, wherever it was imported from
        path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
        with open(self.log, "ab") as log:
            worker = subprocess.Popen(
                [sys.executable, "-c", "from fedhalt.executors import work; work()", str(os.getpid())],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C is for the sweep, which passes it on
            )  # fmt: skip
        self.selector.register(worker.stdout, selectors.EVENT_READ, worker)  # type: ignore[arg-type]
        return worker


def work() -> None:
    """A worker process: jobs in, outcomes out, a line each, until its parent closes the pipe or is gone."""
    parent = int(sys.argv[1])
    asked: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: asked.append(number))
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not look like an outcome

    def interrupted() -> bool:
        return bool(asked) or os.getppid() != parent

    for line in sys.stdin:
        found = perform(files.from_json(line), None, interrupted)
        out.write(files.to_json(found).encode() + b"\n")
        out.flush()
