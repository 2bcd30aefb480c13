"""Federations of quadratics that the tests of the methods share."""

import torch

from fedhalt import methods
from fedhalt.methods import METHODS
from fedhalt.simulation import toy

NAMES = list(METHODS)
STRONG = {"lam": 0.1, "rho": 0.05, "alpha": 0.3, "server_lr": 0.5, "tau": 0.1}
"""Hyperparameters large enough that nothing is lost in rounding."""


def create(name, **settings):
    """A method with strong hyperparameters, whichever of them it has."""
    taken = methods.hyperparameters(name)
    return methods.create(name, **{key: value for key, value in STRONG.items() if key in taken} | settings)


def quadratics(clients=4, d=6, seed=0, **settings):
    """Heterogeneous, well-conditioned quadratics with different step counts and partial cohorts."""
    draw = torch.Generator().manual_seed(seed)
    A = 0.5 + torch.rand(clients, d, generator=draw, dtype=torch.float64)
    b = torch.randn(clients, d, generator=draw, dtype=torch.float64)
    cohorts = [torch.randperm(clients, generator=draw)[: max(2, clients // 2)].tolist() for _ in range(6)]
    steps = [1 + (2 * i) % 5 for i in range(clients)]
    defaults = {"steps": steps, "cohorts": cohorts, "lr": 0.1, "lr_decay": 0.998, "momentum": 0.9, "weight_decay": 0.01}
    return toy.Quadratics(A.tolist(), b.tolist(), torch.ones(d).tolist(), **{**defaults, "clip": 2.0, **settings})
