"""Ray Tune: a `Stopper` that ends the trials of your own Tuner with fedhalt's rules."""

from __future__ import annotations

from typing import Any

from ..errors import FedhaltError, MissingExtra

try:
    from ray import tune
except ImportError:
    raise MissingExtra("fedhalt.integrations.ray", "ray[tune]", "ray") from None

from ..records.judging import DRIFT, metrics
from ..rules import GrowthRate, Rule, State, Status, Stepper, TwoStages, Wandering
from ..views.words import format_drift

__all__ = ["DistanceStopper"]


class DistanceStopper(tune.Stopper):
    """A Ray Tune stopper that reads `distance` and `update_norm` from the reported results.

    Call `tune.report({"distance": …, "update_norm": …, "val_loss": …})` once per round and pass
    `RunConfig(stop=DistanceStopper())`. `ended` says, by trial, why it was stopped and what its model was doing.
    `drift` says what its rounds do, if it also reports `drift_10` (`**stopper.drift` of an `EarlyStopper`). A trial
    that was restored from a checkpoint reports some rounds again; they are judged again from the state before them.

    Args:
        screen: The rule that ends hopeless trials. Default: `Wandering()`.
        converge: The rule that ends trials that are done. Default: `GrowthRate()`.

    Raises:
        FedhaltError: When a trial does not report a column that the rules read.

    Examples:
        >>> from fedhalt import GrowthRate
        >>> from fedhalt.integrations.ray import DistanceStopper
        >>> stopper = DistanceStopper(converge=GrowthRate(0.6, 1))
        >>> rounds = [{"training_iteration": r, "distance": float(r), "update_norm": 1.0} for r in (1, 2, 3)]
        >>> [stopper("trial", result) for result in rounds], stopper.ended["trial"].reason
        ([False, False, True], 'saturated')
    """

    def __init__(self, screen: Rule | None = None, converge: Rule | None = None) -> None:
        self.rule = TwoStages(
            screen if screen is not None else Wandering(), converge if converge is not None else GrowthRate()
        )
        self.ended: dict[str, Status] = {}
        self.drift: dict[str, str] = {}
        self._states: dict[str, dict[int, State]] = {}

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        missing = [column for column in self.rule.reads if column not in result]
        if missing:
            reported = ", ".join(key for key in result if key not in RAYS_OWN)
            raise FedhaltError(
                f"the stopper reads {missing[0]!r}, which the trial does not report; reported: {reported}"
            )
        r = int(result["training_iteration"])
        states = {known: state for known, state in self._states.get(trial_id, {}).items() if known < r}
        stepper = Stepper([self.rule])
        if states:
            stepper.state = states[max(states)]
        stepper.step({**{column: result[column] for column in self.rule.reads}, "round": r})
        states[r], status = stepper.state, stepper.statuses[0]
        self._states[trial_id] = states
        if (drift := metrics(result).get(DRIFT)) is not None:
            self.drift[trial_id] = format_drift(drift)
        if status.stop:
            self.ended[trial_id] = status
        return status.stop

    def stop_all(self) -> bool:
        return False


RAYS_OWN = (
    "timestamp", "checkpoint_dir_name", "done", "training_iteration", "trial_id", "date", "time_this_iter_s",
    "time_total_s", "pid", "hostname", "node_ip", "config", "time_since_restore", "iterations_since_restore",
)  # fmt: skip
"""Keys that Ray adds to every result."""
