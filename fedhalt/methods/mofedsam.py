"""MoFedSAM: Qu et al., "Generalized Federated Learning via Sharpness Aware Minimization", ICML 2022.

    client:  y <- y - lr * (alpha * grad f_i(y + e) + (1 - alpha) * m),  e = rho * grad f_i(y) / ||grad f_i(y)||
    server:  as FedCM

FedCM with SAM's gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from ..vector import Gradient, sam
from .base import Facts
from .fedcm import FedCM


@dataclass(frozen=True)
class MoFedSAM(FedCM):
    """rho: the radius of the perturbation."""

    rho: float = 1e-3
    facts: ClassVar[Facts] = Facts(
        "MoFedSAM", "Qu et al. 2022", phi=("alpha", "rho"), half="client", down=2, up=2, gradients=2, sgd_only=True
    )

    def gradient(self, grad: Gradient, w: Tensor) -> Tensor:
        return sam(grad, w, self.rho)
