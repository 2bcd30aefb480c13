"""FedSAM: Qu et al., "Generalized Federated Learning via Sharpness Aware Minimization", ICML 2022.

client:  e = rho * grad f_i(y) / ||grad f_i(y)||;  y <- y - lr * grad f_i(y + e), both on the same minibatch
server:  as FedAvg
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from .base import Facts
from .fedavg import FedAvg
from .vector import Gradient, sam


@dataclass(frozen=True)
class FedSAM(FedAvg):
    """FedAvg with sharpness-aware gradients (Qu et al. 2022).

    Args:
        server_lr: The server's step along the mean update.
        rho: The radius of the perturbation.

    Raises:
        FedhaltError: If a hyperparameter is out of range.

    Examples:
        >>> from fedhalt.methods import FedSAM
        >>> FedSAM(rho=0.05)
        FedSAM(server_lr=1.0, rho=0.05)
    """

    rho: float = 1e-3
    facts: ClassVar[Facts] = Facts("FedSAM", "Qu et al. 2022", phi=("rho",), half="client", gradients=2)

    def gradient(self, grad: Gradient, w: Tensor) -> Tensor:
        return sam(grad, w, self.rho)
