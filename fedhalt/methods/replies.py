"""What clients send up, reduced to sums in the order of the cohort."""

from __future__ import annotations

from torch import Tensor

from ..errors import FedhaltError
from .vector import Vectors


class Replies:
    """Running sums of the replies of one cohort; no reply is kept once its turn has come.

    A reply that arrives early waits for those before it, so the sums do not depend on who finished
    first. `mean` is over the cohort (weighted, if weights were given), `spread` over everybody.
    """

    def __init__(self, population: int, weighted: bool = False) -> None:
        self.population = population
        self._weigh = weighted
        self.count = 0
        self._waiting: dict[int, tuple[Vectors, float]] = {}
        self._sums: Vectors = {}
        self._weighted: Vectors = {}
        self._weight = 0.0

    def add(self, position: int, reply: Vectors, weight: float = 1.0) -> None:
        """The reply of the cohort's `position`-th client, counted from 0; weights count if they were announced."""
        self._waiting[position] = (reply, weight)
        while self.count in self._waiting:
            ready, its_weight = self._waiting.pop(self.count)
            for name, vector in ready.items():
                self._sums[name] = self._sums[name] + vector if self.count else vector
                if self._weigh:
                    part = vector * its_weight
                    self._weighted[name] = self._weighted[name] + part if self.count else part
            self._weight += its_weight if self._weigh else 1.0
            self.count += 1

    def mean(self, name: str) -> Tensor:
        """The (weighted) mean over the clients that replied."""
        return self._whole(self._weighted if self._weigh else self._sums, name) / self._weight

    def spread(self, name: str) -> Tensor:
        """The sum over the clients that replied, divided by the number of all clients."""
        return self._whole(self._sums, name) / self.population

    def _whole(self, sums: Vectors, name: str) -> Tensor:
        if name not in sums and not self._waiting:
            raise FedhaltError(f"no reply has {name!r}; the replies have {', '.join(sums) or 'nothing'}")
        if self._waiting:
            raise FedhaltError(f"{name!r}: {self.count} replies are in, {len(self._waiting)} wait for one before them")
        return sums[name]
