"""Trials in this process, or in several that are fed one job at a time.

Jobs and outcomes travel as lines of JSON, so nothing is unpickled and a script needs no main guard. A worker ends with
its sweep, after the round it is in: it looks whether its parent is still there.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ... import files
from ..trial import Job, Outcome, run_job
from . import Ended

Worker = subprocess.Popen[bytes]


class Serial:
    """One job after the other, in this process; `on_round` is called after every round."""

    def __init__(self, on_round: Callable[[Any], None], interrupted: Callable[[], bool]) -> None:
        self.on_round, self.interrupted = on_round, interrupted
        self.job: Job | None = None

    @property
    def free(self) -> int:
        return 0 if self.job else 1

    def start(self, job: Job) -> None:
        self.job = job

    def wait(self, seconds: float) -> Ended:
        job, self.job = self.job, None
        return [] if job is None else [(job.number, run_job(job, self.on_round, self.interrupted))]

    def stop(self) -> None:
        """The job itself asks whether it is interrupted."""

    def close(self) -> None:
        """There is nothing to close."""


class Processes:
    """Several worker processes of this machine; one that dies is replaced when it is next needed."""

    def __init__(self, number: int, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        self.number, self.log = number, log
        self.idle: list[Worker] = []
        self.busy: dict[Worker, int] = {}
        self.selector = selectors.DefaultSelector()

    @property
    def free(self) -> int:
        return self.number - len(self.busy)

    def start(self, job: Job) -> None:
        line = files.to_json(job.to_json()).encode() + b"\n"
        worker = self.idle.pop() if self.idle else self._spawn()
        self.busy[worker] = job.number
        assert worker.stdin is not None
        # One that died while idle: `wait` reads the end of its output and reports the job as lost.
        with contextlib.suppress(BrokenPipeError):
            worker.stdin.write(line)
            worker.stdin.flush()

    def wait(self, seconds: float) -> Ended:
        ended: Ended = []
        for key, _ in self.selector.select(seconds):
            worker: Worker = key.data
            assert worker.stdout is not None
            line = worker.stdout.readline()
            if line.endswith(b"\n"):
                self.idle.append(worker)
                ended.append((self.busy.pop(worker), Outcome.from_json(files.from_json(line.decode()))))
                continue
            self._disconnect(worker)
            code = worker.wait()  # one that died while idle is reaped too
            if worker in self.busy:
                error = f"the worker process ended with {code}; its words are in {self.log}"
                ended.append((self.busy.pop(worker), Outcome("lost", error)))
        return ended

    def stop(self) -> None:
        for worker in self.busy:
            worker.send_signal(signal.SIGINT)

    def close(self) -> None:
        for worker in (*self.idle, *self.busy):
            worker.send_signal(signal.SIGINT)
            self._disconnect(worker)
            worker.wait()
        self.selector.close()

    def _disconnect(self, worker: Worker) -> None:
        """Closes the pipes of a worker that is dead or shall end: it gets no further job."""
        assert worker.stdin is not None and worker.stdout is not None
        self.selector.unregister(worker.stdout)
        self.idle = [other for other in self.idle if other is not worker]
        for pipe in (worker.stdin, worker.stdout):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def _spawn(self) -> Worker:
        # The same fedhalt, wherever it was imported from; Ctrl-C is for the sweep, which passes it on.
        here = os.fspath(Path(__file__).parents[3])
        path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
        with open(self.log, "ab") as log:
            worker = subprocess.Popen(
                [sys.executable, "-c", "from fedhalt.tuning.executors.processes import work; work()", str(os.getpid())],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,
            )  # fmt: skip
        assert worker.stdout is not None
        self.selector.register(worker.stdout, selectors.EVENT_READ, worker)
        return worker


def work() -> None:
    """A worker process: jobs in, outcomes out, a line each, until its parent closes the pipe or is gone."""
    parent = int(sys.argv[1])
    asked: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: asked.append(number))
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what a library prints must not look like an outcome

    def interrupted() -> bool:
        return bool(asked) or os.getppid() != parent

    # Where the parent is gone nobody reads: what was trained is in the run's folder.
    with contextlib.suppress(BrokenPipeError):
        for line in sys.stdin:
            outcome = run_job(Job.from_json(files.from_json(line)), interrupted=interrupted)
            out.write(files.to_json(outcome.to_json()).encode() + b"\n")
