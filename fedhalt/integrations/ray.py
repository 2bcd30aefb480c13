"""Ray Tune: a `Stopper` that ends the trials of somebody's own Tuner by fedhalt's rules."""

from __future__ import annotations

from typing import Any

from ..check import FedhaltError, MissingExtra

try:
    from ray import tune
except ImportError:
    raise MissingExtra("fedhalt.integrations.ray", "ray[tune]", "ray") from None

from ..rules import GrowthRate, Rule, Status, TwoStages, Wandering
from ..rules.base import State
from ..rules.motion import Explained

__all__ = ["DistanceStopper"]


class DistanceStopper(tune.Stopper):
    """Reads `distance` and `update_norm` (and what else its rules read) from the results that a trial reports.

    `tune.report({"distance": …, "update_norm": …, "val_loss": …})` once a round, and
    `RunConfig(stop=DistanceStopper())`. The other trials go on. `ended` says why each trial was stopped, and
    what its model was doing. A trial that was restored from a checkpoint reports some rounds again; they are judged
    again from the state before them.
    """

    def __init__(self, screen: Rule | None = None, converge: Rule | None = None) -> None:
        self.rule = TwoStages(
            screen if screen is not None else Wandering(), converge if converge is not None else GrowthRate()
        )
        self._explained = Explained(self.rule)
        self.ended: dict[str, Status] = {}
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
        before = states[max(states)] if states else self._explained.begin()
        row = {**{column: result[column] for column in self.rule.reads}, "round": r}
        states[r], status = self._explained.step(before, row)
        self._states[trial_id] = states
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
