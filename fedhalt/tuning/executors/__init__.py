"""Where trials run: in this process, in several of this machine, or on a Ray cluster."""

from __future__ import annotations

from typing import Protocol

from ..trial import Job, Outcome

Ended = list[tuple[int, Outcome]]
"""Numbers of trials that came back, with their outcomes; a worker that died leaves the state lost."""


class Executor(Protocol):
    """Takes jobs while it has free slots and hands back outcomes."""

    @property
    def free(self) -> int:
        """How many jobs it would start at once."""

    def start(self, job: Job) -> None:
        """Begins a job."""

    def wait(self, seconds: float) -> Ended:
        """What came back; waits that long for it at most, unless the job runs here."""

    def stop(self) -> None:
        """Asks every job to end after its round."""

    def close(self) -> None:
        """Leaves nothing behind."""
