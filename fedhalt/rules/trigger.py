"""The trigger: a signal below the threshold for `patience` rounds in a row. And the rule that combines it with a
signal.

Lee et al., "Beyond Fixed Rounds: Data-Free Early Stopping for Practical Federated Learning", equations (4) and (5):
kappa_r = (kappa_{r-1} + 1) if signal < tau else 0;  r* = min {r : kappa_r >= rho}. Symbols: kappa_r is the streak, tau
the threshold, rho the patience.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import FedhaltError, flag, positive, whole
from .base import Row, Signal, State, Status, next_round, number


@dataclass(frozen=True)
class Trigger:
    """Threshold and patience, the same for every signal.

    Args:
        threshold: The signal must be below it.
        patience: For how many rounds in a row.
        start_from_round: Earlier rounds are measured but do not count.
        check_finite: Whether a column that is not finite stops the run at once as "diverged". Otherwise it only resets
            the streak.

    Raises:
        FedhaltError: If a setting is out of range.

    Examples:
        >>> from fedhalt.rules import Trigger
        >>> trigger = Trigger(threshold=0.1, patience=2, start_from_round=5)
        >>> trigger.counts(4, 0.05), trigger.counts(5, 0.05), trigger.counts(6, 0.2)
        (False, True, False)
    """

    threshold: float = 0.01
    patience: int = 10
    start_from_round: int = 1
    check_finite: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "threshold", positive("threshold", self.threshold))
        object.__setattr__(self, "patience", whole("patience", self.patience))
        object.__setattr__(self, "start_from_round", whole("start_from_round", self.start_from_round))
        flag("check_finite", self.check_finite)

    def below(self, signal: Any) -> Any:
        """Whether a signal is below the threshold; also for an array of signals."""
        return signal < self.threshold

    def counts(self, r: int, signal: float | None) -> bool:
        """Whether round r extends the streak."""
        return signal is not None and r >= self.start_from_round and bool(self.below(signal))


class OnSignal:
    """Base of every rule on a signal: it reads the columns and checks whether they end the run.

    Subclasses set `signal`, from which `reads` follows, and provide `begin` and `run`; a step is a run over one round.

    Examples:
        >>> from fedhalt.rules import OnSignal
        >>> from fedhalt import GrowthRate
        >>> isinstance(GrowthRate(), OnSignal), GrowthRate.reads
        (True, ('distance',))
    """

    signal: ClassVar[Signal]
    reads: ClassVar[tuple[str, ...]] = ()

    norms: ClassVar[int] = 0
    """How many of the columns, at the beginning, cannot be negative."""

    late: ClassVar[tuple[str, ...]] = ()
    """Those of them that have no value in the first rounds."""

    def __init_subclass__(cls) -> None:
        if hasattr(cls, "signal") and not isinstance(cls.signal, property):
            cls.reads = cls.signal.reads
            cls.norms = len(cls.signal.reads) - len(cls.signal.signed)

    def columns(self, row: Row, r: int) -> tuple[float, ...]:
        """The columns that the signal reads. A late one without a value is NaN; a negative norm is an error."""
        now = tuple([
            math.nan if column in self.late and column in row and row[column] is None else number(row, column, r)
            for column in self.reads
        ])  # fmt: skip
        if self.norms and min(now[: self.norms]) < 0:
            names = " and ".join(self.reads[: self.norms])
            raise FedhaltError(f"round {r}: {names} cannot be negative, got {now[: self.norms]}")
        return now

    def run(self, state: State, rounds: Iterable[tuple[int, tuple[float, ...]]]) -> tuple[State, Status]:
        """Steps over rounds, each with its columns, until one of them stops the run.

        Args:
            state: The state after the previous round.
            rounds: At least one round.

        Returns:
            The state after the last of these rounds, and the verdict on it.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a `run`, or a `step` of its own")

    def step(self, state: State, row: Row) -> tuple[State, Status]:
        r = next_round(state, row)
        return self.run(state, [(r, self.columns(row, r))])

    words: ClassVar[tuple[str, str]] = ("frozen", "saturated")
    """The words for a full streak: if the signal was exactly zero throughout, and otherwise."""

    def diverged(self, now: tuple[float, ...], after: Any) -> bool:
        """Whether this round's columns, or the signal's state, end the run whatever the signal says."""
        return not all(map(math.isfinite, now))

    def reason(self, still: bool, after: Any) -> str:
        """The word for a full streak; `still` means that the signal was exactly zero throughout."""
        return self.words[0] if still else self.words[1]


@dataclass(frozen=True)
class SignalRule(OnSignal, Trigger):
    """A signal combined with the trigger, such as `GrowthRate(threshold=0.01, patience=10)`.

    Args:
        threshold: The signal must be below it.
        patience: For how many rounds in a row.
        start_from_round: Earlier rounds are measured but do not count.
        check_finite: Whether a column that is not finite stops the run at once as "diverged".

    Raises:
        FedhaltError: If a setting is out of range.

    Examples:
        >>> from fedhalt.rules import SignalRule
        >>> from typing import ClassVar
        >>> from fedhalt import stop_round
        >>> from fedhalt.rules.signals.growth import Growth
        >>> class Mine(SignalRule):
        ...     signal: ClassVar[Growth] = Growth()
        >>> stop_round(Mine(threshold=0.3, patience=2), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        6
    """

    def begin(self) -> State:
        return {"round": 0, "value": self.signal.begin(), "streak": 0, "still": 0}

    def run(self, state: State, rounds: Iterable[tuple[int, tuple[float, ...]]]) -> tuple[State, Status]:
        r, after, streak, still = state["round"], state["value"], state["streak"], state["still"]
        step, counts, patience = self.signal.step, self.counts, self.patience  # looked up once for all rounds
        diverged = self.diverged if self.check_finite else _never
        now: tuple[float, ...] = (math.nan,)
        signal, stop, reason = None, False, ""
        for r, now in rounds:
            after, signal = step(after, r, now)
            if counts(r, signal):
                streak, still = streak + 1, still + 1 if signal == 0 else 0
            else:
                streak = still = 0
            if diverged(now, after):
                stop, reason = True, "diverged"
                break
            if streak >= patience:
                stop, reason = True, self.reason(still >= streak, after)
                break
        kept = {"round": r, "value": after, "streak": streak, "still": still}
        return kept, Status(r, now[0], signal, streak, stop, reason)


def _never(now: tuple[float, ...], after: Any) -> bool:
    return False
