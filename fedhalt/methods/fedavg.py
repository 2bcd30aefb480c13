"""FedAvg: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017.

    client:  y <- x;  repeat  y <- y - lr * grad f_i(y);   send  dx = y - x
    server:  x <- x + server_lr * mean dx

The mean is uniform over the cohort, as in the paper's F = 1/N sum F_n; weights by samples are the engine's choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..local import Local
from ..replies import Replies
from ..vector import Gradient, Vectors
from .base import Checked, Facts


@dataclass(frozen=True)
class FedAvg(Checked):
    """server_lr: the server's step along the mean update (1 in the paper)."""

    server_lr: float = 1.0
    down: ClassVar[tuple[str, ...]] = ("x",)
    facts: ClassVar[Facts] = Facts("FedAvg", "McMahan et al. 2017")

    def server_init(self, x: Tensor) -> Vectors:
        return {"x": x}

    def client_init(self, x: Tensor) -> Vectors:
        return {}

    def gradient(self, grad: Gradient, w: Tensor) -> Tensor:
        """The point at which the gradient is taken: here w; SAM's methods differ in this line only."""
        return grad(w)

    def client(self, local: Local, x: Tensor) -> tuple[Vectors, Vectors]:
        y = x
        for grad in local:
            y = local.step(y, self.gradient(grad, y))
        return {"dx": y - x}, {}

    def server(self, up: Replies, x: Tensor) -> Vectors:
        return {"x": x + self.server_lr * up.mean("dx")}
