"""What a person sees while the runs of a reproduction are trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ...records.tail import TrajectoryTail
from ...tuning.trial import ENDED, Trial
from ..words import format_stop
from .display import Display


class ReproduceDisplay(Display):
    """A line for every run that ended, with the time left; on a terminal also the rounds that are being trained."""

    frames_per_second = 2

    def __init__(self, console: Console, time_left: Callable[[list[Trial]], str], out: Path) -> None:
        super().__init__(console)
        self.time_left, self.out = time_left, out
        self.said: set[int] = set()
        self.tails: dict[str, TrajectoryTail] = {}

    def __call__(self, trials: list[Trial], total: int) -> None:
        for trial in trials:
            if trial.state in ENDED and trial.number not in self.said:
                self.said.add(trial.number)
                self.say(f"run {len(self.said)}/{total}  {_ended(trial)}  left {self.time_left(trials)}")
        if self.live:
            going = [self._going(trial) for trial in trials if trial.state == "running"]
            last = f"{len(self.said)} of {total} runs, left {self.time_left(trials)}"
            self.live.update(Text("\n".join([*going, last])))

    def _going(self, trial: Trial) -> str:
        tail = self.tails.setdefault(trial.label, TrajectoryTail(self.out / trial.label / "trajectory.jsonl"))
        return f"{trial.label} round {tail.poll().get('round', 0)}"


def _ended(trial: Trial) -> str:
    found = trial.outcome
    cause = found.error or format_stop(found.reason, found.motion)
    return f"{trial.label}  {found.rounds} rounds ({cause})"
