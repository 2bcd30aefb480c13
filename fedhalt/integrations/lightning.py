"""lightning: a Callback that ends training and fine-tuning, and averages the last models.

The stopper is part of every checkpoint of the Trainer, and resumes from there.
"""

from __future__ import annotations

import math
from typing import Any, Unpack

from ..errors import FedhaltError
from .seam import FurtherOptions, require
from .training import TrainingWatch, columns_of, refuse_state

require("lightning", "lightning", "2.6", "2.6")

from lightning.pytorch import Callback, LightningModule, Trainer  # noqa: E402
from lightning.pytorch.strategies import DeepSpeedStrategy, FSDPStrategy  # noqa: E402

from .torch import load_average, packed, unpack  # noqa: E402

__all__ = ["EarlyStopping"]


class EarlyStopping(Callback):
    """Ends training when the distance of the model from its start grows no more.

    Args:
        threshold: The threshold of the paper's rule. Default: 0.01.
        patience: For how many rounds in a row growth must stay below the threshold. Default: 10.
        every: What a round is: "epoch" (default), or a number of optimizer steps.
        load_average: Whether to put the averaged model into the model when training ends. Default: False.
        **options: See `fedhalt.integrations.seam.Options`; without `state`.

    Raises:
        FedhaltError: If an option is out of range.

    Examples:
        >>> from fedhalt.integrations.lightning import EarlyStopping
        >>> stopping = EarlyStopping(threshold=0.01, patience=3, average=5)
        >>> stopping.status is None  # then: Trainer(callbacks=[stopping]).fit(model, batches)
        True
    """

    def __init__(
        self,
        threshold: float | None = None,
        patience: int | None = None,
        *,
        every: int | str = "epoch",
        load_average: bool = False,
        **options: Unpack[FurtherOptions],
    ) -> None:
        refuse_state(options, "the Trainer's checkpoints")
        self.watch = TrainingWatch(
            "lightning.pytorch", every, load_average, threshold=threshold, patience=patience, **options
        )
        self._model: LightningModule | None = None

    @property
    def status(self) -> Any:
        """The verdict on the last round, None before the first."""
        return self.watch.status

    def averaged_model(self) -> LightningModule:
        """A copy of the module with the mean of the last models in it.

        Returns:
            A new module; the one in training stays as it is.

        Raises:
            FedhaltError: If no average is kept, or there was no round yet.
        """
        model: LightningModule = self.watch.model("average", like=self._model)
        return model

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The weights are the start; a resumed run continues from its checkpoint."""
        if isinstance(trainer.strategy, (DeepSpeedStrategy, FSDPStrategy)):
            raise FedhaltError(
                f"with {type(trainer.strategy).__name__} every process holds a part of the model only: give "
                "EarlyStopper().observe(distance) the shards' squared_distance yourself"
            )
        self._model = pl_module
        if not trainer.is_global_zero:
            self.watch.keep_no_record()
        if trainer.global_step == 0:
            steps = trainer.estimated_stepping_batches
            planned = self.watch.planned(trainer.max_epochs or 0, int(steps) if math.isfinite(steps) else 0)
            self.watch.begin(pl_module, planned)
        elif self.watch.stopper is None:
            raise FedhaltError(
                f"the checkpoint at step {trainer.global_step} holds no stopper: resume one that was written with it, "
                "or begin a new training from its weights"
            )
        # a checkpoint at the last step of an epoch is written before the epoch ends
        trainer.should_stop |= self.watch.look(pl_module, epoch=trainer.current_epoch, step=trainer.global_step)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *args: Any) -> None:
        """Looks at the model, if a round is a number of steps."""
        self._look(trainer, pl_module, step=trainer.global_step)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Looks at the model, if a round is an epoch."""
        self._look(trainer, pl_module, epoch=trainer.current_epoch + 1)

    def _look(self, trainer: Trainer, pl_module: LightningModule, **place: int) -> None:
        if self.watch.due(**place):
            trainer.should_stop |= self.watch.look(pl_module, columns_of(trainer.callback_metrics), **place)
            self.log_dict(self.watch.metrics)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Puts the average into the module, if that was asked for."""
        if self.watch.loads and self.watch.averages:
            load_average(self.watch, pl_module)

    def state_dict(self) -> dict[str, Any]:
        """The stopper, for the Trainer's checkpoint."""
        return packed(self.watch) if self.watch.stopper is not None else {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from the Trainer's checkpoint."""
        unpack(self.watch, state_dict)
