"""Optuna's samplers for a sweep: a study in a storage that several processes and machines share.

A process that dies leaves its trials RUNNING. The next process that asks sees that it is gone, proposes the same
parameters again, and so the same run folder, which goes on; only then it closes the trial. A kill at any moment in
between is made good by whoever asks next.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ... import files
from ...errors import FedhaltError, MissingExtra

try:
    import optuna
except ImportError:
    raise MissingExtra("Optuna's samplers", "optuna", "optuna") from None

from ...simulation.spec import RunSpec
from ..plans import OBJECTIVES, Plan
from ..space import Choices, Dimension
from ..trial import Outcome, Trial
from .optuna_storage import FAILURES, open_storage, storage_errors
from .participants import Participants

optuna.logging.set_verbosity(optuna.logging.WARNING)  # the sweep has its own table
State = optuna.trial.TrialState
Frozen = optuna.trial.FrozenTrial

SEARCH, WORKER, OUTCOME, CONTINUES = "fedhalt_search", "fedhalt_worker", "fedhalt_outcome", "goes_on_from"
"""What is noted on a trial: whose it is, by which process, what became of it, which trial it takes the place of."""

STATES = {State.COMPLETE: "complete", State.PRUNED: "screened", State.FAIL: "failed", State.RUNNING: "elsewhere"}


class StudySampler:
    """Asks an Optuna study and tells it the objective at the round of the stop.

    A screened trial is told as pruned, without a value: Optuna must not read a distance as an objective.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan, self.out = plan, Path(plan.out)
        if plan.storage is None:
            self.out.mkdir(parents=True, exist_ok=True)
        self.url = plan.storage or f"sqlite:///{self.out / 'study.db'}"
        self.storage = open_storage(self.url)
        self.total = int(plan.trials or 0)
        self.participants = Participants(self.out)
        self._asked: set[int] = set()
        try:
            with self._alone():  # two processes that create one study at once would trip over each other
                self.study = self._open_study()
                self._take_over()
        except BaseException:
            self.close()
            raise

    def ask(self) -> Trial | None:
        with self._alone():
            self._take_over()
            trials = self.study.get_trials(deepcopy=False)
            number = next((trial.number for trial in trials if trial.state == State.WAITING), None)
            if number is None:
                if len(_counted(trials)) >= self.total:
                    return None
                # Created with its mark: killed before the next line, it is known to be of this search.
                self.study.enqueue_trial({}, user_attrs={SEARCH: self.participants.search})
                number = len(trials)
            if self.plan.sampler != "qmc":  # whose place in its sequence is in the study
                # Another seed for every trial: no two processes may draw alike.
                self.study.sampler = sampler_named(self.plan.sampler, self.plan.sampler_seed + number)
            asked = self.study.ask()
            asked.set_user_attr(SEARCH, self.participants.search)
            asked.set_user_attr(WORKER, self.participants.me)
            spec = self._draw(asked)
            asked.set_user_attr("run", spec.id)
        self._asked.add(asked.number)
        return Trial(asked.number, spec, self.plan.space.label(spec), token=asked)

    def waits(self) -> bool:
        """While another process of this search has a trial: it may die, and then the trial is taken over."""
        with self._alone():
            running = self.study.get_trials(deepcopy=False, states=(State.RUNNING,))
            theirs = {_worker(trial) for trial in running} - {self.participants.me}
            return any(map(self.participants.is_alive, theirs))

    def tell(self, trial: Trial) -> None:
        if trial.outcome.retry:
            return  # what was never told is left to the next process
        with self._alone():
            if trial.state in ("interrupted", "elsewhere", "lost"):
                self._propose_again(self.study.get_trials(deepcopy=False), [trial.number])
            else:
                self._finish(trial)

    def others(self) -> list[Trial]:
        with self._alone():
            trials = _counted(self.study.get_trials(deepcopy=False))
        return [self._seen(trial) for trial in trials if trial.number not in self._asked and "run" in trial.user_attrs]

    def close(self) -> None:
        """Trials that were never told are anybody's."""
        self.participants.close()

    def _open_study(self) -> optuna.Study:
        direction: Any = OBJECTIVES[self.plan.objective]
        study = optuna.create_study(
            storage=self.storage, study_name=self.plan.study, direction=direction, load_if_exists=True,
            sampler=sampler_named(self.plan.sampler, self.plan.sampler_seed),
        )  # fmt: skip
        found = study.direction.name.lower()
        if found != direction:
            raise FedhaltError(
                f"the study {self.plan.study} in the storage was begun with the other direction than "
                f"{self.plan.objective} has: {found}; name another study"
            )
        return study

    def _draw(self, asked: optuna.Trial) -> RunSpec:
        try:
            return self.plan.space.draw(lambda name, dim: suggest(asked, name, dim))
        except ValueError as error:
            self.study.tell(asked, state=State.FAIL)
            raise FedhaltError(f"the study {self.plan.study} is of another space: {error}") from None

    def _take_over(self) -> None:
        """Proposes all trials of processes that are gone again; only then their locks go too."""
        trials = self.study.get_trials(deepcopy=False)
        running = [trial for trial in trials if trial.state == State.RUNNING and self._is_ours(trial)]
        gone = {worker for worker in map(_worker, running) if not self.participants.is_alive(worker)}
        self._propose_again(trials, [trial.number for trial in running if _worker(trial) in gone])
        self.participants.forget_gone()

    def _is_ours(self, trial: Frozen) -> bool:
        """Whether this search began the trial: by its mark or, where that is lost, by the run's folder."""
        if trial.user_attrs.get(SEARCH) == self.participants.search:
            return True
        return "run" in trial.user_attrs and (self.out / trial.user_attrs["run"]).is_dir()

    def _propose_again(self, trials: list[Frozen], numbers: Iterable[int]) -> None:
        """The same parameters once more, then the trials are closed; a kill in between does not propose them twice."""
        continued = _continued(trials)
        for number in numbers:
            if number not in continued:
                # One that was killed before it had its parameters may be one that was proposed again itself.
                params = {**trials[number].system_attrs.get("fixed_params", {}), **trials[number].params}
                self.study.enqueue_trial(params, user_attrs={CONTINUES: number, SEARCH: self.participants.search})
            self.study.tell(number, state=State.FAIL)

    def _finish(self, trial: Trial) -> None:
        found, score = trial.outcome, trial.value
        said = {"rounds": found.rounds, "reason": found.reason} if found.run else {"error": found.error}
        for name, value in {**said, OUTCOME: files.to_json(found.to_json())}.items():
            trial.token.set_user_attr(name, value)
        if trial.state == "screened":
            self.study.tell(trial.token, state=State.PRUNED)
        elif score is None or math.isnan(score):
            self.study.tell(trial.token, state=State.FAIL)
        else:
            self.study.tell(trial.token, score)

    def _seen(self, trial: Frozen) -> Trial:
        """A trial of the study that was not asked for here."""
        space = self.plan.space
        try:
            spec = space.draw(lambda name, _: trial.params[name])
        except KeyError:
            spec = None
        if spec is None or spec.id != trial.user_attrs["run"]:
            raise FedhaltError(
                f"the study {self.plan.study} is of another space: its trial {trial.number} is "
                f"{trial.user_attrs['run']}, which this space does not hold; name another study"
            )
        return Trial(trial.number, spec, space.label(spec), self._outcome(trial))

    def _outcome(self, trial: Frozen) -> Outcome:
        """What became of it, as its process told; a trial that version 0.1.0 told has a few words only."""
        told = trial.user_attrs
        if OUTCOME in told:
            return Outcome.from_json(files.from_json(told[OUTCOME]))
        state = STATES[trial.state]
        if "rounds" not in told:
            return Outcome(state, told.get("error", ""))
        if state == "complete" and told["reason"] != "budget":
            state = "converged"
        run, value = str((self.out / told["run"]).absolute()), trial.value
        return Outcome(state, run=run, rounds=told["rounds"], reason=told["reason"], value=value)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with self.participants.alone(), storage_errors(self.url, FAILURES):
            yield


