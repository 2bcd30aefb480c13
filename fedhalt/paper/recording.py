"""The paper's runs: trains what no recorded row answers yet, by the executors of a sweep, and keeps the rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ..records.trajectory import Trajectory
from ..tuning.plans import Execution
from ..tuning.samplers.listed import ListSampler
from ..tuning.sweeps import OnChange, run_trials
from ..tuning.trial import ENDED, Job, Trial, make_job
from ..views.words import format_duration
from .setting import PROPOSED, Need

if TYPE_CHECKING:  # rows need pandas, runs do not
    from .rows import Results

SAVE_EVERY = 20.0
"""Seconds between two writes of the rows while runs are trained."""


class Recording(ListSampler):
    """The runs that are missing; each is kept as a row when it ends, if somebody keeps rows."""

    def __init__(self, needs: list[Need], results: Results | None, store: Path) -> None:
        super().__init__((need.spec, need.spec.id) for need in needs)
        self.needs, self.results, self.store = needs, results, store
        self.saved = time.monotonic()
        self.failed = False

    def job(self, execution: Execution, trial: Trial) -> Job:
        need = self.needs[trial.number]
        # where not every round is evaluated, those of the stops are, because their rules watch
        watch = need.until or (PROPOSED if need.spec.evaluate_every > 1 else ())
        stages, stop = {str(rule): rule for rule in watch}, "all" if need.until else "never"
        return make_job(execution, trial, stages, stop=stop, rounds=need.rounds, average=need.average)

    def tell(self, trial: Trial) -> None:
        self.failed = self.failed or trial.state == "failed"
        if trial.state in ENDED and trial.state != "failed" and self.results is not None:
            self.results.add(self.needs[trial.number], _recorded(self.store, self.needs[trial.number]))
            if time.monotonic() - self.saved > SAVE_EVERY:
                self.close()

    def close(self) -> None:
        if self.results is not None:
            self.results.save()
        self.saved = time.monotonic()


def collect(needs: list[Need], results: Results, store: Path) -> None:
    """Takes over what run folders answer already."""
    for need in needs:
        if (store / need.spec.id / "trajectory.jsonl").exists():
            results.add(need, _recorded(store, need))
    results.save()


def record(
    needs: list[Need],
    results: Results | None,
    execution: Execution,
    on_change: OnChange,
    interrupted: Callable[[], bool],
) -> list[Trial]:
    """Trains these runs to their ends and adds their rows to the results.

    One that fails ends all: what it lacks (data, weights, memory), the others lack too.
    """
    sampler = Recording(needs, results, Path(execution.out))

    def ending() -> bool:
        return interrupted() or sampler.failed

    return run_trials(execution, sampler, lambda trial: sampler.job(execution, trial), on_change, ending)


class TimeLeft:
    """What is still to do, at the pace of what was done; before the first run has ended, by the measured seconds."""

    def __init__(self, costs: list[float], parallel: int) -> None:
        self.costs, self.parallel = costs, parallel
        self.begin = time.monotonic()

    def __call__(self, trials: list[Trial]) -> str:
        done = [trial.number for trial in trials if trial.state in ENDED]
        spent, left = sum(self.costs[number] for number in done), sum(self.costs)
        pace = (time.monotonic() - self.begin) / spent if spent else 1 / self.parallel
        return format_duration((left - spent) * pace)


def _recorded(store: Path, need: Need) -> Trajectory:
    """The rounds that the item asks for; another may have trained the run further."""
    record = Trajectory.load(store / need.spec.id / "trajectory.jsonl")
    return Trajectory(record.rows[: need.rounds])
