"""One federated round after the other: the loop that no method owns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from .check import FedhaltError
from .local import Local
from .methods.base import Facts, Method
from .replies import Replies
from .vector import Vectors

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
    """What is there after a round."""

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


def rounds(
    method: Method,
    task: Task,
    *,
    resume: tuple[int, Vectors, Vectors] | None = None,
    memory: Memory | None = None,
    each: Callable[..., Any] = map,
) -> Iterator[Round]:
    """Rounds 1, 2, … for ever: who takes part, what travels down, the visits, the sums, the server.

    `resume` is the last finished round with its state and shared vectors; `each` is `map` or a
    pool's, which must keep the order. The result depends on neither.
    """
    r, state, shared = resume or (0, method.server_init(task.theta0()), task.shared())
    memory = {} if memory is None else memory
    while True:
        r += 1
        cohort = task.cohort(r)
        missing = [name for name in method.down if name not in state]
        if missing:
            raise FedhaltError(f"the method sends {missing[0]!r} down, but its state has only {', '.join(state)}")
        down = {name: state[name] for name in method.down}
        kept = {client: memory[client] if client in memory else method.client_init(down["x"]) for client in cohort}
        place = down["x"].device  # a memory read back from its file is on the CPU

        def visit(client: int) -> tuple[Vectors, Vectors, Local]:
            local = task.visit(client, r, shared)  # noqa: B023 - used up before the round ends
            mine = {name: vector.to(place) for name, vector in kept[client].items()}  # noqa: B023
            return *client_half(method, local, down, mine), local  # noqa: B023

        weights = [task.weight(client) for client in cohort]
        up = Replies(task.population, weighted=any(weight != 1 for weight in weights))
        fresh: dict[int, Vectors] = {}
        steps, clipped, sent = [], 0, 0
        for position, (reply, remembered, local) in enumerate(each(visit, cohort)):
            client = cohort[position]
            if remembered:
                fresh[client] = remembered
            up.add(position, reply, weights[position])
            steps.append(local.steps)
            clipped += local.clipped
            sent += size(reply)
        state = method.server(up, **state)
        shared = {name: up.mean(name) for name in shared}
        memory.update(fresh)
        yield Round(r, state, memory, shared, cohort, steps, clipped, len(cohort) * (size(down) + size(shared)), sent)


def client_half(method: Method, local: Local, down: Vectors, memory: Vectors) -> tuple[Vectors, Vectors]:
    """One visit: the reply, shared vectors included, and what the client remembers from now on."""
    facts: Facts | None = getattr(method, "facts", None)
    if facts is not None and facts.sgd_only:
        local.require_linear(facts.title)
    reply, fresh = method.client(local, **down, **memory)
    return {**reply, **local.shared()}, fresh


def size(vectors: Vectors) -> int:
    """How many numbers a message holds."""
    return sum(vector.numel() for vector in vectors.values())
