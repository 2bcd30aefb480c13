"""Quadratics small enough to check by hand, for tests and for writing your own method.

F_i(x) = 1/2 ||A_i x - b_i||^2, full-batch gradients, float64.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from ..errors import FedhaltError, MissingExtra, fraction, non_negative, positive, whole

try:
    import torch
except ImportError:
    raise MissingExtra("fedhalt.simulation", "torch", "sim") from None

from torch import Tensor

from ..methods import Method
from ..methods.local import Local, Optimizer
from ..methods.vector import Vectors
from . import engine
from .engine import Round

__all__ = ["Quadratics", "Round", "rounds", "run"]


@dataclass(frozen=True)
class Quadratics:
    """A federation with one quadratic per client.

    Args:
        A: For each client a diagonal (a list of d numbers) or a matrix.
        b: For each client a vector.
        start: theta_0.
        steps: Local steps: one number, or one per client.
        cohorts: The clients of rounds 1, 2, …, repeated when they run out. Default: all clients in every round.
        lr: The local learning rate of round 1.
        lr_decay: The factor on the learning rate per round.
        momentum: The momentum of the local optimizer.
        weight_decay: Its weight decay.
        clip: The norm that a local step is clipped to.
        optimizer: Another torch optimizer.

    Raises:
        FedhaltError: If shapes do not fit, or a setting is out of range.

    Examples:
        >>> from fedhalt.simulation import toy
        >>> task = toy.Quadratics(A=[[1.0], [1.0]], b=[[1.0], [3.0]], start=[0.0])
        >>> task.optimum()
        tensor([2.], dtype=torch.float64)
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
        """The minimizer of F = 1/N sum F_i.

        Returns:
            The optimal parameters.
        """
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
    """Runs a method round by round, with the same loop as any other federation.

    Args:
        method: The method.
        task: The federation.
        number: How many rounds.

    Yields:
        Each round, with its `state` and `memory`.

    Examples:
        >>> from fedhalt import methods
        >>> from fedhalt.simulation import toy
        >>> task = toy.Quadratics(A=[[1.0], [1.0]], b=[[1.0], [3.0]], start=[0.0])
        >>> [done.round for done in toy.rounds(methods.FedAvg(), task, 2)]
        [1, 2]
    """
    return itertools.islice(engine.rounds(method, task), number)


def run(method: Method, task: Quadratics, number: int) -> Tensor:
    """Runs a method for a number of rounds.

    Args:
        method: The method.
        task: The federation.
        number: How many rounds.

    Returns:
        The global parameters after the last round.

    Examples:
        >>> from fedhalt import methods
        >>> from fedhalt.simulation import toy
        >>> task = toy.Quadratics(A=[[1.0], [1.0]], b=[[1.0], [3.0]], start=[0.0])
        >>> round(float(toy.run(methods.FedAvg(), task, 50)), 6)
        2.0
    """
    *_, last = rounds(method, task, number)
    return last.state["x"]
