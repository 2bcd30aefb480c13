"""Trials on a Ray cluster. A trial is a task; if its worker dies, it starts again and resumes from its run folder."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path
from typing import Any

from ...errors import FedhaltError, MissingExtra

try:
    import ray
except ImportError:
    raise MissingExtra("--executor ray", "ray", "ray") from None

from ... import files
from ..plans import Execution
from ..trial import Job, Outcome
from . import Ended

RETRIES = 3
"""How often Ray begins a task again whose worker or node died."""


class Cluster:
    """An executor of the sweep. Run folders must be where every node sees them: `out` on a shared file system."""

    def __init__(self, execution: Execution) -> None:
        self.number, self.ours = execution.parallel, not ray.is_initialized()
        if self.ours:
            here = os.fspath(Path(__file__).parents[3])  # the same fedhalt on the workers of this machine
            path = os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
            environment: dict[str, Any] = {"env_vars": {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}}
            _check_answers(execution.address)
            try:
                ray.init(
                    address=execution.address, runtime_env=environment, log_to_driver=False,
                    logging_level=logging.ERROR, include_dashboard=None if execution.address else False,
                )  # fmt: skip
            except (ConnectionError, ValueError, RuntimeError) as error:
                first = str(error).strip().splitlines()[0]
                raise FedhaltError(f"no Ray cluster answers at {execution.address!r}: {first}") from None
        self.task = ray.remote(num_cpus=execution.workers, max_retries=RETRIES)(_run_job)
        self.going: dict[Any, int] = {}
        self.stopped = False

    @property
    def free(self) -> int:
        return self.number - len(self.going)

    def start(self, job: Job) -> None:
        self.going[self.task.remote(files.to_json(job.to_json()))] = job.number

    def wait(self, seconds: float) -> Ended:
        ready, _ = ray.wait(list(self.going), timeout=seconds) if self.going else ([], [])
        return [(self.going.pop(task), _outcome(task, self.stopped)) for task in ready]

    def stop(self) -> None:
        """Ends the tasks at once: a round in the middle is done again, whole ones are in the folders."""
        self.stopped = True
        for task in self.going:
            ray.cancel(task, force=True)

    def close(self) -> None:
        self.stop()
        if self.ours:
            ray.shutdown()


def _check_answers(address: str | None) -> None:
    """Ray itself waits for minutes before it reports that a cluster does not answer."""
    host, colon, port = (address or "").rpartition("//")[2].rpartition(":")
    if colon and port.isdigit():
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except OSError as error:
            raise FedhaltError(f"no Ray cluster answers at {address!r}: {error.strerror or error}") from None


def _run_job(job: str) -> str:
    """The task: text in, text out, so that nothing of fedhalt's has to be pickled."""
    from fedhalt import files
    from fedhalt.tuning.trial import Job, run_job

    return files.to_json(run_job(Job.from_json(files.from_json(job))).to_json())


def _outcome(task: Any, stopped: bool) -> Outcome:
    try:
        return Outcome.from_json(files.from_json(ray.get(task)))
    except ray.exceptions.RayError as error:
        words = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        if stopped:
            return Outcome("interrupted", words)
        crashed = isinstance(error, ray.exceptions.WorkerCrashedError)
        return Outcome("lost" if crashed else "failed", words)
