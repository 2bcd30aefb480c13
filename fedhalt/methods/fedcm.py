"""FedCM: Xu et al., "FedCM: Federated Learning with Client-level Momentum", 2021.

    client:  y <- y - lr * (alpha * grad f_i(y) + (1 - alpha) * m);   dx = y - x;   g = -dx / (S_K(mu) * lr)
    server:  m <- mean g;   x <- x + server_lr * mean dx

With alpha = 1 this is FedAvg.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .base import Facts
from .fedavg import FedAvg
from .local import Local
from .replies import Replies
from .vector import Vectors


@dataclass(frozen=True)
class FedCM(FedAvg):
    """FedAvg with the server's momentum inside the clients (Xu et al. 2021).

    Args:
        server_lr: The server's step along the mean update.
        alpha: The share of the client's own gradient.

    Raises:
        FedhaltError: If a hyperparameter is out of range.

    Examples:
        >>> from fedhalt.methods import FedCM
        >>> FedCM(alpha=0.1)
        FedCM(server_lr=1.0, alpha=0.1)
    """

    alpha: float = 0.1
    down: ClassVar[tuple[str, ...]] = ("x", "m")
    facts: ClassVar[Facts] = Facts(
        "FedCM", "Xu et al. 2021", phi=("alpha",), half="client", down=2, up=2, sgd_only=True
    )

    def server_init(self, x: Tensor) -> Vectors:
        return {"x": x, "m": torch.zeros_like(x)}

    def client(self, local: Local, x: Tensor, m: Tensor) -> tuple[Vectors, Vectors]:
        y = x
        for grad in local:
            y = local.step(y, self.alpha * self.gradient(grad, y) + (1 - self.alpha) * m)
        dx = y - x
        return {"dx": dx, "g": local.mean_gradient(dx)}, {}

    def server(self, up: Replies, x: Tensor, m: Tensor) -> Vectors:
        return {**super().server(up, x), "m": up.mean("g")}
