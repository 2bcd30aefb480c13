"""FedSAM: Qu et al., "Generalized Federated Learning via Sharpness Aware Minimization", ICML 2022.

client:  e = rho * grad f_i(y) / ||grad f_i(y)||;  y <- y - lr * grad f_i(y + e), both on the same minibatch
server:  as FedAvg
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..vector import Gradient, sam
from .base import Facts
from .fedavg import FedAvg


@dataclass(frozen=True)
class FedSAM(FedAvg):
    """rho: the radius of the perturbation."""

    rho: float = 1e-3
    facts: ClassVar[Facts] = Facts("FedSAM", "Qu et al. 2022", phi=("rho",), half="client", gradients=2)

    def gradient(self, grad: Gradient, w: Tensor) -> Tensor:
        return sam(grad, w, self.rho)