def _worker(trial: Frozen) -> str:
    """The process that has the trial; empty where it died before it could say so."""
    return str(trial.user_attrs.get(WORKER, ""))


def _continued(trials: Iterable[Frozen]) -> set[int]:
    """The trials that others took the place of."""
    return {trial.user_attrs[CONTINUES] for trial in trials if CONTINUES in trial.user_attrs}


def _counted(trials: list[Frozen]) -> list[Frozen]:
    """The trials that count: started, and not continued by another trial."""
    continued = _continued(trials)
    begun = [trial for trial in trials if trial.state != State.WAITING and trial.number not in continued]
    return [trial for trial in begun if trial.state != State.FAIL or "run" in trial.user_attrs]


def sampler_named(name: str, seed: int) -> optuna.samplers.BaseSampler:
    """The sampler of that name; trials of other processes that still run count as poor ones for tpe."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if name == "tpe":
            return optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        if name == "qmc":
            return optuna.samplers.QMCSampler(seed=seed, warn_independent_sampling=False)
        return optuna.samplers.GPSampler(seed=seed)


def suggest(trial: optuna.Trial, name: str, dim: Dimension) -> Any:
    """Optuna's word for a dimension."""
    if isinstance(dim, Choices):
        return trial.suggest_categorical(name, dim.values)
    low, high = dim.ends()
    if dim.integer:
        return trial.suggest_int(name, low, high, step=int(dim.step or 1), log=dim.log)
    return trial.suggest_float(name, low, high, step=dim.step, log=dim.log)
