"""MoFedSAM: Qu et al., "Generalized Federated Learning via Sharpness Aware Minimization", ICML 2022.

    client:  y <- y - lr * (alpha * grad f_i(y + e) + (1 - alpha) * m),  e = rho * grad f_i(y) / ||grad f_i(y)||
    server:  as FedCM

FedCM with SAM's gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from .base import Facts
from .fedcm import FedCM
from .vector import Gradient, sam


@dataclass(frozen=True)
class MoFedSAM(FedCM):
    """FedCM with sharpness-aware gradients (Qu et al. 2022).

    Args:
        server_lr: The server's step along the mean update.
        alpha: The share of the client's own gradient.
        rho: The radius of the perturbation.

    Raises:
        FedhaltError: If a hyperparameter is out of range.

    Examples:
        >>> from fedhalt.methods import MoFedSAM
        >>> MoFedSAM(rho=0.01)
        MoFedSAM(server_lr=1.0, alpha=0.1, rho=0.01)
    """

    rho: float = 1e-3
    facts: ClassVar[Facts] = Facts(
        "MoFedSAM", "Qu et al. 2022", phi=("alpha", "rho"), half="client", down=2, up=2, gradients=2, sgd_only=True
    )

    def gradient(self, grad: Gradient, w: Tensor) -> Tensor:
        return sam(grad, w, self.rho)
