"""pfl: a callback that ends a simulated or live federation, and reports what the model does as metrics.

With `RestoreTrainingCallback`, the callback is one of the saveables: pfl saves and restores it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

from ..errors import FedhaltError
from ..stopper import STATE
from .host import LOG
from .seam import FurtherOptions, require
from .training import TrainingWatch, columns_of, refuse_state

require("pfl", "pfl", "0.6", "0.6")

from pfl.callback.base import TrainingProcessCallback  # noqa: E402
from pfl.common_types import Saveable  # noqa: E402
from pfl.exception import CheckpointNotFoundError  # noqa: E402
from pfl.metrics import Metrics, StringMetricName, get_overall_value  # noqa: E402
from pfl.model.base import StatefulModel  # noqa: E402

__all__ = ["EarlyStopping"]


class EarlyStopping(TrainingProcessCallback, Saveable):
    """Ends a pfl run when the distance of the central model from its start grows no more.

    Args:
        threshold: The threshold of the paper's rule. Default: 0.01.
        patience: For how many rounds in a row growth must stay below the threshold. Default: 10.
        load_average: Whether to put the averaged model into the model when training ends. Default: False.
        **options: See `fedhalt.integrations.seam.Options`; without `state`.

    Raises:
        FedhaltError: If an option is out of range.

    Examples:
        >>> from fedhalt.integrations.pfl import EarlyStopping
        >>> stopping = EarlyStopping(threshold=0.01, patience=10, average=10)
        >>> stopping.status is None  # then: algorithm.run(…, callbacks=[stopping])
        True
    """

    def __init__(
        self,
        threshold: float | None = None,
        patience: int | None = None,
        *,
        load_average: bool = False,
        **options: Unpack[FurtherOptions],
    ) -> None:
        refuse_state(options, "the checkpoints of pfl's RestoreTrainingCallback")
        self.watch = TrainingWatch("", "epoch", load_average, threshold=threshold, patience=patience, **options)
        self._start: Any = None
        self._parameters: Any = None

    @property
    def status(self) -> Any:
        """The verdict on the last central iteration, None before the first."""
        return self.watch.status

    def averaged_parameters(self) -> Any:
        """The mean of the last central models.

        Returns:
            Parameters for `model.set_parameters`.

        Raises:
            FedhaltError: If no average is kept, or there was no round yet.
        """
        mean = self.watch.model("average", like=dict(self._parameters.items()))
        return type(self._parameters)(mean)

    def on_train_begin(self, *, model: Any) -> Metrics:
        """Keeps the start, which a checkpoint may replace."""
        if not isinstance(model, StatefulModel):
            raise FedhaltError(f"{type(model).__name__} has no parameters with a distance: use a StatefulModel")
        self._start, self._parameters = model.get_parameters(), None
        self.watch.forget()
        return Metrics()

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: Any, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """Judges the new central model; the verdict and the numbers are what pfl is told."""
        if self.watch.stopper is None:
            self.watch.begin(dict(self._start.items()))
        self._parameters = model.get_parameters(self._parameters)
        metrics = {str(name): get_overall_value(value) for name, value in aggregate_metrics}
        # pfl repeats an iteration number, or leaves some out, after a kill: what counts is that the model has changed
        r = self.watch.begun.round + 1
        stop = self.watch.look(dict(self._parameters.items()), columns_of(metrics), epoch=r)
        return stop, Metrics([(StringMetricName(name), value) for name, value in self.watch.metrics.items()])

    def on_train_end(self, *, model: Any) -> None:
        """Puts the average into the model, if that was asked for."""
        if self.watch.loads and self.watch.averages:
            model.set_parameters(self.averaged_parameters())

    def save(self, dir_path: str) -> None:
        """Saves the stopper for `RestoreTrainingCallback`."""
        if self._parameters is None:
            raise FedhaltError(
                "RestoreTrainingCallback saves before EarlyStopping has seen the round: list EarlyStopping first, "
                "callbacks=[stopping, RestoreTrainingCallback([stopping, model, algorithm], …)]"
            )
        self.watch.save_in(Path(dir_path) / "fedhalt")

    def load(self, dir_path: str) -> None:
        """Goes on from what `save` wrote."""
        folder = Path(dir_path) / "fedhalt"
        if not (folder / STATE).exists():
            raise CheckpointNotFoundError(str(folder))
        self.watch.load_from(folder)
        if self.watch.stopped:
            LOG.warning("fedhalt: this run %s; pfl trains one more iteration before it asks", self.watch.told)
