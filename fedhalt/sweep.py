"""A sweep: runs what is missing of a plan, by any sampler on any executor; run folders are its only memory."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from .executors import Executor, Processes, Serial
from .plan import OPTUNA, Plan
from .spec import RunSpec
from .trial import Trial, job

ATTEMPTS = 3
"""How often a trial is begun again whose worker died; a trial that kills its workers must end some time."""

PAUSE = 0.2
"""Seconds between two looks at what the workers did."""


class Sampler(Protocol):
    """Proposes configurations and hears what became of them."""

    def ask(self) -> Trial | None:
        """The next trial; None if there is none, for now or for ever."""

    def tell(self, trial: Trial) -> None:
        """A trial ended, or was given back (interrupted)."""

    @property
    def total(self) -> int:
        """How many trials there will be."""

    def close(self) -> None:
        """The sweep is over."""


class Listed:
    """Configurations that are known beforehand."""

    def __init__(self, labelled: Iterable[tuple[RunSpec, str]]) -> None:
        self.trials = [Trial(number, spec, label) for number, (spec, label) in enumerate(labelled)]
        self.position = 0

    @property
    def total(self) -> int:
        return len(self.trials)

    def ask(self) -> Trial | None:
        self.position += 1
        return self.trials[self.position - 1] if self.position <= self.total else None

    def tell(self, trial: Trial) -> None:
        """A list does not learn."""

    def close(self) -> None:
        """A list holds nothing."""


Watcher = Callable[[list[Trial], int], None]
"""Is shown all trials that were begun, and how many there will be, after every change and now and then."""


class Sweep(list[Trial]):
    """The trials of a sweep, which a notebook shows as a table and a picture of their objectives."""

    def __init__(self, plan: Plan, trials: Iterable[Trial]) -> None:
        super().__init__(trials)
        self.plan = plan

    @property
    def best(self) -> Trial | None:
        """The trial with the best objective."""
        return best(self, self.plan.higher_is_better)

    def plot(self) -> Any:
        """A matplotlib figure: the rounds and the objective of every trial."""
        from .pictures import trials

        return trials(self, self.plan.rounds, self.plan.objective)

    def _repr_html_(self) -> str:
        from .report.notebook import sweep_html

        return sweep_html(self, self.plan.rounds, self.plan.objective, self.best)


def sweep(
    plan: Plan, seen: Watcher = lambda trials, total: None, interrupted: Callable[[], bool] = lambda: False,
    sampler: Sampler | None = None, job: Callable[[Plan, Trial], dict[str, Any]] = job,
) -> Sweep:  # fmt: skip
    """Runs every trial of the plan, or of another sampler, to its end, and returns them.

    Finished runs are only read, interrupted ones go on, those that another process holds are waited for.
    """
    sampler = sampler or sampler_of(plan)
    trials: dict[int, Trial] = {}

    def look(_: Any = None) -> None:
        seen(list(trials.values()), sampler.total)

    with contextlib.ExitStack() as last:
        last.callback(sampler.close)
        executor = executor_of(plan, look, interrupted)
        last.callback(executor.close)
        _loop(sampler, executor, trials, look, interrupted, lambda trial: job(plan, trial))
    look()
    return Sweep(plan, trials.values())


def _loop(
    sampler: Sampler, executor: Executor, trials: dict[int, Trial], look: Callable[[], None],
    interrupted: Callable[[], bool], job: Callable[[Trial], dict[str, Any]],
) -> None:  # fmt: skip
    again: list[tuple[float, Trial]] = []  # not before that time: somebody else has it, or its worker died
    stopping = exhausted = False
    while True:
        if interrupted() and not stopping:
            stopping = True
            executor.stop()
        while executor.free and not stopping:
            trial = _due(again) or (None if exhausted else sampler.ask())
            if trial is None:
                exhausted = True
                break
            trials[trial.number] = trial
            trial.state = "running"
            look()
            executor.start(job(trial))
        for number, found in executor.wait(PAUSE):
            trial = trials[number]
            trial.state, trial.outcome = found["state"], found
            _settle(trial, sampler, again)
        look()
        running = any(trial.state == "running" for trial in trials.values())
        if not running and (stopping or (exhausted and not again)):
            for _, trial in again:
                sampler.tell(trial)
            return
        if not running and again:
            time.sleep(PAUSE)


def _settle(trial: Trial, sampler: Sampler, again: list[tuple[float, Trial]]) -> None:
    """An ended trial is told; one that another process holds, or whose worker died, comes again."""
    if trial.state == "lost":
        trial.attempts += 1
        if trial.attempts >= ATTEMPTS:
            trial.state = "failed"
    if trial.state in ("elsewhere", "lost"):
        again.append((time.monotonic() + (2 * PAUSE if trial.state == "elsewhere" else 0), trial))
    else:
        sampler.tell(trial)


def _due(again: list[tuple[float, Trial]]) -> Trial | None:
    now = time.monotonic()
    for index, (when, trial) in enumerate(again):
        if when <= now:
            del again[index]
            return trial
    return None


def sampler_of(plan: Plan) -> Sampler:
    """The plan's sampler; Optuna is imported only if it is asked for."""
    if plan.sampler not in OPTUNA:
        space = plan.space
        specs = space.grid() if plan.trials is None else space.random(plan.trials, plan.sampler_seed)
        return Listed((spec, space.label(spec)) for spec in specs)
    from .study import Study

    return Study(plan)


def executor_of(plan: Plan, beat: Callable[[Any], None], interrupted: Callable[[], bool]) -> Executor:
    """The plan's executor; Ray is imported only if it is asked for."""
    if plan.executor == "ray":
        from .cluster import Cluster

        return Cluster(plan)
    if plan.parallel == 1:
        return Serial(beat, interrupted)
    return Processes(plan.parallel, Path(plan.out) / "workers.log")


def best(trials: list[Trial], higher_is_better: bool) -> Trial | None:
    """The trial with the best objective; screened ones have none, NaN is none either."""
    scored = [trial for trial in trials if trial.value is not None and trial.value == trial.value]
    key: Callable[[Trial], float] = lambda trial: trial.value if trial.value is not None else 0.0  # noqa: E731
    return (max if higher_is_better else min)(scored, key=key, default=None)
