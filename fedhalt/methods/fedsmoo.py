"""FedSMOO: Sun et al., "Dynamic Regularized Sharpness Aware Minimization in Federated Learning: Approaching Global
Consistency and Smooth Landscape", ICML 2023.

    client:  v = grad f_i(y) - mu_i - s;   e = rho * v / ||v||;   mu_i <- mu_i + e - s
             y <- y - lr * (grad f_i(y + e) + lam * (h_i + y - x));   dx = y - x;   h_i <- h_i + dx
    server:  s = rho * m / ||m||,  m = mean mu_i;   h and x as FedDyn

As in the authors' released code, s is made of mu_i alone (the publication adds the last e).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .base import Facts
from .feddyn import FedDyn
from .local import Local
from .replies import Replies
from .vector import Vectors, unit


@dataclass(frozen=True)
class FedSMOO(FedDyn):
    """FedDyn with perturbations that are aligned over the clients (Sun et al. 2023).

    Args:
        server_lr: Scales mean dx + h.
        lam: The strength of the regularization.
        rho: The radius of the perturbation.

    Raises:
        FedhaltError: If a hyperparameter is out of range.

    Examples:
        >>> from fedhalt.methods import FedSMOO
        >>> FedSMOO(lam=0.01)
        FedSMOO(server_lr=1.0, lam=0.01, rho=0.001)
    """

    rho: float = 1e-3
    down: ClassVar[tuple[str, ...]] = ("x", "s")
    facts: ClassVar[Facts] = Facts(
        "FedSMOO", "Sun et al. 2023b", phi=("lam", "rho"), half="client", down=2, keeps=2, up=2, gradients=2
    )

    def server_init(self, x: Tensor) -> Vectors:
        return {**super().server_init(x), "s": torch.zeros_like(x)}

    def client_init(self, x: Tensor) -> Vectors:
        return {**super().client_init(x), "mui": torch.zeros_like(x)}

    def client(self, local: Local, x: Tensor, s: Tensor, hi: Tensor, mui: Tensor) -> tuple[Vectors, Vectors]:
        y = x
        for grad in local:
            e = self.rho * unit(grad(y) - mui - s)
            mui = mui + e - s
            y = local.step(y, grad(y + e) + self.lam * (hi + y - x))
        dx = y - x
        return {"dx": dx, "mu": mui}, {"hi": hi + dx, "mui": mui}

    def server(self, up: Replies, x: Tensor, h: Tensor, s: Tensor) -> Vectors:
        return {**super().server(up, x, h), "s": self.rho * unit(up.mean("mu"))}
