"""One visit to one client: its minibatch gradients and its local optimizer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

import torch
from torch import Tensor

from ..errors import FedhaltError, positive
from .vector import Gradient, Vectors

Optimizer = Callable[..., torch.optim.Optimizer]
"""Makes a torch optimizer: `optimizer([parameter], lr=…)`."""

SGD: Optimizer = partial(torch.optim.SGD, momentum=0.9)
"""The paper's local optimizer with the authors' momentum; its buffer lives for one visit."""


def step_weight(steps: int, momentum: float) -> float:
    """S_K(mu), the total weight that K heavy-ball steps from an empty buffer give to their gradients.

    Under a constant gradient g the update is -lr * S_K(mu) * g, so dividing an update by
    `S_K(mu) * lr` gives the mean gradient back; dividing by `K * lr` does so without momentum only.

    >>> step_weight(5, 0.0), round(step_weight(5, 0.9), 3), round(step_weight(20, 0.9), 2)
    (5.0, 13.144, 120.94)
    """
    return (steps - momentum * (1 - momentum**steps) / (1 - momentum)) / (1 - momentum)


def heavy_ball(optimizer: torch.optim.Optimizer) -> float | None:
    """The momentum of plain or heavy-ball SGD; None for any other optimizer."""
    settings = optimizer.defaults
    others = ("dampening", "nesterov", "weight_decay", "maximize", "differentiable")
    plain = type(optimizer) is torch.optim.SGD and not any(settings.get(name) for name in others)
    return float(settings["momentum"]) if plain else None


class Local:
    """What a client half receives: iterate for the minibatch gradients, `step` along a direction.

    One step is: clip the direction to the norm `clip`, add weight decay at w, let the optimizer
    move. The optimizer is any torch optimizer on one flat parameter, new for every visit.
    """

    def __init__(
        self,
        batches: Iterable[Gradient],
        lr: float,
        *,
        optimizer: Optimizer = SGD,
        weight_decay: float = 0.0,
        clip: float | None = None,
        shared: Callable[[], Vectors] = dict,
        losses: Callable[[], tuple[float, ...]] = tuple,
    ) -> None:
        self.lr = positive("lr", lr)
        self.weight_decay = weight_decay
        self.clip = None if clip is None else positive("clip", clip)
        self.steps = 0
        self._over: int | Tensor = 0
        self.shared = shared
        """What the model has besides parameters after the visit (running statistics), to be averaged."""
        self.losses = losses
        """The training losses on the minibatches that were noted, after the visit; in our engine, first and last."""
        self._batches = batches
        self._normaliser: float | None = None
        self._make = partial(optimizer, lr=lr)
        self._flat = torch.nn.Parameter(torch.empty(0))
        self._optimizer = self._make([self._flat])
        self._momentum = heavy_ball(self._optimizer)
        self._velocity: Tensor | None = None

    def __iter__(self) -> Iterator[Gradient]:
        return iter(self._batches)

    def step(self, w: Tensor, direction: Tensor) -> Tensor:
        """The parameters after one step from w; w itself stays as it is."""
        if self.clip is not None:
            direction = self._clip(direction, self.clip)
        if self.weight_decay:
            direction = (self.weight_decay * w).add_(direction)
        self.steps += 1
        if self._momentum is None:
            if self.steps == 1:  # on the device of w, which nobody knew before
                self._flat = torch.nn.Parameter(torch.empty_like(w))
                self._optimizer = self._make([self._flat])
            self._flat.data = w.clone()
            self._flat.grad = direction
            self._optimizer.step()
            return self._flat.data
        if self._momentum:  # torch's SGD by hand, to the same bits: calling it takes longer than a small model's step
            old = self._velocity
            self._velocity = direction.clone() if old is None else old.mul_(self._momentum).add_(direction)
            direction = self._velocity
        return w.add(direction, alpha=-self._optimizer.param_groups[0]["lr"])

    def _clip(self, direction: Tensor, most: float) -> Tensor:
        """The direction, no longer than `most`; only where the norm lies in this memory it is looked at first."""
        norm = torch.linalg.vector_norm(direction)
        if norm.is_cpu and float(norm.numpy()) < 0.99 * most:  # saves a pass; a GPU would be waited for
            return direction
        scale = most / (norm + 1e-6)
        over = scale < 1
        self._over = self._over + over
        return torch.where(over, direction * scale, direction)

    @property
    def clipped(self) -> int:
        """How many steps were clipped."""
        return int(self._over)

    def mean_gradient(self, dx: Tensor) -> Tensor:
        """The mean direction behind the update dx: -dx / (S_K(mu) * lr), with this client's own steps."""
        if self.steps == 0:
            raise FedhaltError("a visit without a single step has no mean gradient; leave clients without data out")
        weight = self._normaliser
        if weight is None:
            weight = step_weight(self.steps, self.require_linear("this method"))
        return -dx / (weight * self.lr)

    def require_linear(self, method: str) -> float:
        """The momentum of plain or heavy-ball SGD; any other optimizer's updates are no sum of gradients."""
        if self._momentum is not None:
            return self._momentum
        raise FedhaltError(
            f"{method} turns an update back into a mean gradient, which only plain or heavy-ball SGD allows, "
            f"not {type(self._optimizer).__name__}; use SGD or a method such as fedavg, fedprox or fedsam"
        )

    def deviating(self, *, more_decay: float = 0.0, normaliser: float | None = None) -> Local:
        """This visit with other arithmetic; only `compat="authors"` needs it."""
        self.weight_decay += more_decay
        self._normaliser = normaliser
        return self
