"""FedSpeed: Sun et al., "FedSpeed: Larger Local Interval, Less Communication Round, and Higher Generalization
Accuracy", ICLR 2023.

    client:  g = (1 - alpha) * grad f_i(y) + alpha * grad f_i(y + rho * grad f_i(y) / ||grad f_i(y)||)
             y <- y - lr * (g + lam * (h_i + y - x));   dx = y - x;   h_i <- h_i + dx
    server:  as FedDyn (dual_mean="all"), or x <- mean (x + dx + h_i) over the cohort (dual_mean="active", published)

lam is 1 / lambda of the publication. With alpha = 1 and rho = 0 this is FedDyn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from ..errors import require_one_of
from .base import Facts
from .fedavg import FedAvg
from .feddyn import FedDyn
from .local import Local
from .replies import Replies
from .vector import Gradient, Vectors, sam


@dataclass(frozen=True)
class FedSpeed(FedDyn):
    """FedDyn with sharpness-aware gradients (Sun et al. 2023).

    Args:
        server_lr: Scales mean dx + h.
        lam: The strength of the regularization (1 / lambda in the publication).
        rho: The radius of the perturbation.
        alpha: The share of the perturbed gradient.
        dual_mean: "active" adds the h_i of the cohort, as published; "all" those of all clients, as FedDyn does.

    Raises:
        FedhaltError: If a hyperparameter is out of range.

    Examples:
        >>> from fedhalt.methods import FedSpeed
        >>> FedSpeed(lam=0.01, dual_mean="active")
        FedSpeed(server_lr=1.0, lam=0.01, rho=0.001, alpha=1.0, dual_mean='active')
    """

    rho: float = 1e-3
    alpha: float = 1.0
    dual_mean: Literal["all", "active"] = "all"
    facts: ClassVar[Facts] = Facts(
        "FedSpeed", "Sun et al. 2023a", phi=("lam", "rho"), half="client", keeps=1, gradients=2
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of("dual_mean", self.dual_mean, ("all", "active"))

    def gradient(self, grad: Gradient, w: Tensor) -> Tensor:
        return sam(grad, w, self.rho, share=self.alpha)

    def client(self, local: Local, x: Tensor, hi: Tensor) -> tuple[Vectors, Vectors]:
        reply, memory = super().client(local, x, hi)
        if self.dual_mean == "active":
            reply = {"dx": reply["dx"] + memory["hi"]}
        return reply, memory

    def server(self, up: Replies, x: Tensor, h: Tensor) -> Vectors:
        if self.dual_mean == "active":
            return {**FedAvg.server(self, up, x), "h": h}
        return super().server(up, x, h)
