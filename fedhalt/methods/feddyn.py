"""FedDyn: Acar et al., "Federated Learning Based on Dynamic Regularization", ICLR 2021.

    client:  y <- y - lr * (grad f_i(y) + lam * (h_i + y - x));   dx = y - x;   h_i <- h_i + dx
    server:  h <- h + 1/N sum dx;   x <- x + mean dx + h

h_i = -g_i / alpha in the publication's symbols (its alpha is lam), and h is the mean of all clients' h_i,
kept as a running sum: no server needs a vector per client.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from .base import Facts
from .fedavg import FedAvg
from .local import Local
from .replies import Replies
from .vector import Vectors


@dataclass(frozen=True)
class FedDyn(FedAvg):
    """FedAvg with dynamic regularization (Acar et al. 2021).

    Args:
        server_lr: Scales mean dx + h.
        lam: The strength of the regularization (published as alpha).

    Raises:
        FedhaltError: If a hyperparameter is out of range.

    Examples:
        >>> from fedhalt.methods import FedDyn
        >>> FedDyn(lam=0.1)
        FedDyn(server_lr=1.0, lam=0.1)
    """

    lam: float = 1e-3
    facts: ClassVar[Facts] = Facts("FedDyn", "Acar et al. 2021", phi=("lam",), half="client", keeps=1)

    def server_init(self, x: Tensor) -> Vectors:
        return {"x": x, "h": torch.zeros_like(x)}

    def client_init(self, x: Tensor) -> Vectors:
        return {"hi": torch.zeros_like(x)}

    def client(self, local: Local, x: Tensor, hi: Tensor) -> tuple[Vectors, Vectors]:
        y = x
        for grad in local:
            y = local.step(y, self.gradient(grad, y) + self.lam * (hi + y - x))
        dx = y - x
        return {"dx": dx}, {"hi": hi + dx}

    def server(self, up: Replies, x: Tensor, h: Tensor) -> Vectors:
        h = h + up.spread("dx")
        return {"x": x + self.server_lr * (up.mean("dx") + h), "h": h}
