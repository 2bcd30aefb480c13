"""Quadratics small enough to redo by hand: for tests, for the vectors, and for writing a method of one's own.

F_i(x) = 1/2 ||A_i x - b_i||^2, full-batch gradients, float64.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from .check import FedhaltError, MissingExtra, fraction, non_negative, positive, whole

try:
    import torch
except ImportError:
    raise MissingExtra("fedhalt.toy", "torch", "sim") from None

from torch import Tensor

from . import engine
from .engine import Round
from .local import Local, Optimizer
from .methods import Method
from .vector import Vectors

__all__ = ["Quadratics", "Round", "rounds", "run"]


@dataclass(frozen=True)
class Quadratics:
    """One quadratic per client.

    A: a diagonal (a list of d numbers) or a matrix per client; b: a vector per client; start: theta_0;
    steps: local steps, one number or one per client; cohorts: the clients of rounds 1, 2, …, repeated from
    the beginning when they run out (everybody in every round by default); lr * lr_decay^(r - 1) is the
    local rate of round r; momentum, weight_decay and clip are the local optimiser's, or `optimizer` is any
    other torch optimiser.
    """

    A: Sequence[Any]
    b: Sequence[Any]
    start: Sequence[float]
    steps: int | Sequence[int] = 3
    cohorts: Sequence[Sequence[int]] | None = None
    lr: float = 0.1
    lr_decay: float = 1.0
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip: float | None = None
    optimizer: Optimizer | None = None
    _tensors: list[list[Tensor]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        tensors = [[torch.as_tensor(row, dtype=torch.float64) for row in rows] for rows in (self.A, self.b)]
        object.__setattr__(self, "_tensors", tensors)
        n, d = len(self.A), len(self.start)
        if len(self.b) != n:
            raise FedhaltError(f"A has {n} clients and b has {len(self.b)}: give one of each per client")
        for i in range(n):
            if self._a(i).shape[-1] != d or self._b(i).shape != self._a(i).shape[:1]:
                shapes = f"A {tuple(self._a(i).shape)}, b {tuple(self._b(i).shape)}"
                raise FedhaltError(f"client {i}: {shapes} do not fit a start of {d} parameters")
        for k in self._steps():
            whole("steps", k)
        if len(self._steps()) != n:
            raise FedhaltError(f"steps must be one number or one per client ({n}), not {self.steps!r}")
        for i in itertools.chain(*(self.cohorts or [])):
            if i not in range(n):
                raise FedhaltError(f"cohorts name client {i!r}; there are clients 0 to {n - 1}")
        positive("lr", self.lr)
        positive("lr_decay", self.lr_decay)
        fraction("momentum", self.momentum, below=True)
        non_negative("weight_decay", self.weight_decay)

    @property
    def population(self) -> int:
        return len(self.A)

    def theta0(self) -> Tensor:
        return torch.tensor(self.start, dtype=torch.float64)

    def cohort(self, r: int) -> Sequence[int]:
        return range(self.population) if not self.cohorts else self.cohorts[(r - 1) % len(self.cohorts)]

    def weight(self, client: int) -> float:
        return 1.0

    def shared(self) -> Vectors:
        return {}

    def visit(self, client: int, r: int, shared: Vectors | None = None) -> Local:
        optimizer = self.optimizer or partial(torch.optim.SGD, momentum=self.momentum)
        batches = itertools.repeat(partial(self.gradient, client), self._steps()[client])
        rate = self.lr * self.lr_decay ** (r - 1)
        return Local(batches, rate, optimizer=optimizer, weight_decay=self.weight_decay, clip=self.clip)

    def gradient(self, client: int, w: Tensor) -> Tensor:
        A, b = self._a(client), self._b(client)
        return A * (A * w - b) if A.ndim == 1 else A.T @ (A @ w - b)

    def optimum(self) -> Tensor:
        """The minimiser of F = 1/N sum F_i."""
        full = [torch.diag(A) if A.ndim == 1 else A for A in map(self._a, range(self.population))]
        curvature = torch.stack([A.T @ A for A in full]).sum(0)
        target = torch.stack([A.T @ self._b(i) for i, A in enumerate(full)]).sum(0)
        minimiser: Tensor = torch.linalg.solve(curvature, target)
        return minimiser

    def _a(self, client: int) -> Tensor:
        return self._tensors[0][client]

    def _b(self, client: int) -> Tensor:
        return self._tensors[1][client]

    def _steps(self) -> Sequence[int]:
        return [self.steps] * len(self.A) if isinstance(self.steps, int) else self.steps


def rounds(method: Method, task: Quadratics, number: int) -> Iterator[Round]:
    """The first `number` rounds, by the same loop as any other federation."""
    return itertools.islice(engine.rounds(method, task), number)


def run(method: Method, task: Quadratics, number: int) -> Tensor:
    """The global parameters after `number` rounds."""
    *_, last = rounds(method, task, number)
    return last.state["x"]
