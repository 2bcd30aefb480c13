"""FedProx: Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020.

    client:  y <- y - lr * (grad f_i(y) + lam * (y - x))
    server:  as FedAvg

The proximal term (published as mu) is kept as a whole and added before the clip: at y = x it is exactly zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from .base import Facts
from .fedavg import FedAvg
from .local import Local
from .vector import Vectors


@dataclass(frozen=True)
class FedProx(FedAvg):
    """FedAvg with a pull toward the global model (Li et al. 2020).

    Args:
        server_lr: The server's step along the mean update.
        lam: The strength of the pull (published as mu).

    Raises:
        FedhaltError: If a hyperparameter is out of range.

    Examples:
        >>> from fedhalt.methods import FedProx
        >>> FedProx(lam=0.01)
        FedProx(server_lr=1.0, lam=0.01)
    """

    lam: float = 1e-3
    facts: ClassVar[Facts] = Facts("FedProx", "Li et al. 2020", phi=("lam",), half="client")

    def client(self, local: Local, x: Tensor) -> tuple[Vectors, Vectors]:
        y = x
        for grad in local:
            y = local.step(y, grad(y) + self.lam * (y - x))
        return {"dx": y - x}, {}
