"""Plain torch: stops your own training loop, and averages its last models.

The stopper belongs into your checkpoints, beside model and optimizer: `state_dict()` and `load_state_dict()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from ..errors import FedhaltError, whole
from .seam import FurtherOptions, require
from .training import TrainingWatch, columns_of, refuse_state

require("torch", "torch", "2.3", "2.15")

import torch  # noqa: E402

__all__ = ["EarlyStopping"]


class EarlyStopping:
    """Ends a training loop when the distance of the model from its start grows no more.

    Args:
        model: The module, as it is before the first step: pretrained weights or random ones.
        threshold: The threshold of the paper's rule. Default: 0.01.
        patience: For how many rounds in a row growth must stay below the threshold. Default: 10.
        every: A round is every so many calls of `step`. Default: 1.
        **options: See `fedhalt.integrations.seam.Options`; without `state`.

    Raises:
        FedhaltError: If `model` is not a module, or an option is out of range.

    Examples:
        >>> import torch
        >>> from fedhalt.integrations.torch import EarlyStopping
        >>> model = torch.nn.Linear(2, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        >>> stopping = EarlyStopping(model, threshold=0.01, patience=3, average=5)
        >>> for epoch in range(100):
        ...     loss = ((model(torch.eye(2)) - 1) ** 2).mean()
        ...     optimizer.zero_grad(); loss.backward(); optimizer.step()
        ...     if stopping.step(loss=loss.item()):
        ...         break
        >>> stopping.status.reason, type(stopping.averaged_model()).__name__
        ('saturated', 'Linear')
    """

    def __init__(
        self,
        model: torch.nn.Module,
        threshold: float | None = None,
        patience: int | None = None,
        *,
        every: int = 1,
        **options: Unpack[FurtherOptions],
    ) -> None:
        if not isinstance(model, torch.nn.Module):
            raise FedhaltError(f"the first argument is the torch module to watch, not {model!r:.60}")
        refuse_state(options, "your checkpoints (state_dict) can")
        self.watch = TrainingWatch("", whole("every", every), False, threshold=threshold, patience=patience, **options)
        self.model = model
        self.steps = 0
        """How often `step` was called."""
        self._start: dict[str, torch.Tensor] | None = {
            name: tensor.detach().clone() for name, tensor in model.named_parameters()
        }

    @property
    def status(self) -> Any:
        """The verdict on the last round, None before the first."""
        return self.watch.status

    def step(self, **metrics: Any) -> bool:
        """Looks at the model after an epoch or an optimizer step.

        Args:
            **metrics: Numbers to record, such as `val_loss=0.31`. Rules can read them.

        Returns:
            Whether to leave the loop.
        """
        if self._start is not None:  # not before: a checkpoint may follow
            self.watch.begin(self._start)
            self._start = None
        self.steps += 1
        return self.watch.look(self.model, columns_of(metrics), step=self.steps)

    def averaged_model(self) -> torch.nn.Module:
        """A copy of the module with the mean of the last models in it.

        Returns:
            A new module; the one in training stays as it is.

        Raises:
            FedhaltError: If no average is kept, or there was no round yet.
        """
        model: torch.nn.Module = self.watch.model("average", like=self.model)
        return model

    def load_average(self) -> None:
        """Puts the mean of the last models into the module itself.

        Raises:
            FedhaltError: If no average is kept, or there was no round yet.
        """
        load_average(self.watch, self.model)

    def state_dict(self) -> dict[str, Any]:
        """The stopper for a checkpoint: the start, the rule's state, the average.

        Returns:
            Tensors and numbers, which `torch.load(…, weights_only=True)` reads.
        """
        return {"steps": self.steps, **packed(self.watch)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from a checkpoint.

        Args:
            state: What `state_dict` returned.

        Raises:
            FedhaltError: If it was saved with another rule or other options, or is damaged.
        """
        unpack(self.watch, state)
        self.steps, self._start = int(state["steps"]), None


def load_average(watch: TrainingWatch, model: torch.nn.Module) -> None:
    """Puts the average into a module, in place: parameters, and buffers such as BatchNorm's statistics."""
    tensors = dict([*model.named_parameters(), *model.named_buffers()])
    averaged = watch.model("average", like=tensors)
    with torch.no_grad():
        for name, tensor in tensors.items():
            tensor.copy_(averaged[name])


def packed(watch: TrainingWatch) -> dict[str, Any]:
    """The stopper's state as tensors, which a checkpoint can hold and `weights_only=True` reads."""
    return {"fedhalt": {name: torch.tensor(bytearray(data), dtype=torch.uint8) for name, data in watch.pack().items()}}


def unpack(watch: TrainingWatch, state: Mapping[str, Any]) -> None:
    """Goes on from what `packed` returned."""
    if "fedhalt" not in state:
        raise FedhaltError(f"this is not the state of a stopper: it holds {', '.join(map(str, state)) or 'nothing'}")
    watch.unpack({name: data.cpu().numpy().tobytes() for name, data in state["fedhalt"].items()})
