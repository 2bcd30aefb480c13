"""One federated round after the other: the loop that no method owns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from ..errors import FedhaltError
from ..methods.base import Facts, Method
from ..methods.local import Local
from ..methods.replies import Replies
from ..methods.vector import Vectors

Memory = MutableMapping[int, Vectors]
"""What each client that was ever visited remembers."""


class Task(Protocol):
    """What is trained: who there is, who takes part, and a visit to one of them."""

    @property
    def population(self) -> int:
        """The number of all clients."""

    def theta0(self) -> Tensor:
        """The global parameters before round 1, flat."""

    def shared(self) -> Vectors:
        """What is averaged besides the parameters, before round 1; usually nothing."""

    def cohort(self, r: int) -> Sequence[int]:
        """The clients of round r."""

    def weight(self, client: int) -> float:
        """The client's weight in the mean."""

    def visit(self, client: int, r: int, shared: Vectors) -> Local:
        """One visit to one client in round r."""


class Round(NamedTuple):
    """One finished round.

    Attributes:
        round: Its number, from 1.
        state: The server's vectors; `x` are the global parameters.
        memory: The clients' vectors, by client.
        shared: Vectors that all clients share, such as running statistics.
        cohort: The clients that took part.
        steps: Their local steps.
        clipped: How many of the steps were clipped.
        down: How many numbers were sent to the cohort.
        up: How many numbers were sent back.
        squares: The mean of the clients' squared updates, sum_i w_i ||u_i||^2.
        losses: The clients' mean training loss before and after their local training, on their first and last
            minibatches. It is derived from data.

    Examples:
        >>> from fedhalt import methods
        >>> from fedhalt.simulation import toy
        >>> task = toy.Quadratics(A=[[1.0], [1.0]], b=[[1.0], [3.0]], start=[0.0])
        >>> first = next(toy.rounds(methods.FedAvg(), task, 1))
        >>> first.round, list(first.state)
        (1, ['x'])
    """

    round: int
    state: Vectors
    """The server's state; `state["x"]` are the global parameters."""
    memory: Memory
    shared: Vectors
    cohort: Sequence[int]
    steps: list[int]
    clipped: int
    down: int
    """Numbers sent to the cohort; `up` those sent back."""
    up: int
    squares: float = math.nan
    losses: tuple[float, float] = (math.nan, math.nan)
    """The mean of the clients' squared updates, sum_i w_i ||u_i||^2: a sum of scalars."""


def rounds(
    method: Method,
    task: Task,
    *,
    resume: tuple[int, Vectors, Vectors] | None = None,
    memory: Memory | None = None,
    each: Callable[..., Any] = map,
) -> Iterator[Round]:
    """Rounds 1, 2, … forever: who takes part, what travels down, the visits, the sums, the server.

    `resume` is the last finished round with its state and shared vectors; `each` is `map` or a
    pool's, which must keep the order. The result depends on neither.
    """
    r, state, shared = resume or (0, method.server_init(task.theta0()), task.shared())
    memory = {} if memory is None else memory
    while True:
        r += 1
        cohort = task.cohort(r)
        down = sent_down(method, state)
        kept = {client: memory[client] if client in memory else method.client_init(down["x"]) for client in cohort}
        place = down["x"].device  # a memory read back from its file is on the CPU

        def visit(client: int) -> tuple[Vectors, Vectors, Local]:
            local = task.visit(client, r, shared)  # noqa: B023 - used up before the round ends
            mine = {name: vector.to(place) for name, vector in kept[client].items()}  # noqa: B023
            return *client_half(method, local, down, mine), local  # noqa: B023

        weights = [task.weight(client) for client in cohort]
        up = Replies(task.population, weighted=any(weight != 1 for weight in weights))
        fresh: dict[int, Vectors] = {}
        told = _Tally(sum(weights))
        for position, (reply, remembered, local) in enumerate(each(visit, cohort)):
            client = cohort[position]
            if remembered:
                fresh[client] = remembered
            up.add(position, reply, weights[position])
            told.add(local, reply, weights[position])
        state = method.server(up, **state)
        shared = {name: up.mean(name) for name in shared}
        memory.update(fresh)
        received = len(cohort) * (size(down) + size(shared))
        losses = told.before, told.after
        yield Round(r, state, memory, shared, cohort, told.steps, told.clipped, received, told.up, told.squares, losses)


@dataclass
class _Tally:
    """What is counted and averaged over the visits of a round, in the order of the cohort."""

    weight: float
    steps: list[int] = field(default_factory=list)
    clipped: int = 0
    up: int = 0
    squares: float = 0.0
    before: float = 0.0
    after: float = 0.0

    def add(self, local: Local, reply: Vectors, weight: float) -> None:
        share = weight / self.weight
        self.steps.append(local.steps)
        self.clipped += local.clipped
        self.up += size(reply)
        self.squares += share * squared_norm(reply.get("dx"))
        before, after = local.losses() or (math.nan, math.nan)
        self.before += share * before
        self.after += share * after


def sent_down(method: Method, state: Vectors) -> Vectors:
    """What travels down to every client of the cohort."""
    missing = [name for name in method.down if name not in state]
    if missing:
        raise FedhaltError(f"the method sends {missing[0]!r} down, but its state has only {', '.join(state)}")
    return {name: state[name] for name in method.down}


def client_half(method: Method, local: Local, down: Vectors, memory: Vectors) -> tuple[Vectors, Vectors]:
    """One visit: the reply, shared vectors included, and what the client remembers from now on."""
    facts: Facts | None = getattr(method, "facts", None)
    if facts is not None and facts.sgd_only:
        local.require_linear(facts.title)
    reply, fresh = method.client(local, **down, **memory)
    return {**reply, **local.shared()}, fresh


def squared_norm(update: Tensor | None) -> float:
    """||u||^2; NaN for a method whose clients send no update."""
    return math.nan if update is None else float(torch.linalg.vector_norm(update)) ** 2


def size(vectors: Vectors) -> int:
    """How many numbers a message holds."""
    return sum(vector.numel() for vector in vectors.values())
