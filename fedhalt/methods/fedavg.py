"""FedAvg: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017.

    client:  y <- x;  repeat  y <- y - lr * grad f_i(y);   send  dx = y - x
    server:  x <- x + server_lr * mean dx

The mean is uniform over the cohort, as in the paper's F = 1/N sum F_n. The engine can weight by samples instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from .base import Checked, Facts
from .local import Local
from .replies import Replies
from .vector import Gradient, Vectors


@dataclass(frozen=True)
class FedAvg(Checked):
    """Federated averaging (McMahan et al. 2017), and the base of all other methods.

    Args:
        server_lr: The server's step along the mean update (1 in the paper).

    Raises:
        FedhaltError: If a hyperparameter is out of range.

    Examples:
        >>> from fedhalt.methods import FedAvg
        >>> from fedhalt.simulation import toy
        >>> task = toy.Quadratics(A=[[1.0], [1.0]], b=[[1.0], [3.0]], start=[0.0])
        >>> round(float(toy.run(FedAvg(), task, 50)), 6)
        2.0
    """

    server_lr: float = 1.0
    down: ClassVar[tuple[str, ...]] = ("x",)
    facts: ClassVar[Facts] = Facts("FedAvg", "McMahan et al. 2017")

    def server_init(self, x: Tensor) -> Vectors:
        return {"x": x}

    def client_init(self, x: Tensor) -> Vectors:
        return {}

    def gradient(self, grad: Gradient, w: Tensor) -> Tensor:
        """The gradient for a local step: here at w. The SAM methods override this line."""
        return grad(w)

    def client(self, local: Local, x: Tensor) -> tuple[Vectors, Vectors]:
        y = x
        for grad in local:
            y = local.step(y, self.gradient(grad, y))
        return {"dx": y - x}, {}

    def server(self, up: Replies, x: Tensor) -> Vectors:
        return {"x": x + self.server_lr * up.mean("dx")}
