"""A sweep: runs what is missing of a plan, with any sampler on any executor. It stores nothing but run folders."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from .executors import Executor
from .executors.processes import Processes, Serial
from .observers import Observer
from .plans import OPTUNA, Execution, Plan
from .samplers import Sampler
from .samplers.listed import ListSampler
from .trial import Job, Outcome, Trial, make_job

ATTEMPTS = 3
"""How often a trial is started again after its worker died."""

PAUSE = 0.2
"""Seconds between two looks at what the workers did."""

ASK_AGAIN = 1.0
"""Seconds until a sampler that had no trial is asked again."""

OnChange = Callable[[list[Trial], int], None]
"""Receives all trials that have started, and how many there will be, after every change and regularly."""


class Sweep(list[Trial]):
    """The trials of a sweep: a list that a notebook shows as a table and a picture of the objectives.

    Args:
        plan: The plan.
        trials: The trials.

    Examples:
        >>> from fedhalt.tuning import Sweep, plan
        >>> Sweep(plan({"space": {"lr": [0.1]}}), []).best is None
        True
    """

    def __init__(self, plan: Plan, trials: Iterable[Trial]) -> None:
        super().__init__(trials)
        self.plan = plan

    @property
    def best(self) -> Trial | None:
        """The trial with the best objective, or None."""
        return best(self, self.plan.higher_is_better)

    def plot(self) -> Any:
        """Plots the rounds and the objective of every trial.

        Returns:
            A matplotlib figure.

        Raises:
            MissingExtra: If matplotlib is not installed.
        """
        from ..views.plots import trials

        return trials(self, self.plan.rounds, self.plan.objective)

    def _repr_html_(self) -> str:
        from ..views.notebook import sweep_html

        return sweep_html(self, self.plan.rounds, self.plan.objective, self.best)


def best(trials: Iterable[Trial], higher_is_better: bool) -> Trial | None:
    """The trial with the best objective. Screened trials have none, and NaN does not count.

    Args:
        trials: The trials.
        higher_is_better: Whether a larger objective is better.

    Returns:
        The trial, or None if no trial has an objective.

    Examples:
        >>> from fedhalt.tuning import best
        >>> best([], higher_is_better=True) is None
        True
    """
    scored = {trial.number: trial.value for trial in trials if trial.value is not None and not math.isnan(trial.value)}
    found = [trial for trial in trials if trial.number in scored]
    return (max if higher_is_better else min)(found, key=lambda trial: scored[trial.number], default=None)


def sweep(
    plan: Plan,
    on_change: OnChange = lambda trials, total: None,
    interrupted: Callable[[], bool] = lambda: False,
    observers: Sequence[Observer] = (),
) -> Sweep:
    """Runs every trial of a plan to its end.

    Finished runs are only read, interrupted ones resume, and runs that another process holds are waited for.

    Args:
        plan: The space, the rules, the objective, and where the trials run.
        on_change: Receives the trials regularly, for a display.
        interrupted: Asked regularly; return True to end after the rounds that are being trained.
        observers: Receive the rounds of every trial, such as `fedhalt.integrations.trackers.Trackers(("mlflow",))`.

    Returns:
        The trials.

    Raises:
        MissingExtra: If the sampler or the executor needs a package that is not installed.
        FedhaltError: If the folder, the storage or the cluster cannot be used.

    Examples:
        >>> import tempfile
        >>> from fedhalt.tuning import plan, sweep
        >>> space = {"data": "digits", "clients": 10, "cohort": 2, "epochs": 1, "c": 1.0, "lr": [0.05]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     trials = sweep(plan({"rounds": 1, "out": folder, "space": space}))
        >>> [trial.state for trial in trials]
        ['complete']
    """

    def job_of(trial: Trial) -> Job:
        return make_job(
            plan, trial, plan.stages, stop="first", rounds=plan.rounds, objective=plan.objective,
            average=plan.average, observers=observers,
        )  # fmt: skip

    return Sweep(plan, run_trials(plan, sampler_of(plan), job_of, on_change, interrupted))


def run_trials(
    execution: Execution, sampler: Sampler, job_of: Callable[[Trial], Job], on_change: OnChange,
    interrupted: Callable[[], bool],
) -> list[Trial]:  # fmt: skip
    """Runs what the sampler proposes, each trial as the job that is made of it, and returns the trials."""
    with contextlib.ExitStack() as last:
        last.callback(sampler.close)
        running = _Running(sampler, job_of, on_change)
        executor = executor_of(execution, running.show, interrupted)
        last.callback(executor.close)
        running.to_the_end(executor, interrupted)
    running.show()
    return running.trials


class _Running:
    """The trials of a sweep while it runs, from the sampler through the executor and back."""

    def __init__(self, sampler: Sampler, job_of: Callable[[Trial], Job], on_change: OnChange) -> None:
        self.sampler, self.job_of, self.on_change = sampler, job_of, on_change
        self.begun: dict[int, Trial] = {}
        self.others: list[Trial] = sampler.others()
        self.again: list[tuple[float, Trial]] = []
        """Trials that another process has, or whose worker died, each with the time to try it again."""
        self.ask_from = 0.0
        """When the sampler is asked next; infinity once it has no more."""

    @property
    def trials(self) -> list[Trial]:
        return sorted([*self.begun.values(), *self.others], key=lambda trial: trial.number)

    def show(self, _: object = None) -> None:
        self.on_change(self.trials, self.sampler.total)

    def to_the_end(self, executor: Executor, interrupted: Callable[[], bool]) -> None:
        """Runs until nothing is left, or until an interruption has ended what was running."""
        stopping = False
        while True:
            if interrupted() and not stopping:
                stopping = True
                executor.stop()
            while executor.free and not stopping and (trial := self._next()) is not None:
                self._start(trial, executor)
            for number, outcome in executor.wait(PAUSE):
                self._settle(self.begun[number], outcome)
            self.show()
            if not any(trial.state == "running" for trial in self.begun.values()):
                if stopping or (not self.again and math.isinf(self.ask_from)):
                    break
                time.sleep(PAUSE)
        for _, trial in self.again:
            self.sampler.tell(trial)
        self.others = self.sampler.others()

    def _start(self, trial: Trial, executor: Executor) -> None:
        self.begun[trial.number] = trial
        trial.outcome = Outcome("running")
        self.show()
        executor.start(self.job_of(trial))

    def _settle(self, trial: Trial, outcome: Outcome) -> None:
        """Reports a trial that has ended. A trial that another process holds, or whose worker died, is tried again."""
        if outcome.state == "lost":
            trial.attempts += 1
            if trial.attempts >= ATTEMPTS:
                outcome = dataclasses.replace(outcome, state="failed")
        trial.outcome = outcome
        if outcome.state in ("elsewhere", "lost"):
            pause = 2 * PAUSE if outcome.state == "elsewhere" else 0.0
            self.again.append((time.monotonic() + pause, trial))
        else:
            self.sampler.tell(trial)

    def _next(self) -> Trial | None:
        """A trial to try again that is due, otherwise a new one from the sampler."""
        now = time.monotonic()
        for index, (when, trial) in enumerate(self.again):
            if when <= now:
                del self.again[index]
                return trial
        if now < self.ask_from:
            return None
        asked = self.sampler.ask()
        if asked is None:
            self.ask_from = now + ASK_AGAIN if self.sampler.waits() else math.inf
            self.others = self.sampler.others()
        return asked


def sampler_of(plan: Plan) -> Sampler:
    """The plan's sampler. Optuna is imported only if it is needed."""
    if plan.sampler in OPTUNA:
        from .samplers.optuna import StudySampler

        return StudySampler(plan)
    space = plan.space
    specs = space.grid() if plan.trials is None else space.random(plan.trials, plan.sampler_seed)
    return ListSampler((spec, space.label(spec)) for spec in specs)


def executor_of(execution: Execution, on_round: Callable[[Any], None], interrupted: Callable[[], bool]) -> Executor:
    """The executor. Ray is imported only if it is needed."""
    if execution.executor == "ray":
        from .executors.ray import Cluster

        return Cluster(execution)
    if execution.parallel == 1:
        return Serial(on_round, interrupted)
    return Processes(execution.parallel, Path(execution.out) / "workers.log")
