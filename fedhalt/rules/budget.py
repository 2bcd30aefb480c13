"""A fixed number of rounds: a rule without a signal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..errors import whole
from .base import Row, State, Status, next_round


@dataclass(frozen=True)
class Budget:
    """Stops after a fixed number of rounds, which is common practice in federated learning (the paper's R = 500).

    Args:
        rounds: The number of rounds.

    Raises:
        FedhaltError: If `rounds` is not a whole number of at least 1.

    Examples:
        >>> from fedhalt import Budget, stop_round
        >>> stop_round(Budget(3), [1.0, 2.0, 3.0, 4.0])
        3
    """

    rounds: int = 500
    reads: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", whole("rounds", self.rounds))

    def begin(self) -> State:
        return {"round": 0}

    def step(self, state: State, row: Row) -> tuple[State, Status]:
        r = next_round(state, row)
        stop = r >= self.rounds
        return {"round": r}, Status(r, float(r), None, r, stop, "budget" if stop else "")
