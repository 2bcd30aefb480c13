"""One Flower run under watch: what was measured, the verdict after every round, and going on after a kill."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...arrays import Patterns, named
from ...check import FedhaltError
from ...rules import Rule, Status
from ...stopper import EarlyStopper
from ...trajectory import Trajectory
from .state import LOG, OwnState, StateFolder

KINDS = ("train", "client", "server")
"""Metrics of the clients' training, the clients' evaluation and the server's evaluation, by round."""

Metrics = dict[str, dict[int, dict[str, Any]]]


class Halt(BaseException):
    """Ends Flower's loop over rounds; no `except Exception` in somebody's strategy may swallow it."""


class Watch:
    """The stopper of one run, fed by the hooks around a strategy.

    A round is judged when it is over, its evaluation included: at the beginning of the next one or at the
    end of the run. Rounds that were saved before a kill are replayed: nothing is sent, the recorded
    metrics are given back, and the strategy goes on after them as if it had never stopped.
    """

    def __init__(
        self, strategy: Any, rule: Rule, include: Patterns, exclude: Patterns, trajectory: Any, state: Any
    ) -> None:
        self.rule, self.include, self.exclude, self.trajectory, self.state = rule, include, exclude, trajectory, state
        self.strategy = strategy
        self.running = False
        self.status: Status | None = None
        """The verdict on the last round, None before the first."""

    def begin(self) -> None:
        """Starts anew, or after the last round in the state folder."""
        self.running = True
        self.status = None
        self.stopper: EarlyStopper | None = None
        self.model: Any = None
        """The global model after the last round that did not fail."""
        self.done = -1
        """The last round that was saved by an earlier run; 0 is the evaluation before round 1."""
        self.metrics: Metrics = {kind: {} for kind in KINDS}
        self._pending: int | None = None
        self._folder = StateFolder(self.state) if self.state is not None else None
        try:
            self._own = OwnState(self.strategy)
            if self._folder is not None:
                self._resume(self._folder)
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        self.running = False
        if self._folder is not None:
            self._folder.close()

    def replays(self, r: int) -> bool:
        """Whether this round was finished, and saved, by an earlier run."""
        return r <= self.done

    def before_round(self, arrays: Any) -> None:
        """Judges the round before; the parameters at the first one are theta_0."""
        self.judge()
        if self.stopper is None:
            self._floating = {name for name, leaf in named(arrays) if "float" in str(getattr(leaf, "dtype", ""))}
            self.model = arrays
            self.stopper = EarlyStopper(
                self._watched(arrays),
                rule=self.rule,
                include=self.include,
                exclude=self.exclude,
                trajectory=self.trajectory,
            )
            self._save()

    def trained(self, r: int, arrays: Any, metrics: Mapping[str, Any] | None) -> None:
        """A round's new global model; None is a failed round, which does not count."""
        if arrays is None:
            LOG.info("fedhalt: round %s failed and does not count", r)
            return
        self.model, self._pending = arrays, r
        self.measured("train", r, metrics)

    def measured(self, kind: str, r: int, metrics: Mapping[str, Any] | None) -> None:
        if metrics is not None:
            self.metrics[kind][r] = dict(metrics)

    def judge(self) -> None:
        """The verdict on the round that is over, recorded and saved."""
        if self._pending is None or self.stopper is None:
            return
        r, self._pending = self._pending, None
        columns = {key: value for kind in KINDS for key, value in self._columns(kind, r).items()}
        self.status = self.stopper.update(self._watched(self.model), round=r, **columns)
        LOG.info("fedhalt: %s", _sentence(self.status, next(iter(self.rule.reads), "value")))
        self._save()

    @property
    def stopped(self) -> bool:
        return self.status is not None and self.status.stop

    def _save(self) -> None:
        if self._folder is not None and self.stopper is not None:
            content = {"model": self.model, "server": self._own.changed()}
            facts = {
                "strategy": self._own.names,
                "metrics": self.metrics,
                "floating": sorted(self._floating),
                "recorded": self.stopper.trajectory is not None,
                "chosen": self._chosen(),
            }
            self._folder.save(self.stopper, content, facts)

    def _resume(self, folder: StateFolder) -> None:
        found = folder.load(self.rule, self.trajectory)
        if found is None:
            if self.trajectory and os.path.exists(self.trajectory) and not len(Trajectory.load(self.trajectory)):
                os.unlink(self.trajectory)  # killed before round 1: nothing was recorded
            return
        self.stopper, saved = found
        if self.trajectory and not saved["recorded"]:
            raise FedhaltError(f"{folder.path} was saved without a trajectory: {self.trajectory} would lack its rounds")
        if saved["strategy"] != self._own.names:
            was, this = (" around ".join(names) for names in (saved["strategy"], self._own.names))
            raise FedhaltError(f"{folder.path} was saved by {was}, this is {this}: use that, or another folder")
        if saved["chosen"] != self._chosen():
            raise FedhaltError(
                f"{folder.path} was saved with include, exclude = {saved['chosen']}, not {self._chosen()}"
            )
        self._own.restore(saved["content"]["server"])
        self.model = saved["content"]["model"]
        self.metrics = {
            kind: {int(r): metrics for r, metrics in by_round.items()} for kind, by_round in saved["metrics"].items()
        }
        self._floating = set(saved["floating"])
        self.status, self.done = self.stopper.status, self.stopper.round
        after = "which stopped it" if self.stopped else f"going on with round {self.done + 1}"
        LOG.info("fedhalt: %s holds this run up to round %s, %s", folder.path, self.done, after)

    def _chosen(self) -> list[Any]:
        return [list(each) if isinstance(each, (list, tuple)) else each for each in (self.include, self.exclude)]

    def _watched(self, arrays: Any) -> dict[str, Any]:
        """The arrays that were floating-point at the start: averaging turns a step counter into a float."""
        return {name: leaf for name, leaf in named(arrays) if name in self._floating}

    def _columns(self, kind: str, r: int) -> dict[str, Any]:
        """This round's metrics as columns of the trajectory: `client_loss`, `server_accuracy`, …"""
        found = self.metrics[kind].get(r, {})
        numbers = {key: value for key, value in found.items() if isinstance(value, (int, float, np.number))}
        return {key if key.startswith(f"{kind}_") else f"{kind}_{key}": value for key, value in numbers.items()}


def _sentence(status: Status, column: str) -> str:
    value = "" if status.value is None else f", {column} {status.value:.6g}"
    growth = "" if status.growth is None else f", growth {status.growth:.3g}"
    verdict = f": {status.reason}, stop" if status.stop else f", streak {status.streak}"
    return f"round {status.round}{value}{growth}{verdict}"
