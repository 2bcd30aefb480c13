"""SCAFFOLD: Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020,
Algorithm 1, option II.

    client:  y <- y - lr * (grad f_i(y) + c - c_i);   dx = y - x
             c_i+ = c_i - c - dx / (S_K(mu) * lr);   dc = c_i+ - c_i
    server:  c <- c + 1/N sum dc;   x <- x + server_lr * mean dx

The published K is S_K(mu) here: the same without momentum, and the mean gradient with it (`Local.mean_gradient`).
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
class Scaffold(FedAvg):
    """Averaging with control variates (Karimireddy et al. 2020). It has no hyperparameter of its own.

    Args:
        server_lr: The server's step along the mean update.

    Raises:
        FedhaltError: If a hyperparameter is out of range.

    Examples:
        >>> from fedhalt.methods import Scaffold
        >>> from fedhalt.simulation import toy
        >>> task = toy.Quadratics(A=[[1.0], [2.0]], b=[[1.0], [0.0]], start=[0.0], steps=[3, 5])
        >>> abs(float(toy.run(Scaffold(), task, 200) - task.optimum())) < 1e-9
        True
    """

    down: ClassVar[tuple[str, ...]] = ("x", "c")
    facts: ClassVar[Facts] = Facts("SCAFFOLD", "Karimireddy et al. 2020", down=2, keeps=1, up=2, sgd_only=True)

    def server_init(self, x: Tensor) -> Vectors:
        return {"x": x, "c": torch.zeros_like(x)}

    def client_init(self, x: Tensor) -> Vectors:
        return {"ci": torch.zeros_like(x)}

    def client(self, local: Local, x: Tensor, c: Tensor, ci: Tensor) -> tuple[Vectors, Vectors]:
        y = x
        for grad in local:
            y = local.step(y, self.gradient(grad, y) + c - ci)
        dx = y - x
        dc = local.mean_gradient(dx) - c
        return {"dx": dx, "dc": dc}, {"ci": ci + dc}

    def server(self, up: Replies, x: Tensor, c: Tensor) -> Vectors:
        return {**super().server(up, x), "c": c + up.spread("dc")}
