"""One federated round after the other: the loop that no method owns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from torch import Tensor

from .local import Local
from .methods.base import Facts, Method
from .replies import Replies
from .vector import Vectors


class Task(Protocol):
    """What is trained: who there is, who takes part, and a visit to one of them."""

    @property
    def population(self) -> int:
        """The number of all clients."""

    def theta0(self) -> Tensor:
        """The global parameters before round 1, flat."""

    def cohort(self, r: int) -> Sequence[int]:
        """The clients of round r."""

    def visit(self, client: int, r: int) -> Local:
        """One visit to one client in round r."""


class Round(NamedTuple):
    """What is there after a round."""

    round: int
    state: Vectors
    """The server's state; `state["x"]` are the global parameters."""
    memory: dict[int, Vectors]
    """What each client that was ever visited remembers."""
    cohort: Sequence[int]


def rounds(method: Method, task: Task) -> Iterator[Round]:
    """Rounds 1, 2, … for ever: who takes part, what travels down, the visits, the sums, the server."""
    state = method.server_init(task.theta0())
    memory: dict[int, Vectors] = {}
    facts: Facts | None = getattr(method, "facts", None)
    r = 0
    while True:
        r += 1
        cohort = task.cohort(r)
        down = {name: state[name] for name in method.down}
        up = Replies(task.population)
        fresh: dict[int, Vectors] = {}
        for position, client in enumerate(cohort):
            local = task.visit(client, r)
            if facts is not None and facts.sgd_only:
                local.require_linear(facts.title)
            kept = memory[client] if client in memory else method.client_init(down["x"])
            reply, fresh[client] = method.client(local, **down, **kept)
            up.add(position, reply)
        state = method.server(up, **state)
        memory = {**memory, **fresh}
        yield Round(r, state, memory, cohort)
