"""FedLESAM: Fan et al., "Locally Estimated Global Perturbations are Better than Local Perturbations for Federated
Sharpness-aware Minimization", ICML 2024.

    client:  e = rho * v / ||v||,  v = w_i_old - x;   y <- y - lr * grad f_i(y + e);   w_i_old <- x
    server:  as FedAvg

w_i_old is the global model this client received the last time it was active (e = 0 at its first visit). With
mode="last_update" everybody uses v = -(last global update) instead, as the method's released code does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from ..check import known
from ..local import Local
from ..replies import Replies
from ..vector import Vectors, unit
from .base import Facts
from .fedavg import FedAvg


@dataclass(frozen=True)
class FedLESAM(FedAvg):
    """rho: radius of the perturbation; mode: which two global models are compared."""

    rho: float = 1e-3
    mode: Literal["previous_active", "last_update"] = "previous_active"
    facts: ClassVar[Facts] = Facts("FedLESAM", "Fan et al. 2024", phi=("rho",), half="client", keeps=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        known("mode", self.mode, ("previous_active", "last_update"))

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
