"""keras: a Callback that ends training and fine-tuning, and averages the last models, on every backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Unpack

from .seam import FurtherOptions, require
from .training import TrainingWatch, columns_of

require("keras", "keras", "3.15", "3.15")

import keras  # noqa: E402

__all__ = ["EarlyStopping"]


class EarlyStopping(keras.callbacks.Callback):
    """Ends training when the distance of the model from its start grows no more.

    With `state="folder"` the stopper is saved after every round. The model itself is restored by `BackupAndRestore` of
    keras, which must come after this callback in the list.

    Args:
        threshold: The threshold of the paper's rule. Default: 0.01.
        patience: For how many rounds in a row growth must stay below the threshold. Default: 10.
        every: What a round is: "epoch" (default), or a number of optimizer steps.
        load_average: Whether to put the averaged weights into the model when training ends. Default: False.
        **options: See `fedhalt.integrations.seam.Options`.

    Raises:
        FedhaltError: If an option is out of range.

    Examples:
        >>> from fedhalt.integrations.keras import EarlyStopping
        >>> stopping = EarlyStopping(threshold=0.01, patience=3, average=5)
        >>> stopping.status is None  # then: model.fit(x, y, epochs=100, callbacks=[stopping])
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
        super().__init__()
        self.watch = TrainingWatch("", every, load_average, threshold=threshold, patience=patience, **options)
        self._begins = False
        self._steps = 0
        """Steps before this epoch."""
        self._result: list[Any] | None = None

    @property
    def status(self) -> Any:
        """The verdict on the last round, None before the first."""
        return self.watch.status

    def averaged_weights(self) -> list[Any]:
        """The mean of the last models.

        Returns:
            Arrays for `model.set_weights`.

        Raises:
            FedhaltError: If no average is kept, or there was no round yet.
        """
        weights = {variable.path: keras.ops.convert_to_numpy(variable) for variable in self.model.weights}
        return list(self.watch.model("average", like=weights).values())

    def on_train_begin(self, logs: Any = None) -> None:
        self._begins, self._result = True, None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """The weights before the first epoch are the start. Only here keras says how many epochs it has restored."""
        self._steps = int(self.model.optimizer.iterations)
        if self._begins:
            self._begins = False
            epochs, steps = self.params["epochs"], self.params["steps"] or 0
            planned = self.watch.planned(epochs, epochs * steps)
            self.watch.begin(Weights(self.model), planned, done=self.watch.reached(epoch, self._steps))
            if self.watch.stopped:
                # keras asks no callback before it has trained a batch, which is undone
                self._result = self.model.get_weights()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Looks at the model, if a round is a number of steps."""
        if self._result is not None:
            self.model.set_weights(self._result)
            self.model.stop_training = True
        if self.watch.due(step=self._steps + batch + 1):
            self._look({}, step=self._steps + batch + 1)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Looks at the model, if a round is an epoch."""
        self._look(columns_of(logs or {}), epoch=epoch + 1)

    def _look(self, columns: dict[str, float], **place: int) -> None:
        if self.watch.look(Weights(self.model), columns, **place):
            self.model.stop_training = True

    def on_train_end(self, logs: Any = None) -> None:
        """Puts the average into the model, if that was asked for."""
        self.watch.end()
        if self.watch.loads and self.watch.averages:
            self.model.set_weights(self.averaged_weights())


class Weights:
    """A keras model as torch would name it: what is trained counts for the distance, the rest for the average too."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        return ((variable.path, variable.value) for variable in self.model.trainable_variables)

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        return ((variable.path, variable.value) for variable in self.model.non_trainable_variables)
