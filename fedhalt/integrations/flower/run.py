"""One Flower run: what was measured, the verdict after every round, and resuming after a kill."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from itertools import compress
from typing import Any, Unpack

import numpy as np

from ... import files
from ...errors import FedhaltError, require_one_of
from ...measure.arrays import all_finite, dense, is_floating_type, named, shape
from ...measure.distance import MEASURED
from ...measure.rebuild import rebuild
from ...measure.tail import COLUMNS
from ...stopper import SECONDS
from ..host import LOG, StateFolder
from ..seam import Options, Watch
from .configs import Configs
from .state import FlowerFolder, OwnState, Saved

TRAFFIC = ("bytes_down", "bytes_up")
"""From the server to the clients, and back."""

KINDS = ("train", "client", "server")
"""Metrics of the clients' training, the clients' evaluation and the server's evaluation, by round."""

Metrics = dict[str, dict[int, dict[str, Any]]]

NOT_RESTORED = (
    "not restored: what clients kept for themselves (context.state, memory without a folder), the random numbers of "
    "server and clients, and what the app holds outside its strategy"
)


class FlowerRun(Watch):
    """The seam with Flower's rounds, fed by the hooks around a strategy.

    A round is judged when it is over, its evaluation included: at the beginning of the next one or at the
    end of the run. Rounds that were saved before a kill are replayed: nothing is sent and nothing handed
    out but the last of them, whose model is there; then the strategy goes on as if it had never stopped.
    """

    def __init__(self, strategy: Any, **options: Unpack[Options]) -> None:
        super().__init__("flwr", **options)
        self.strategy = strategy
        self.running = False
        self.budget: int | None = None
        """The rounds that Flower was asked for, where it says so."""

    def begin_run(self, budget: int | None = None) -> None:
        """Starts from the beginning, or after the last round in the state folder."""
        self.budget = budget
        self.last: Any = None
        """The last finite global model."""
        self.last_saved = -1
        """The last round that was saved by an earlier run; 0 is the evaluation before round 1."""
        self.history: Metrics = {kind: {} for kind in KINDS}
        self.configs = Configs()
        counts = any(column in self.rule.reads for column in TRAFFIC)
        self.traffic: dict[str, int] | None = dict.fromkeys(TRAFFIC, 0) if counts else None
        """The bytes of the arrays that were sent since the last verdict; None if the rule does not ask."""
        self._unjudged: tuple[int, Any] | None = None
        self._known_columns: set[str] = set()
        self._left_out: set[str] = set()
        self.explained = False
        """Whether the log says why the legacy loop goes on."""
        self._restore: Callable[[], list[str]] | None = None
        self._strategy_state = OwnState(self.strategy)
        self.open()
        self.running = True

    def end(self) -> None:
        self.running = False
        super().end()

    def replays(self, r: int) -> bool:
        """Whether this round was finished, and saved, by an earlier run."""
        return r <= self.last_saved

    def begin_round(self, arrays: Any) -> None:
        """Judges the round before; the parameters at the first one are theta_0."""
        self.judge()
        if self._restore is not None:
            # once more: a start() of one's own may have begun by setting attributes anew
            for attribute in self._restore():
                LOG.warning("fedhalt: %s is not there yet and starts over", attribute)
            self._restore = None
        if self.stopper is None:
            types = {name: getattr(leaf, "dtype", None) for name, leaf in named(arrays)}
            if not types:
                raise FedhaltError("the model is empty: give the strategy its initial arrays (initial_parameters=…)")
            self._floating = {name for name, kind in types.items() if is_floating_type(kind)} or set(types)
            self.last = arrays
            self.create(self._floating_arrays(arrays), self.budget)
            self.save()

    def forget(self) -> None:
        """Nothing was trained yet and the new run's parameters are others: they are theta_0."""
        self.stopper, self.last, self.last_saved = None, None, -1
        if self.trajectory:
            os.unlink(self.trajectory)

    def check_start(self, arrays: Any) -> None:
        """A run resumes only with the model it began with."""
        was, now = ({name: shape(leaf) for name, leaf in named(model)} for model in (self.last, arrays))
        if was != now:
            odd = next(name for name in {**was, **now} if was.get(name) != now.get(name))
            raise FedhaltError(
                f"{self.state} holds another model: {odd!r} has shape {was.get(odd)} there and {now.get(odd)} here"
            )

    def finish_training(self, r: int, arrays: Any, metrics: Mapping[str, Any] | None) -> None:
        """A round's new global model; None is a failed round, which does not count unless it failed by diverging."""
        self.record("train", r, metrics)
        if arrays is None and not self._strategy_state.diverged:
            LOG.info("fedhalt: round %s failed and does not count", r)
            return
        self._unjudged = r, arrays
        if arrays is not None and all_finite(arrays):
            self.last = arrays
        else:
            LOG.warning("fedhalt: round %s gave no finite model; the last finite one is kept", r)

    def record(self, kind: str, r: int, metrics: Mapping[str, Any] | None) -> None:
        if metrics is not None:
            self.history[kind][r] = dict(metrics)

    def counted(self, column: str, sent: Iterable[Any], size: Callable[[Any], int]) -> Any:
        """What is sent, with its bytes counted if the rule reads them; if not, nobody looks at it."""
        if self.traffic is None:
            return sent
        sent = list(sent)
        self.traffic[column] += sum(map(size, sent))
        return sent

    def judge(self) -> None:
        """The verdict on the round that is over, recorded and, if it left a finite model, saved."""
        if self._unjudged is None or self.stopper is None:
            return
        (r, arrays), self._unjudged = self._unjudged, None
        columns = {key: value for kind in KINDS for key, value in self._metric_columns(kind, r).items()}
        self._known_columns |= set(columns)
        # a metric that this round has not is None, one that never was is an error
        metrics = self._known_columns - {*MEASURED, *COLUMNS, *TRAFFIC, SECONDS}
        columns = {**{key: None for key in self.rule.reads if key in metrics}, **columns}
        if self.traffic is not None:
            columns |= self.traffic
            self.traffic = dict.fromkeys(TRAFFIC, 0)
        if arrays is None:
            measured = [column for column in MEASURED if column == "distance" or column in self.rule.reads]
            unknown = {**dict.fromkeys(measured, math.nan), **dict.fromkeys(set(COLUMNS) & set(self.rule.reads))}
            status = self.stopper.observe(round=r, **unknown, **columns)
        else:
            status = self.stopper.update(self._floating_arrays(arrays), round=r, **columns)
        self.judged(status, save=arrays is self.last)

    def shipped(self, which: str) -> Any:
        """A model of this run: "average", the mean of the last rounds, or "last", the last finite one."""
        require_one_of("model", which, ("average", "last"))
        if self.stopper is None:
            raise FedhaltError("there is no model before the first round")
        if which == "last":
            return self.last
        # only what was floating-point at the start is averaged: of what has become so since, the last is shipped
        return rebuild(self.last, {name: dense(leaf) for name, leaf in named(self.model("average"))})

    def make_folder(self) -> FlowerFolder:
        assert self.state is not None
        return FlowerFolder(self.state)

    def save(self) -> None:
        if self.folder is not None and self.stopper is not None:
            content = {
                "model": self.last,
                "server": self._strategy_state.changed(),
                "configs": self.configs.to_save(),
            }
            facts = {
                "strategy": self._strategy_state.names,
                "metrics": self.history,
                "floating": sorted(self._floating),
                "chosen": self.patterns,
            }
            self.folder.save(self.stopper, content=content, facts=facts)

    def resume(self, folder: StateFolder) -> None:
        super().resume(folder)
        assert isinstance(folder, FlowerFolder)
        saved = folder.load(self.begun.round)
        with files.taken_from(saved.path):
            ours = self._check_strategy(folder, saved)
            content = saved.content()
            self.last = content["model"]
            self.configs.resume(content.get("configs", {}))
            self.history = {
                kind: {int(r): dict(metrics) for r, metrics in by_round.items()}
                for kind, by_round in saved.facts["metrics"].items()
            }
            self._floating = set(map(str, saved.facts["floating"]))
            levels = [dict(attributes) for attributes in content["server"]]
        if len(levels) != len(ours) or sum(ours) != len(self._strategy_state.levels):
            raise FedhaltError(f"{saved.path} does not hold the state of this strategy")
        self._restore = lambda: self._strategy_state.restore(list(compress(saved.content()["server"], ours)))
        self._restore()
        self.last_saved = self.begun.round
        self._known_columns = set(self.begun.trajectory.columns if self.begun.trajectory else self.rule.reads)
        if not self.stopped:
            LOG.warning("fedhalt: %s", NOT_RESTORED)

    def _check_strategy(self, folder: StateFolder, saved: Saved) -> list[bool]:
        """A run resumes only with the strategy it began with. Says which of the saved levels are the strategy's."""
        names, was = self._strategy_state.names, saved.facts["strategy"]
        # version 0.1.0 saved the wrapper of `attach` with it
        ours = [name not in ("MessageStopping", "LegacyStopping") for name in was]
        if list(compress(was, ours)) != names:
            then, this = (" around ".join(each) for each in (was, names))
            raise FedhaltError(f"{folder.path} was saved by {then}, this is {this}: use that, or another folder")
        return ours

    def _floating_arrays(self, arrays: Any) -> dict[str, Any]:
        """The arrays that were floating-point at the start: averaging turns a step counter into a float."""
        return {name: leaf for name, leaf in named(arrays) if name in self._floating}

    def _metric_columns(self, kind: str, r: int) -> dict[str, Any]:
        """This round's metrics as columns of the trajectory: `client_loss`, `server_accuracy`, …"""
        found = self.history[kind].get(r, {})
        columns = {}
        for key, value in found.items():
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                value = float(value)
            plain = key.startswith(f"{kind}_") and key.removeprefix(f"{kind}_") not in found
            name = key if plain else f"{kind}_{key}"
            if isinstance(value, (int, float, list, np.number)):
                columns[name] = value
            elif name not in self._left_out:
                self._left_out.add(name)
                LOG.warning("fedhalt: %s is not recorded: it is %s, not a number", name, type(value).__name__)
        return columns
