"""Rules made of rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from ..errors import FedhaltError
from .base import Row, Rule, State, Status, is_rule, next_round


@dataclass(frozen=True, init=False)
class Combination(ABC):
    """Base class: steps every rule and remembers which have fired, and why."""

    rules: tuple[Rule, ...]

    def __init__(self, *rules: Rule) -> None:
        name = type(self).__name__
        if not rules:
            raise FedhaltError(f"{name} needs at least one rule: {name}(GrowthRate(), Budget(500))")
        for rule in rules:
            if not is_rule(rule):
                raise FedhaltError(f"{name} takes rules one by one, {name}(GrowthRate(), Budget(500)), not {rule!r}")
        object.__setattr__(self, "rules", rules)

    @property
    def reads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(column for rule in self.rules for column in rule.reads))

    @abstractmethod
    def enough(self, fired: int) -> bool:
        """Whether this many fired rules stop the run."""

    def begin(self) -> State:
        return {"round": 0, "states": [rule.begin() for rule in self.rules], "reasons": [""] * len(self.rules)}

    def step(self, state: State, row: Row) -> tuple[State, Status]:
        r = next_round(state, row)
        row = {**row, "round": r}
        states: list[Any] = []
        reasons: list[str] = []
        lead: Status | None = None
        for rule, before, reason in zip(self.rules, state["states"], state["reasons"], strict=True):
            after, status = rule.step(before, row)
            states.append(after)
            reasons.append(reason or (status.reason or "stopped" if status.stop else ""))
            lead = lead or status
        fired = [reason for reason in reasons if reason]
        stop = self.enough(len(fired))
        assert lead is not None
        verdict = Status(
            r, lead.value, lead.signal, len(fired), stop, " and ".join(dict.fromkeys(fired)) if stop else ""
        )
        return {"round": r, "states": states, "reasons": reasons}, verdict


@dataclass(frozen=True, init=False)
class AnyOf(Combination):
    """Stops when the first of its rules fires.

    In its statuses, `streak` counts the rules that have fired; `value` and `signal` are those of the first rule.

    Args:
        *rules: At least one rule.

    Raises:
        FedhaltError: If there is no rule, or one of them is not a rule.

    Examples:
        >>> from fedhalt import AnyOf, Budget, GrowthRate, stop_round
        >>> stop_round(AnyOf(GrowthRate(0.1, 2), Budget(4)), [1.0, 2.0, 3.0, 3.1, 3.2])
        4
    """

    def enough(self, fired: int) -> bool:
        return fired >= 1


@dataclass(frozen=True, init=False)
class AllOf(Combination):
    """Stops when each of its rules has fired, in this round or an earlier one.

    Args:
        *rules: At least one rule.

    Raises:
        FedhaltError: If there is no rule, or one of them is not a rule.

    Examples:
        >>> from fedhalt import AllOf, Budget, GrowthRate, stop_round
        >>> stop_round(AllOf(GrowthRate(0.1, 2), Budget(4)), [1.0, 2.0, 3.0, 3.1, 3.2])
        5
    """

    def enough(self, fired: int) -> bool:
        return fired == len(self.rules)


@dataclass(frozen=True, init=False)
class TwoStages(AnyOf):
    """The two rules of a tuning trial: the first ends hopeless trials, the second ends trials that are done.

    The reason is "screened" if the first rule fires, otherwise that of the second. If both fire in the same round, the
    trial is screened. A run that diverged keeps the reason "diverged".

    Args:
        screen: The rule that ends hopeless trials.
        converge: The rule that ends trials that are done.

    Raises:
        FedhaltError: If one of them is not a rule.

    Examples:
        >>> from fedhalt import GrowthRate, TwoStages, Wandering, replay
        >>> back_and_forth = [{"distance": 1.0, "update_norm": 1.0}] * 9
        >>> next(s for s in replay(TwoStages(Wandering(0.5, 2), GrowthRate(1e-9, 9)), back_and_forth) if s.stop).reason
        'screened'
    """

    def __init__(self, screen: Rule, converge: Rule) -> None:
        super().__init__(screen, converge)

    def step(self, state: State, row: Row) -> tuple[State, Status]:
        after, status = super().step(state, row)
        if not status.stop:
            return after, status
        screened, done = after["reasons"]
        if "diverged" in (screened, done):
            return after, status._replace(reason="diverged")
        return after, status._replace(reason="screened" if screened else done)


def is_hopeless(reason: str, screened: bool = False) -> bool:
    """Whether a run that ended should be discarded: because it was screened, or because it diverged.

    Args:
        reason: The reason of the stop.
        screened: Whether a screening rule fired, if the reason is that rule's own.

    Returns:
        True if the run is hopeless. Any other run that a rule ended is done and keeps its result.

    Examples:
        >>> from fedhalt.rules import is_hopeless
        >>> is_hopeless("diverged"), is_hopeless("wandering", screened=True), is_hopeless("saturated")
        (True, True, False)
    """
    return screened or reason in ("screened", "diverged")
