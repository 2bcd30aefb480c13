"""Stops an NVIDIA FLARE job, as a component of its server: `job.to_server(EarlyStopping(threshold=0.01, patience=10))`.

FLARE has no hook that ends training. `ScatterAndGather` tests its number of rounds anew every round, so a widget lowers
it. The loop of a `ModelController` (FedAvg, Scaffold, FedOpt, …) is left by an exception, at the first call of a round
that would reach the clients; by then the controller has saved the model of the round before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

from .. import rules
from ..errors import FedhaltError
from ..measure.arrays import Patterns, named
from ..measure.tensors import pack
from ..rules import Rule
from .host import LOG
from .seam import Options, Watch, require

require("nvflare", "nvflare", "2.9", "2.9")

from nvflare.apis.event_type import EventType  # noqa: E402
from nvflare.apis.fl_component import FLComponent  # noqa: E402
from nvflare.apis.fl_constant import FLContextKey  # noqa: E402
from nvflare.apis.fl_context import FLContext  # noqa: E402
from nvflare.app_common.abstract.fl_model import FLModel  # noqa: E402
from nvflare.app_common.abstract.model import ModelLearnableKey  # noqa: E402
from nvflare.app_common.app_constant import AppConstants  # noqa: E402
from nvflare.app_common.app_event_type import AppEventType  # noqa: E402
from nvflare.app_common.workflows.base_fedavg import BaseFedAvg  # noqa: E402
from nvflare.app_common.workflows.scatter_and_gather import ScatterAndGather  # noqa: E402

__all__ = ["EarlyStopping", "add_early_stopping"]

REACH_CLIENTS = ("sample_clients", "send_model", "send_model_and_wait")
AVERAGE = "average.safetensors"


class Halt(BaseException):
    """Ends the loop of a ModelController, which catches every `Exception`."""


class EarlyStopping(FLComponent):  # type: ignore[misc]
    """A component of the server that ends the job's training when the rule says so; what follows in the job still runs.

    It works with `FedAvg`, `Scaffold`, `FedOpt` and everything else derived from `BaseFedAvg`, and with
    `ScatterAndGather`. FLARE counts rounds from 0, fedhalt from 1. A job resumes if its controller has the
    `start_round` and the model of the round before, and `state` is the folder of the job that was killed.

    Args:
        threshold: The threshold of the paper's rule. Default: 0.01.
        patience: For how many rounds in a row growth must stay below the threshold. Default: 10.
        rule: Another rule, in place of the paper's, or what `fedhalt.rules.to_json` makes of one.
        start_from_round: The first round that counts toward the patience. Default: 1.
        check_finite: Whether a model that is not finite stops the run as "diverged". Default: True.
        include: Glob patterns of the arrays to measure. Default: all floating-point arrays.
        exclude: Glob patterns of arrays to leave out.
        trajectory: A file in which every round is recorded, in the job's folder on the server unless it is absolute.
        overwrite: Whether a trajectory of an earlier run may be replaced. Default: False.
        state: A folder on the server, as an absolute path, from which the next job resumes after a kill.
        average: Keep the mean of the last models: 10 for the last ten (exact), or "running:10". It is written to
            `average.safetensors` in the job's folder on the server.

    Raises:
        FedhaltError: If an option is out of range.
    """

    def __init__(
        self,
        threshold: float | None = None,
        patience: int | None = None,
        rule: Rule | Mapping[str, Any] | None = None,
        start_from_round: int | None = None,
        check_finite: bool | None = None,
        include: Patterns = None,
        exclude: Patterns = None,
        trajectory: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
        state: str | os.PathLike[str] | None = None,
        average: int | str | None = None,
    ) -> None:
        super().__init__()
        if state is not None and not os.path.isabs(state):
            raise FedhaltError(f"state={os.fspath(state)!r} must be absolute: every job has a folder of its own")
        self.options: Options = {
            "threshold": threshold,
            "patience": patience,
            "rule": rule,
            "start_from_round": start_from_round,
            "check_finite": check_finite,
            "include": include,
            "exclude": exclude,
            "overwrite": overwrite,
            "state": os.fspath(state) if state is not None else None,
            "average": average,
        }
        self.watch = Watch(**self.options)  # a mistake is said where the job is made, not on the server
        self.trajectory = os.fspath(trajectory) if trajectory is not None else None
        plain = rules.to_json(self.watch.rule) if rule is not None else None
        # FLARE writes the job's configuration from the attributes named as the arguments
        self.__dict__.update({**self.options, "rule": plain})

    def add_to_fed_job(self, job: Any, ctx: Any) -> str:
        """FLARE's hook for a component that is added to a job. fedhalt is installed on the server, not sent along."""
        job.job.set_app_packages([*job.job.app_packages, "fedhalt"])
        return str(job.add_component("early_stopping", self, ctx))

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """FLARE logs an error in here and goes on; a run that nothing would stop must end instead."""
        try:
            if event_type == EventType.START_RUN:
                self._start(fl_ctx)
            elif event_type == EventType.END_RUN:
                self._end()
            elif isinstance(self._controller, ScatterAndGather):
                self._follow(self._controller, event_type, fl_ctx)
        except Exception as error:
            self.system_panic(f"fedhalt: {error}", fl_ctx)

    _controller: Any = None

    def _start(self, fl_ctx: FLContext) -> None:
        controllers = [workflow.controller for workflow in fl_ctx.get_prop(FLContextKey.RUNNER).config.workflows]
        found = [each for each in controllers if isinstance(each, (BaseFedAvg, ScatterAndGather))]
        if len(found) != 1:
            names = ", ".join(type(each).__name__ for each in controllers)
            raise FedhaltError(
                f"the job needs one workflow derived from BaseFedAvg or ScatterAndGather, it has {names}"
            )
        self._controller = found[0]
        self._folder = fl_ctx.get_engine().get_workspace().get_run_dir(fl_ctx.get_job_id())
        trajectory = os.path.join(self._folder, self.trajectory) if self.trajectory is not None else None
        options: Options = {**self.options, "trajectory": trajectory}
        self.watch = Watch(**options)
        if isinstance(self._controller, BaseFedAvg):
            self._wrap(self._controller)

    def _end(self) -> None:
        if self._controller is None:
            return
        self.watch.end()
        if self.watch.status is None:
            LOG.warning("fedhalt: no round was judged: run() of %s never called update_model", type(self._controller))
        if self.watch.averages:
            path = os.path.join(self._folder, AVERAGE)
            with open(path, "wb") as file:
                file.write(pack(dict(named(self.watch.model("average"))), {}))
            LOG.info("fedhalt: the mean of the last models is in %s", path)

    def _follow(self, controller: Any, event_type: str, fl_ctx: FLContext) -> None:
        """ScatterAndGather: its loop tests `_num_rounds` every round, and saves the model of the last one."""
        if event_type == AppEventType.TRAINING_STARTED:
            first, rounds = controller._start_round, controller._num_rounds
            self.watch.begin(_weights(fl_ctx), budget=first + rounds, done=first)
            if self.watch.stopped:
                controller._num_rounds = 0
        elif event_type == AppEventType.AFTER_SHAREABLE_TO_LEARNABLE:
            if self.watch.update(_weights(fl_ctx), round=controller._current_round + 1).stop:
                controller._num_rounds = controller._current_round + 1 - controller._start_round

    def _wrap(self, controller: Any) -> None:
        """A ModelController: `update_model` is observed; after a stop, nothing that reaches clients is called."""
        for name in REACH_CLIENTS:
            setattr(controller, name, self._guarded(controller, getattr(controller, name)))
        update, run = controller.update_model, controller.run

        @wraps(update)
        def observed(*args: Any, **kwargs: Any) -> FLModel:
            model = update(*args, **kwargs)
            self.watch.update(model.params, round=controller.current_round + 1, **_columns(model.metrics))
            return model

        @wraps(run)
        def until_halted() -> None:
            try:
                run()
            except Halt:
                controller.info(f"fedhalt: {self.watch.told}")

        controller.update_model, controller.run = observed, until_halted

    def _guarded(self, controller: Any, call: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(call)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            sent = [each for each in (*args, *kwargs.values()) if isinstance(each, FLModel)]
            if sent and self.watch.stopper is None:
                first, rounds = controller.start_round, controller.num_rounds
                self.watch.begin(sent[0].params, budget=first + rounds, done=first)
            if self.watch.stopped:
                raise Halt
            return call(*args, **kwargs)

        return guarded


def add_early_stopping(
    recipe: Any, threshold: float | None = None, patience: int | None = None, **options: Any
) -> None:
    """Adds `EarlyStopping` to a recipe, as FLARE's `add_experiment_tracking` adds trackers.

    Args:
        recipe: A recipe such as `FedAvgRecipe`, before it is executed.
        threshold: The threshold of the paper's rule. Default: 0.01.
        patience: For how many rounds in a row growth must stay below the threshold. Default: 10.
        **options: Further arguments of `EarlyStopping`.

    Raises:
        FedhaltError: If an option is out of range.
    """
    recipe._job.to_server(EarlyStopping(threshold, patience, **options))  # where FLARE's own functions of this kind add


def _weights(fl_ctx: FLContext) -> Any:
    return fl_ctx.get_prop(AppConstants.GLOBAL_MODEL)[ModelLearnableKey.WEIGHTS]


def _columns(metrics: Mapping[str, Any] | None) -> dict[str, float]:
    """The clients' aggregated metrics, as columns of the record."""
    numbers = {name: value for name, value in (metrics or {}).items() if isinstance(value, (int, float))}
    return {name if name.startswith("client_") else f"client_{name}": float(numbers[name]) for name in numbers}
