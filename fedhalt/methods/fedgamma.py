"""FedGamma: Dai et al., "FedGAMMA: Federated Learning with Global Sharpness-Aware Minimization", IEEE TNNLS 2024.

    client:  e = rho * grad f_i(y) / ||grad f_i(y)||;   y <- y - lr * (grad f_i(y + e) + c - c_i);  dx, dc as SCAFFOLD
    server:  as SCAFFOLD

SCAFFOLD with SAM's gradient; the ascent uses the raw local gradient, without c - c_i.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from .base import Facts
from .scaffold import Scaffold
from .vector import Gradient, sam


@dataclass(frozen=True)
class FedGamma(Scaffold):
    """SCAFFOLD with sharpness-aware gradients (Dai et al. 2024).

    Args:
        server_lr: The server's step along the mean update.
        rho: The radius of the perturbation.

    Raises:
        FedhaltError: If a hyperparameter is out of range.

    Examples:
        >>> from fedhalt.methods import FedGamma
        >>> FedGamma(rho=0.01)
        FedGamma(server_lr=1.0, rho=0.01)
    """

    rho: float = 1e-3
    facts: ClassVar[Facts] = Facts(
        "FedGamma", "Dai et al. 2024", phi=("rho",), half="client", down=2, keeps=1, up=2, gradients=2, sgd_only=True
    )

    def gradient(self, grad: Gradient, w: Tensor) -> Tensor:
        return sam(grad, w, self.rho)
