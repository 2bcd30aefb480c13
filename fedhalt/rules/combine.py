"""A fixed budget, and rules made of rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

from ..check import FedhaltError, whole
from .base import Row, Rule, State, Status, next_round


def is_rule(value: object) -> bool:
    """Whether it is a rule: made, not a class or a name."""
    return callable(getattr(value, "step", None)) and not isinstance(value, type)


@dataclass(frozen=True)
class Budget:
    """A fixed number of rounds: what federated learning does today (the paper's R = 500)."""

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


@dataclass(frozen=True, init=False)
class Combination(ABC):
    """Skeleton: steps every rule and remembers which have fired, and why."""

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
        """Whether that many fired rules stop the run."""

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
            r, lead.value, lead.growth, len(fired), stop, " and ".join(dict.fromkeys(fired)) if stop else ""
        )
        return {"round": r, "states": states, "reasons": reasons}, verdict


@dataclass(frozen=True, init=False)
class AnyOf(Combination):
    """Stops when the first of its rules has; streak counts those that fired, value and growth are the first rule's."""

    def enough(self, fired: int) -> bool:
        return fired >= 1


@dataclass(frozen=True, init=False)
class AllOf(Combination):
    """Stops when each of its rules has fired, in this round or an earlier one."""

    def enough(self, fired: int) -> bool:
        return fired == len(self.rules)


@dataclass(frozen=True, init=False)
class TwoStages(AnyOf):
    """Two rules of a trial: the first ends a hopeless one ("screened"), the second one that is done (its own reason).

    Where both fire in one round the trial is screened; a run that diverged is hopeless whoever says so. `HOPELESS`
    holds the reasons that mean it.

    >>> from fedhalt import GrowthRate, TwoStages, Wandering, replay
    >>> thrown_about = [{"distance": 1.0, "update_norm": 1.0}] * 9
    >>> next(s for s in replay(TwoStages(Wandering(0.5, 2), GrowthRate(1e-9, 9)), thrown_about) if s.stop).reason
    'screened'
    """

    HOPELESS: ClassVar[tuple[str, ...]] = ("screened", "diverged")

    def __init__(self, screen: Rule, converge: Rule) -> None:
        super().__init__(screen, converge)

    def step(self, state: State, row: Row) -> tuple[State, Status]:
        after, status = super().step(state, row)
        screened, done = after["reasons"]
        if not status.stop:
            return after, status
        diverged = "diverged" in (screened, done)
        return after, status._replace(reason="diverged" if diverged else "screened" if screened else done)
