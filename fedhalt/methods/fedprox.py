"""FedProx: Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020.

    client:  y <- y - lr * (grad f_i(y) + lam * (y - x))
    server:  as FedAvg

The proximal term (published as mu) is whole and before the clip: at y = x its force is exactly zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..local import Local
from ..vector import Vectors
from .base import Facts
from .fedavg import FedAvg


@dataclass(frozen=True)
class FedProx(FedAvg):
    """lam: the strength of the pull back to x."""

    lam: float = 1e-3
    facts: ClassVar[Facts] = Facts("FedProx", "Li et al. 2020", phi=("lam",), half="client")

    def client(self, local: Local, x: Tensor) -> tuple[Vectors, Vectors]:
        y = x
        for grad in local:
            y = local.step(y, grad(y) + self.lam * (y - x))
        return {"dx": y - x}, {}
