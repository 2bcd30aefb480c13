"""Optuna: stops the trials of your own study with fedhalt's rules.

A hopeless trial raises `TrialPruned`. A converged trial leaves its loop and returns its objective. Neither the distance
nor its growth is reported to the trial, because a sampler would take it for the objective.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ..errors import FedhaltError, MissingExtra, require_one_of

try:
    import optuna
except ImportError:
    raise MissingExtra("fedhalt.integrations.optuna", "optuna", "optuna") from None

from ..measure.arrays import Patterns
from ..records.judging import DRIFT
from ..rules import GrowthRate, Rule, Status, TwoStages, Wandering, is_hopeless
from ..stopper import EarlyStopper
from ..views.words import format_drift

__all__ = ["TrialStopper", "run_trial"]

DIVERGING = 15
BLOWN_UP = 2.5
"""A trial that has been diverging with a local exponent above `BLOWN_UP` for `DIVERGING` rounds in a row is pruned.
FedDyn adds up past updates, so a healthy model may move ever faster, up to an exponent of 2: the best of four methods
that fine-tune a network was at 1.66. A model that blows up grows exponentially, past every exponent. On the 1,328 runs
of StopBench, no exponent was above 2.5 for two rounds in a row."""


class TrialStopper:
    """Judges a trial after every round of your own training loop.

    A trial is pruned if the screening rule fires, if its parameters are no longer finite, or if the model has been
    `diverging` (see `fedhalt.rules.motion`) with an exponent above 2.5 for 15 rounds in a row. It is done if the
    convergence rule fires.

    Args:
        trial: The Optuna trial.
        start: The parameters before round 1, in any form that `EarlyStopper` accepts.
        screen: The rule that prunes hopeless trials. Default: `Wandering()`.
        converge: The rule that ends trials that are done. Default: `GrowthRate()`.
        include: Glob patterns of the parameters to measure. Default: all of them.
        exclude: Glob patterns of parameters to leave out.

    Raises:
        FedhaltError: If `trial` is not an Optuna trial.

    Examples:
        >>> from fedhalt.integrations.optuna import TrialStopper
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
        >>> import optuna
        >>> study = optuna.create_study()
        >>> for rate in (0.5, 2.0, 3.0):
        ...     study.enqueue_trial({"rate": rate})
        >>> study.optimize(objective, n_trials=3)
        >>> [(trial.state.name, trial.user_attrs["reason"]) for trial in study.trials]
        [('COMPLETE', 'saturated'), ('PRUNED', 'screened'), ('PRUNED', 'diverging')]
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
        self.diverging = 0
        """For how many rounds in a row the model has been blowing up."""

    def update(self, params: Any, **columns: Any) -> Status:
        """Judges this round's parameters.

        Args:
            params: The parameters after this round.
            **columns: Other numbers of the round that the rules read.

        Returns:
            The status of the round. Leave the loop if its `stop` is true.

        Raises:
            optuna.TrialPruned: If the trial is hopeless.
        """
        return self._ended(self.stopper.update(params, **columns))

    def observe(self, distance: float | None = None, **columns: Any) -> Status:
        """Judges numbers that were measured elsewhere.

        Args:
            distance: The distance of the parameters from their start.
            **columns: `update_norm` and whatever else the rules read.

        Returns:
            The status of the round. Leave the loop if its `stop` is true.

        Raises:
            optuna.TrialPruned: If the trial is hopeless.
        """
        return self._ended(self.stopper.observe(distance, **columns))

    def _ended(self, status: Status) -> Status:
        self.diverging = self.diverging + 1 if _blows_up(status.exponent, status.motion) else 0
        reason = status.reason if status.stop else "diverging" if self.diverging >= DIVERGING else ""
        if reason:
            _note(self.trial, status.round, reason, self.stopper.drift.get(DRIFT))
            if not status.stop or is_hopeless(reason):
                raise optuna.TrialPruned(f"{reason} at round {status.round}")
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
    """Runs a `RunSpec` as this trial.

    The run has the same folder as with `fedhalt run`. A trial that is proposed again after its process died (by
    Optuna's `RetryHeartbeatStaleTrialCallback` or by `study.enqueue_trial`) resumes where it was.

    Args:
        trial: The Optuna trial.
        spec: The run to train.
        out: The folder of run folders.
        rounds: The budget of the trial.
        objective: The recorded column to return: `val_loss`, `val_accuracy`, `val_balanced_accuracy`, `client_loss` or
            `client_accuracy`.
        screen: The rule that prunes hopeless trials. Default: `Wandering()`.
        converge: The rule that ends trials that are done. Default: `GrowthRate()`.
        **options: Other options of `fedhalt.simulation.run`.

    Returns:
        The objective at the stop, or at the end of the budget.

    Raises:
        optuna.TrialPruned: If the trial is hopeless: screened, diverged, or still diverging at the end of its budget.
        FedhaltError: If the objective is unknown or was not recorded.

    Examples:
        >>> from fedhalt.integrations.optuna import run_trial
        >>> from fedhalt.simulation import RunSpec
        >>> def objective(trial):
        ...     spec = RunSpec(data="digits", clients=20, cohort=5, c=0.5, lr=trial.suggest_float("lr", 0.01, 0.1))
        ...     return run_trial(trial, spec, rounds=100)
    """
    from ..rules import NamedRule
    from ..simulation.runner import run
    from ..tuning.plans import OBJECTIVES
    from ..tuning.trial import outcome_of

    require_one_of("objective", objective, [name for name in OBJECTIVES if name != "none"])
    stages = {"screen": screen if screen is not None else Wandering(),
              "converge": converge if converge is not None else GrowthRate()}  # fmt: skip
    watch = [NamedRule(name, {}, rule) for name, rule in stages.items()]
    summary = run(spec, Path(out), rounds=rounds, watch=watch, stop="first", **options)
    found = outcome_of(summary, list(stages), rounds, objective)
    diverging = found.state == "complete" and _blows_up(found.exponent, found.motion) and found.rounds >= DIVERGING
    reason = "diverging" if diverging else found.reason
    _note(trial, found.rounds, reason, found.drift)
    trial.set_user_attr("run", spec.id)
    if found.state == "screened" or diverging:
        raise optuna.TrialPruned(f"{reason} at round {found.rounds}")
    if found.value is None:
        raise FedhaltError(f"{objective} was not recorded: see evaluate_every and held_out of the RunSpec")
    return float(found.value)


def _note(trial: optuna.trial.BaseTrial, r: int, reason: str, drift: float | None) -> None:
    """Writes the round and the reason of a trial's end into the study, and what its rounds did where that is known."""
    trial.set_user_attr("rounds", r)
    trial.set_user_attr("reason", reason)
    if drift is not None:
        trial.set_user_attr("drift", format_drift(drift))


def _blows_up(exponent: float | None, motion: str) -> bool:
    return motion == "diverging" and (exponent is None or exponent > BLOWN_UP)
