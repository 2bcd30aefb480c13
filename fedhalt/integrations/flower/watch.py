"""One Flower run under watch: what was measured, the verdict after every round, and going on after a kill."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...arrays import Patterns, named, shape
from ...check import FedhaltError
from ...distance import MEASURED
from ...rules import Rule, Status
from ...rules.motion import told, why
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
        if state is not None and not isinstance(state, (str, os.PathLike)):
            raise FedhaltError(f"state must be the path of a folder, not {state!r}")
        self.status: Status | None = None
        """The verdict on the last round, None before the first."""

    def begin(self) -> None:
        """Starts anew, or after the last round in the state folder."""
        if self.running:
            self.end()
        self.running = True
        self.status = None
        self.stopper: EarlyStopper | None = None
        self.model: Any = None
        """The global model after the last round that did not fail."""
        self.done = -1
        """The last round that was saved by an earlier run; 0 is the evaluation before round 1."""
        self.metrics: Metrics = {kind: {} for kind in KINDS}
        self._pending: int | None = None
        self._seen: set[str] = set()
        self._folder = StateFolder(self.state) if self.state is not None else None
        try:
            self._own = OwnState(self.strategy)
            if self._folder is not None:
                self._resume(self._folder)
            if self.stopper is None and self.trajectory and os.path.exists(self.trajectory):
                how = "remove it, name another, or go on with its run by state=FOLDER"
                raise FedhaltError(f"{self.trajectory} exists already: {how}")
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
            kinds = {name: str(getattr(leaf, "dtype", "")) for name, leaf in named(arrays)}
            if not kinds:
                raise FedhaltError("the model is empty: give the strategy its initial arrays (initial_parameters=…)")
            self._floating = {name for name, kind in kinds.items() if "float" in kind} or set(kinds)
            self.model = arrays
            self.stopper = EarlyStopper(
                self._watched(arrays),
                rule=self.rule,
                include=self.include,
                exclude=self.exclude,
                trajectory=self.trajectory,
            )
            self._save()

    def forget(self) -> None:
        """Nothing was trained yet and the new run's parameters are others: they are theta_0."""
        self.stopper, self.model, self.done = None, None, -1
        if self.trajectory:
            os.unlink(self.trajectory)

    def check_start(self, arrays: Any) -> None:
        """A run goes on only with the model it began with."""
        was, now = ({name: shape(leaf) for name, leaf in named(model)} for model in (self.model, arrays))
        if was != now:
            odd = next(name for name in {**was, **now} if was.get(name) != now.get(name))
            raise FedhaltError(
                f"{self.state} holds another model: {odd!r} has shape {was.get(odd)} there and {now.get(odd)} here"
            )

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
        self._seen |= set(columns)  # a metric that this round has not is None, one that never was is an error
        columns = {**{key: None for key in self.rule.reads if key in self._seen - set(MEASURED)}, **columns}
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
        if folder.saved and self.trajectory and not os.path.exists(self.trajectory):
            raise FedhaltError(f"{self.trajectory} is gone, in which {folder.path} recorded its rounds: put it back")
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
        self._seen = set(self.stopper.trajectory.columns) if self.stopper.trajectory else set(self.rule.reads)
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
        columns = {}
        for key, value in found.items():
            if isinstance(value, (int, float, np.number)):
                plain = key.startswith(f"{kind}_") and key.removeprefix(f"{kind}_") not in found
                wide = isinstance(value, int) and not -(2**63) <= value < 2**63
                columns[key if plain else f"{kind}_{key}"] = float(value) if wide else value
        return columns


def _sentence(status: Status, column: str) -> str:
    value = "" if status.value is None else f", {column} {status.value:.6g}"
    growth = "" if status.growth is None else f", growth {status.growth:.3g}"
    if status.stop:
        return f"round {status.round}{value}{growth}: stop ({why(status.reason, status.exponent, status.motion)})"
    motion = f", exponent {told(status.exponent, status.motion)}" if status.motion else ""
    return f"round {status.round}{value}{growth}{motion}, streak {status.streak}"
