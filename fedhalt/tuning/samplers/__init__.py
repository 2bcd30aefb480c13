"""Which configurations are tried: known beforehand (grid, random), or chosen by Optuna from what came out before."""

from __future__ import annotations

from typing import Protocol

from ..trial import Trial


class Sampler(Protocol):
    """Proposes trials and hears what became of them."""

    @property
    def total(self) -> int:
        """How many trials there will be."""

    def ask(self) -> Trial | None:
        """The next trial; None if there is none, for now or forever."""

    def waits(self) -> bool:
        """Whether it is worth asking again: another process may die and leave its trial to this one."""

    def tell(self, trial: Trial) -> None:
        """A trial ended, or was given back (interrupted)."""

    def others(self) -> list[Trial]:
        """Trials of the same search that were not asked for here: of earlier processes, and of others."""

    def close(self) -> None:
        """The sweep is over."""
