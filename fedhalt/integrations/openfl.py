"""Stops an OpenFL federation (Task Runner API): one template in plan.yaml, `fedhalt.integrations.openfl.Aggregator`.

OpenFL 1.9 reads no callbacks from a plan and a callback cannot reach the aggregator, but the plan names the
aggregator's class. Its loop tests `rounds_to_train` whenever a collaborator asks for tasks, so a stop lowers it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .host import LOG
from .seam import Options, Watch, require

require("openfl", "openfl", "1.9", "1.9")

from openfl.component.aggregator.aggregator import Aggregator as OpenFLAggregator  # noqa: E402
from openfl.protocols import utils  # noqa: E402

__all__ = ["Aggregator"]


class Aggregator(OpenFLAggregator):  # type: ignore[misc]
    """OpenFL's aggregator, which ends the experiment when the rule says so.

    A round is judged before OpenFL saves it. Its model, after the aggregation, is then in `last_state_path`, where
    OpenFL by itself keeps the model from before the round's aggregation. The mean of the last models is written beside
    it, as `average.pbuf`. A killed aggregator that is started again resumes from OpenFL's `persist_checkpoint` and from
    `state`.

    Args:
        early_stopping: The options that every adapter takes, such as `{"threshold": 0.01, "patience": 10}`. A rule is
            given as what `fedhalt.rules.to_json` makes of it: `{"rule": {"type": "ForwardGrowth", "threshold": 0.01}}`.
        **settings: The settings of OpenFL's aggregator.

    Raises:
        FedhaltError: If an option is out of range.
    """

    rounds_to_train: int

    def __init__(self, early_stopping: Mapping[str, Any] | None = None, **settings: Any) -> None:
        options: Options = {**(early_stopping or {})}  # type: ignore[typeddict-item]
        self.watch = Watch("openfl", **options)
        self._metrics: dict[str, float] = {}
        super().__init__(**settings)
        first = self.round_number
        planned: int = self.rounds_to_train
        self.watch.begin(self._model_of(first), budget=planned, done=first)
        if self.watch.stopped:
            self.rounds_to_train = first

    def _model_of(self, r: int) -> dict[str, Any]:
        """The global model after r rounds. Optimizer state that collaborators send along is not part of it."""
        names = utils.deconstruct_model_proto(self.model, compression_pipeline=self.compression_pipeline)[0]
        found = self.tensor_db.get_tensors_by_round_and_tags(r, ("model",))
        return {key.tensor_name: array for key, array in found.items() if key.tensor_name in names}

    def _compute_validation_related_task_metrics(self, task_name: str) -> dict[str, Any]:
        found: dict[str, Any] = super()._compute_validation_related_task_metrics(task_name)
        self._metrics |= {f"client_{name.rsplit('/', 1)[-1]}_{task_name}": float(found[name]) for name in found}
        return found

    def _save_model(self, round_number: int, file_path: str) -> None:
        """OpenFL saves the round that is over: it must be judged by then, so that a kill loses no verdict."""
        if file_path != self.last_state_path:
            super()._save_model(round_number, file_path)
            return
        model = self._model_of(round_number + 1)
        status = self.watch.update(model, round=round_number + 1, **self._metrics)
        super()._save_model(round_number, file_path)
        if status.stop:
            self.rounds_to_train = round_number + 1
        if round_number + 1 >= self.rounds_to_train:
            self._ship(model, round_number + 1)

    def _ship(self, model: dict[str, Any], r: int) -> None:
        """The last model as it is after the last aggregation, and the average."""
        self.watch.end()
        shipped = {self.last_state_path: model}
        if self.watch.averages:
            path = os.path.join(os.path.dirname(self.last_state_path), "average.pbuf")
            shipped[path] = self.watch.model("average", like=model)
            LOG.info("fedhalt: the mean of the last models is in %s", path)
        for path, arrays in shipped.items():
            utils.dump_proto(utils.construct_model_proto(arrays, r, self.compression_pipeline), path)
