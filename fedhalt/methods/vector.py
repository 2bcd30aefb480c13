"""The formulas that several methods share, over flat vectors."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Vectors = dict[str, Tensor]
"""Every state and every message: named flat vectors (and now and then a scalar)."""

Gradient = Callable[[Tensor], Tensor]
"""w -> the gradient of one minibatch's loss at w; asked twice, it answers for the same minibatch."""


def unit(v: Tensor) -> Tensor:
    """v / (||v|| + 1e-7): one norm over all parameters, and zero for zero."""
    norm: Tensor = torch.linalg.vector_norm(v)
    return v / (norm + 1e-7)


def sam(grad: Gradient, w: Tensor, rho: float, share: float = 1.0) -> Tensor:
    """The sharpness-aware gradient: taken at w + rho * grad(w) / ||grad(w)|| (Foret et al. 2021).

    With a share below 1 it is mixed with the plain gradient, which is at hand anyway.
    """
    g = grad(w)
    ascent = grad(w + rho * unit(g))
    return ascent if share == 1 else (1 - share) * g + share * ascent


def cosine(a: Tensor, b: Tensor) -> Tensor | None:
    """The cosine of the angle between a and b, None if either is zero."""
    scale: Tensor = torch.linalg.vector_norm(a) * torch.linalg.vector_norm(b)
    return torch.dot(a, b) / scale if scale > 0 else None
