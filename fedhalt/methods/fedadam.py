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

from ..replies import Replies
from ..vector import Vectors
from .base import Facts
from .fedavg import FedAvg


@dataclass(frozen=True)
class FedAdam(FedAvg):
    """beta1, beta2: of the two moments; tau: the degree of adaptivity."""

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
