"""FedLESAM: Fan et al., "Locally Estimated Global Perturbations are Better than Local Perturbations for Federated
Sharpness-aware Minimization", ICML 2024.

    client:  e = rho * v / ||v||,  v = w_i_old - x;   y <- y - lr * grad f_i(y + e);   w_i_old <- x
    server:  as FedAvg

w_i_old is the global model that this client received the last time it was active (e = 0 at its first visit). With
mode="last_update", every client uses v = -(last global update) instead, as the method's released code does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from ..errors import require_one_of
from .base import Facts
from .fedavg import FedAvg
from .local import Local
from .replies import Replies
from .vector import Vectors, unit


@dataclass(frozen=True)
class FedLESAM(FedAvg):
    """SAM with a perturbation that is estimated from global models (Fan et al. 2024).

    Args:
        server_lr: The server's step along the mean update.
        rho: The radius of the perturbation.
        mode: The two global models to compare: "previous_active" (as published) takes those that this client received
            last and now, "last_update" (as released) the last two.

    Raises:
        FedhaltError: If a hyperparameter is out of range.

    Examples:
        >>> from fedhalt.methods import FedLESAM
        >>> FedLESAM(rho=0.01)
        FedLESAM(server_lr=1.0, rho=0.01, mode='previous_active')
    """

    rho: float = 1e-3
    mode: Literal["previous_active", "last_update"] = "previous_active"
    facts: ClassVar[Facts] = Facts("FedLESAM", "Fan et al. 2024", phi=("rho",), half="client", keeps=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of("mode", self.mode, ("previous_active", "last_update"))

    @property
    def down(self) -> tuple[str, ...]:
        return ("x",) if self.mode == "previous_active" else ("x", "old")

    def server_init(self, x: Tensor) -> Vectors:
        return {"x": x} if self.mode == "previous_active" else {"x": x, "old": x}

    def client_init(self, x: Tensor) -> Vectors:
        return {"old": x} if self.mode == "previous_active" else {}

    def client(self, local: Local, x: Tensor, old: Tensor) -> tuple[Vectors, Vectors]:
        y, e = x, self.perturbation(old - x)
        for grad in local:
            y = local.step(y, grad(y + e))
        return {"dx": y - x}, self.client_init(x)

    def perturbation(self, v: Tensor) -> Tensor:
        return self.rho * unit(v)

    def server(self, up: Replies, x: Tensor, old: Tensor | None = None) -> Vectors:
        after = super().server(up, x)
        return after if old is None else {**after, "old": x}
