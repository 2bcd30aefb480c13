"""What a federated method is: two pure halves over flat vectors."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Protocol

from torch import Tensor

from ..errors import fraction, non_negative, positive
from .local import Local
from .replies import Replies
from .vector import Vectors


class Method(Protocol):
    """What every method provides. A method is a frozen dataclass whose fields are its hyperparameters.

    A method contains no loop over clients, no data set, no device and no random numbers. The client half turns what the
    server sent and what this client remembers into a reply and a new memory. The server half turns the sums of the
    replies and its state into a new state. Inputs are never changed in place.

    Examples:
        Every client counts its visits, and the server counts the steps taken so far:

        >>> import torch
        >>> from fedhalt import methods
        >>> from fedhalt.simulation import toy
        >>> class Counter(methods.FedAvg):
        ...     def server_init(self, x):
        ...         return {"x": x, "taken": torch.zeros(1)}
        ...     def client_init(self, x):
        ...         return {"visits": torch.zeros(1)}
        ...     def client(self, local, x, visits):
        ...         for grad in local:
        ...             x = local.step(x, 0 * grad(x))
        ...         return {"steps": torch.tensor([float(local.steps)])}, {"visits": visits + 1}
        ...     def server(self, up, x, taken):
        ...         return {"x": x, "taken": taken + up.population * up.spread("steps")}
        >>> task = toy.Quadratics(A=[[1.0], [2.0]], b=[[1.0], [0.0]], start=[0.0], steps=[3, 5])
        >>> for round in toy.rounds(Counter(), task, 2):
        ...     print(round.state["taken"], round.memory[0]["visits"])
        tensor([8.]) tensor([1.])
        tensor([16.]) tensor([2.])
    """

    @property
    def down(self) -> tuple[str, ...]:
        """The server's vectors that are sent to the clients."""

    def server_init(self, x: Tensor) -> Vectors:
        """The server's state before round 1.

        Args:
            x: The global parameters.

        Returns:
            Vectors by name.
        """

    def client_init(self, x: Tensor) -> Vectors:
        """A client's memory at its first visit.

        Args:
            x: The global parameters.

        Returns:
            Vectors by name.
        """

    def client(self, local: Local, *args: Any, **down_and_memory: Any) -> tuple[Vectors, Vectors]:
        """The client half.

        Args:
            local: The visit: gradient functions to loop over, and the local optimizer.
            *args: Not used; methods name their vectors.
            **down_and_memory: What the server sent and what this client remembers, by name.

        Returns:
            The reply and the new memory.
        """

    def server(self, up: Replies, *args: Any, **state: Any) -> Vectors:
        """The server half.

        Args:
            up: The sums of the replies.
            *args: Not used; methods name their vectors.
            **state: The server's state, by name.

        Returns:
            The new state.
        """


@dataclasses.dataclass(frozen=True)
class Facts:
    """What a method declares about itself. Vectors are counted in multiples of the model's size; scalars are not
    counted.

    Attributes:
        title: The name of the method.
        paper: Its publication.
        phi: The key hyperparameters, which the paper sweeps over 10^-1, 10^-2, 10^-3.
        half: Whether phi belongs to the client or to the server half.
        down: Vectors sent to each client.
        keeps: Vectors that each client keeps.
        up: Vectors that each client sends.
        gradients: Gradient evaluations per local step.
        sgd_only: Whether the method divides updates by step weights, which adaptive optimizers do not have.

    Examples:
        >>> from fedhalt import methods
        >>> facts = methods.METHODS["scaffold"].facts
        >>> facts.down, facts.keeps, facts.up
        (2, 1, 2)
    """

    title: str
    paper: str
    phi: tuple[str, ...] = ()
    """The key hyperparameter that the paper sweeps over 10^-1, 10^-2, 10^-3."""
    half: str = ""
    """Whether phi belongs to the client or to the server half."""
    down: int = 1
    keeps: int = 0
    up: int = 1
    gradients: int = 1
    """Gradient evaluations per local step."""
    sgd_only: bool = False
    """Whether the method divides updates by step weights, which adaptive optimizers do not have."""


class Checked:
    """Checks the hyperparameters, by name, when a method is created."""

    facts: ClassVar[Facts]

    def __post_init__(self) -> None:
        for name in (field.name for field in dataclasses.fields(self)):  # type: ignore[arg-type]
            value = getattr(self, name)
            if name in ("lam", "rho"):
                object.__setattr__(self, name, non_negative(name, value))
            elif name in ("server_lr", "tau"):
                object.__setattr__(self, name, positive(name, value))
            elif name in ("alpha", "beta1", "beta2"):
                object.__setattr__(self, name, fraction(name, value))
            elif name == "beta":
                object.__setattr__(self, name, fraction(name, value, below=True))
