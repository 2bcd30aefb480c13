"""FedAdam: Reddi et al., "Adaptive Federated Optimization", ICLR 2021.

    client:  as FedAvg
    server:  D = mean dx;   m <- beta1 m + (1 - beta1) D;   v <- beta2 v + (1 - beta2) D^2
             x <- x + server_lr * m / (sqrt(v) + tau)

No bias correction, v starts at 0. server_lr = 1 is usually too large.
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
class FedAdam(FedAvg):
    """FedAvg with Adam at the server (Reddi et al. 2021).

    Args:
        server_lr: The server's learning rate; 1 is usually too large.
        beta1: The decay of the first moment.
        beta2: The decay of the second moment.
        tau: The degree of adaptivity.

    Raises:
        FedhaltError: If a hyperparameter is out of range.

    Examples:
        >>> from fedhalt.methods import FedAdam
        >>> FedAdam(server_lr=0.01)
        FedAdam(server_lr=0.01, beta1=0.9, beta2=0.99, tau=0.01)
    """

    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 0.01
    facts: ClassVar[Facts] = Facts("FedAdam", "Reddi et al. 2021", phi=("server_lr",), half="server")

    def server_init(self, x: Tensor) -> Vectors:
        return {"x": x, "m": torch.zeros_like(x), "v": torch.zeros_like(x)}

    def server(self, up: Replies, x: Tensor, m: Tensor, v: Tensor) -> Vectors:
        D = up.mean("dx")
        m = self.beta1 * m + (1 - self.beta1) * D
        v = self.beta2 * v + (1 - self.beta2) * D**2
        return {"x": x + self.server_lr * m / (v.sqrt() + self.tau), "m": m, "v": v}
