"""FedAvgM: Hsu, Qi and Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification", 2019.

    client:  as FedAvg
    server:  m <- beta m + mean dx;   x <- x + server_lr * m

A steady update adds up to 1 / (1 - beta) times its size: ten times with beta = 0.9. The publication takes the whole
step, server_lr = 1, and tunes the clients' learning rate for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .base import Facts
from .fedavg import FedAvg
from .replies import Replies
from .vector import Vectors


@dataclass(frozen=True)
class FedAvgM(FedAvg):
    """FedAvg with momentum at the server (Hsu, Qi and Brown 2019).

    Args:
        server_lr: The server's step along its momentum.
        beta: The share of the momentum that is left after a round, below 1; with 0 it is FedAvg.

    Raises:
        FedhaltError: If a hyperparameter is out of range.

    Examples:
        >>> from fedhalt.methods import FedAvgM
        >>> FedAvgM(server_lr=0.1)
        FedAvgM(server_lr=0.1, beta=0.9)
    """

    beta: float = 0.9
    facts: ClassVar[Facts] = Facts("FedAvgM", "Hsu et al. 2019", phi=("beta",), half="server")

    def server_init(self, x: Tensor) -> Vectors:
        return {"x": x, "m": torch.zeros_like(x)}

    def server(self, up: Replies, x: Tensor, m: Tensor) -> Vectors:
        m = self.beta * m + up.mean("dx")
        return {"x": x + self.server_lr * m, "m": m}
