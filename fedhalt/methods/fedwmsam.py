"""FedWMSAM: Li et al., "FedWMSAM: Fast and Flat Federated Learning via Weighted Momentum and Sharpness-Aware
Minimization", NeurIPS 2025.

    client:  m_i = m + alpha / (1 - alpha) * (c - c_i)
             step k = 0, 1, …:  v = x + k * m_i - y;   e = sign * rho * v / ||v||
                                y <- y - lr * (alpha * grad f_i(y + e) + (1 - alpha) * m_i)
             dx = y - x;   c_i+ = c_i - c - dx / (S_K(mu) * lr);   dc = c_i+ - c_i;   a = 1 + cos(dx, m)
    server:  alpha <- 0.99 alpha + 0.01 min(0.9, max(0.1, mean a))
             m <- -mean dx / (S_K(mu) * lr) = c + mean dc;   c <- c + 1/N sum dc;   x <- x + server_lr * mean dx

m is gradient-signed, so moving along it is an ascent: sign = +1; the released code has -1. a is 0 while m is zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..errors import FedhaltError, brief
from .base import Facts
from .local import Local
from .replies import Replies
from .scaffold import Scaffold
from .vector import Vectors, cosine, unit


@dataclass(frozen=True)
class FedWMSAM(Scaffold):
    """SCAFFOLD with weighted momentum and SAM (Li et al. 2025).

    Args:
        server_lr: The server's step along the mean update.
        rho: The radius of the perturbation.
        alpha: The gradient's share at the start; it adapts during training.
        sign: The sign of the perturbation: 1 as published, -1 as in the released code.

    Raises:
        FedhaltError: If a hyperparameter is out of range.

    Examples:
        >>> from fedhalt.methods import FedWMSAM
        >>> FedWMSAM(rho=0.01)
        FedWMSAM(server_lr=1.0, rho=0.01, alpha=0.1, sign=1.0)
    """

    rho: float = 1e-3
    alpha: float = 0.1
    sign: float = 1.0
    down: ClassVar[tuple[str, ...]] = ("x", "c", "m", "a")
    facts: ClassVar[Facts] = Facts(
        "FedWMSAM", "Li et al. 2025", phi=("rho",), half="client", down=3, keeps=1, up=2, sgd_only=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sign not in (1, -1):
            raise FedhaltError(f"sign must be 1 (as published) or -1 (as released), not {brief(self.sign)}")
        if not 0 < self.alpha < 1:
            raise FedhaltError(f"alpha must be above 0 and below 1, not {brief(self.alpha)}")

    def server_init(self, x: Tensor) -> Vectors:
        return {**super().server_init(x), "m": torch.zeros_like(x), "a": x.new_tensor(self.alpha)}

    def client(self, local: Local, x: Tensor, c: Tensor, m: Tensor, a: Tensor, ci: Tensor) -> tuple[Vectors, Vectors]:
        y, mi = x, m + a / (1 - a) * (c - ci)
        for k, grad in enumerate(local):
            e = self.perturbation(x + k * mi - y)
            y = local.step(y, a * grad(y + e) + (1 - a) * mi)
        dx = y - x
        dc = local.mean_gradient(dx) - c
        angle = cosine(dx, m)
        agreement = torch.zeros_like(a) if angle is None else 1 + angle
        return {"dx": dx, "dc": dc, "agreement": agreement}, {"ci": ci + dc}

    def perturbation(self, v: Tensor) -> Tensor:
        return self.sign * self.rho * unit(v)

    def server(self, up: Replies, x: Tensor, c: Tensor, m: Tensor, a: Tensor) -> Vectors:
        a = 0.99 * a + 0.01 * up.mean("agreement").clamp(0.1, 0.9)
        return {**super().server(up, x, c), "m": c + up.mean("dc"), "a": a}
