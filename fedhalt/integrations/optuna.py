"""Optuna: ends the trials of somebody's own study by fedhalt's rules.

A screened trial raises `TrialPruned`; one that has converged leaves its loop and returns its objective. Neither the
distance nor its growth is ever reported to the trial: a sampler would read it as the objective.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..check import FedhaltError, MissingExtra, known

try:
    import optuna
except ImportError:
    raise MissingExtra("fedhalt.integrations.optuna", "optuna", "optuna") from None

from ..arrays import Patterns
from ..rules import GrowthRate, Rule, Status, TwoStages, Wandering
from ..stopper import EarlyStopper

__all__ = ["TrialStopper", "run_trial"]


class TrialStopper:
    """Judges a trial after every round: for a loop of one's own inside an objective.

    >>> import numpy as np
    >>> def objective(trial):
    ...     rate = trial.suggest_float("rate", 0.1, 4.0)
    ...     x = np.ones(2)
    ...     stopper = TrialStopper(trial, start=x)
    ...     for _ in range(100):
    ...         x = x - rate * x * np.array([1.0, 0.1])
    ...         if stopper.update(x).stop:
    ...             break
    ...     return float(x @ x)
    >>> study = optuna.create_study()
    >>> study.enqueue_trial({"rate": 0.5})
    >>> study.enqueue_trial({"rate": 2.0})
    >>> study.optimize(objective, n_trials=2)
    >>> [trial.state.name for trial in study.trials]
    ['COMPLETE', 'PRUNED']
    """

    def __init__(
        self,
        trial: optuna.trial.BaseTrial,
        start: Any = None,
        *,
        screen: Rule | None = None,
        converge: Rule | None = None,
        include: Patterns = None,
        exclude: Patterns = None,
    ) -> None:
        if not callable(getattr(trial, "set_user_attr", None)):
            raise FedhaltError(f"the first argument is the Optuna trial, not {trial!r}")
        rule = TwoStages(
            screen if screen is not None else Wandering(), converge if converge is not None else GrowthRate()
        )
        self.trial = trial
        self.stopper = EarlyStopper(start, rule=rule, include=include, exclude=exclude)

    def update(self, params: Any, **columns: Any) -> Status:
        """The verdict on this round's parameters; raises `TrialPruned` if the trial is hopeless."""
        return self._ended(self.stopper.update(params, **columns))

    def observe(self, distance: float | None = None, **columns: Any) -> Status:
        """The same for numbers measured elsewhere: `distance`, `update_norm` and whatever the rules read."""
        return self._ended(self.stopper.observe(distance, **columns))

    def _ended(self, status: Status) -> Status:
        if status.stop:
            note(self.trial, status.round, status.reason)
            if status.reason in TwoStages.HOPELESS:
                raise optuna.TrialPruned(f"{status.reason} at round {status.round}")
        return status


def run_trial(
    trial: optuna.trial.BaseTrial,
    spec: Any,
    out: str | os.PathLike[str] = "runs",
    *,
    rounds: int = 500,
    objective: str = "val_loss",
    screen: Rule | None = None,
    converge: Rule | None = None,
    **options: Any,
) -> float:
    """Runs a `RunSpec` as this trial and returns its objective at the stop, or raises `TrialPruned`.

    The run's folder is that of `fedhalt run`: a trial that is proposed again after its process died (Optuna's
    `RetryHeartbeatStaleTrialCallback`, or `study.enqueue_trial`) goes on where it was.
    """
    from ..judge import Candidate
    from ..plan import OBJECTIVES
    from ..run import run
    from ..trial import outcome

    known("objective", objective, [name for name in OBJECTIVES if name != "none"])
    stages = {"screen": screen if screen is not None else Wandering(),
              "converge": converge if converge is not None else GrowthRate()}  # fmt: skip
    watch = [Candidate(name, {}, rule) for name, rule in stages.items()]
    summary = run(spec, Path(out), rounds=rounds, watch=watch, stop="first", **options)
    found = outcome(summary, list(stages), rounds, objective)
    note(trial, found["rounds"], found["reason"])
    trial.set_user_attr("run", spec.id)
    if found["state"] == "screened":
        raise optuna.TrialPruned(f"{found['reason']} at round {found['rounds']}")
    if found["value"] is None:
        raise FedhaltError(f"{objective} was not recorded: see evaluate_every and held_out of the RunSpec")
    return float(found["value"])


def note(trial: optuna.trial.BaseTrial, r: int, reason: str) -> None:
    """Where a trial ended and why, for whoever opens the study."""
    trial.set_user_attr("rounds", r)
    trial.set_user_attr("reason", reason)
