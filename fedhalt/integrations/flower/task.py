"""What a node trains: a torch module and your own batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ...errors import FedhaltError, positive, whole
from ...methods.local import Local
from ...methods.vector import Gradient, Vectors
from ...simulation.federation import noting
from ...simulation.model import Model


class ClientTask(Protocol):
    """What a node trains; `fedhalt.simulation.federation.Federation` is one, `ModuleTask` another."""

    @property
    def model(self) -> Model:
        """Names, shapes and order of the parameters."""

    def samples(self, client: int) -> int:
        """How many training samples the client holds."""

    def visit(self, client: int, r: int, shared: Vectors) -> Local:
        """One visit to the client in round r."""


class ModuleTask:
    """A torch module with your own batches.

    Args:
        module: The module. Running statistics (BatchNorm) are averaged.
        batches: The batches, such as a DataLoader.
        loss: Called with the module and a batch; returns a scalar tensor.
        samples: The number of training samples.
        lr: The learning rate, or a function of the round.
        momentum: The momentum of SGD.
        weight_decay: The weight decay.
        clip: The norm that a local step is clipped to.
        epochs: How often the batches are used per visit.
        buffers: What to do with running statistics: "average", "frozen" or "refuse".
        device: The torch device.

    Raises:
        FedhaltError: If a setting is out of range, or the batches last for one epoch only.

    Examples:
        >>> import torch
        >>> from fedhalt.integrations.flower import ModuleTask
        >>> data = [(torch.randn(16, 4), torch.zeros(16, dtype=torch.long))]
        >>> def loss(module, batch):
        ...     return torch.nn.functional.cross_entropy(module(batch[0]), batch[1])
        >>> ModuleTask(torch.nn.Linear(4, 2), data, loss, samples=16, lr=0.05).samples(0)
        16
    """

    def __init__(
        self,
        module: nn.Module,
        batches: Iterable[Any],
        loss: Callable[[nn.Module, Any], Tensor],
        samples: int,
        *,
        lr: float | Callable[[int], float],
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        clip: float | None = None,
        epochs: int = 1,
        buffers: str = "average",
        device: str = "cpu",
    ) -> None:
        whole("epochs", epochs)
        if epochs > 1 and iter(batches) is batches:
            raise FedhaltError(f"epochs={epochs}, but batches lasts for one: give a list or a DataLoader")
        if not callable(lr):
            positive("lr", lr)
        whole("samples", samples, least=0)
        self.model = Model(module, buffers, device=device)
        self._batches, self._loss, self._samples, self._epochs = batches, loss, samples, epochs
        self._lr = lr if callable(lr) else lambda r: lr
        self._local = partial(
            Local, optimizer=partial(torch.optim.SGD, momentum=momentum), weight_decay=weight_decay, clip=clip
        )

    def samples(self, client: int) -> int:
        return self._samples

    def visit(self, client: int, r: int, shared: Vectors) -> Local:
        self.model.set_buffers(shared.get("buffers"))
        losses: list[Tensor] = []
        return self._local(
            self._gradients(losses),
            self._lr(r),
            shared=self._statistics,
            losses=lambda: tuple(map(float, losses)),
        )

    def _statistics(self) -> Vectors:
        buffers = self.model.buffers()
        return {} if buffers is None else {"buffers": buffers}

    def _gradients(self, losses: list[Tensor]) -> Iterator[Gradient]:
        """The minibatches of a visit, with the loss of each noted."""
        for _ in range(self._epochs):
            for batch in self._batches:
                yield noting(partial(self._gradient, batch=batch), self.model, losses)

    def _gradient(self, w: Tensor, batch: Any) -> Tensor:
        return self.model.gradient_of(w, lambda module: self._loss(module, batch))
