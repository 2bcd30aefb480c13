"""EarlyStopping around a Flower strategy of either API; `attach` for strategies with a start() of their own."""

from __future__ import annotations

import os
from functools import partial
from types import SimpleNamespace
from typing import Any, ClassVar, TypeVar

from flwr.server.strategy import Strategy as LegacyStrategy
from flwr.serverapp.strategy import Strategy

from ...arrays import Patterns
from ...check import FedhaltError
from ...rules import Rule, Status
from ...stopper import EarlyStopper
from .state import levels
from .watch import Watch

TREES = ("FedXgbBagging", "FedXgbCyclic", "FedXgbNnAvg")
"""Flower's strategies that send trees: what is sent has no distance from its start."""

Given = TypeVar("Given")


class EarlyStopping:
    """A strategy that ends the run by itself: `EarlyStopping(FedAdam(…), threshold=0.01, patience=10)`.

    It is the outermost wrapper, so that it watches the model as it is published, after any noise. The
    options are those of `fedhalt.EarlyStopper`; `trajectory` names a file that every round is recorded
    in, `state` a folder from which a run goes on after the server was killed. Strategies of the legacy
    API (`flwr.server.strategy`) are wrapped alike.
    """

    hooks: ClassVar[tuple[str, ...]]
    """The methods of the strategy that are wrapped."""

    def __new__(cls, strategy: Any = None, *args: Any, **options: Any) -> EarlyStopping:
        if cls is not EarlyStopping:  # one of the two kinds, being copied
            return object.__new__(cls)
        kind = _kind(strategy)
        if isinstance(strategy, Strategy) and type(strategy).start is not Strategy.start:
            name = type(strategy).__name__
            raise FedhaltError(f"{name} has a start() of its own, which EarlyStopping would pass by: use attach(…)")
        made: EarlyStopping = object.__new__(kind)
        return made

    def __init_subclass__(cls, **options: Any) -> None:
        if not issubclass(cls, (Strategy, LegacyStrategy)):
            raise FedhaltError(f"{cls.__name__}: EarlyStopping goes around a strategy, it is not to be derived from")

    def __init__(
        self,
        strategy: Any,
        threshold: float | None = None,
        patience: int | None = None,
        *,
        rule: Rule | None = None,
        start_from_round: int | None = None,
        check_finite: bool | None = None,
        include: Patterns = None,
        exclude: Patterns = None,
        trajectory: str | os.PathLike[str] | None = None,
        state: str | os.PathLike[str] | None = None,
    ) -> None:
        settings = {"rule": rule, "start_from_round": start_from_round, "check_finite": check_finite}
        checked = EarlyStopper(None, threshold, patience, **settings).rule  # type: ignore[arg-type]
        self.strategy = strategy
        self.watch = Watch(strategy, checked, include, exclude, trajectory, state)

    @property
    def status(self) -> Status | None:
        """The verdict on the last round, None before the first."""
        return self.watch.status


def attach(strategy: Given, *settings: Any, **options: Any) -> Given:
    """Puts early stopping into this very strategy, whose own start() is kept, and returns it.

    Settings and options are those of EarlyStopping. At the stop start() ends where it is, in
    `configure_train`, and a normal Result is returned; the verdict is `strategy.early_stopping.status`.
    """
    kind = _kind(strategy)
    stopping = object.__new__(kind)
    EarlyStopping.__init__(stopping, strategy, *settings, **options)
    stopping.strategy = SimpleNamespace(**{name: getattr(strategy, name) for name in kind.hooks})
    if isinstance(strategy, Strategy):
        strategy.start = partial(stopping.run, strategy.start)  # type: ignore
    for name in kind.hooks:
        setattr(strategy, name, getattr(stopping, name))
    strategy.early_stopping = stopping  # type: ignore[attr-defined]
    return strategy


def _kind(strategy: Any) -> Any:
    """Which of the two wrappers goes around it; strategies that send no weights are refused."""
    from .legacy import LegacyStopping  # both stand on this module
    from .message import MessageStopping

    if not isinstance(strategy, (Strategy, LegacyStrategy)):
        raise FedhaltError(f"early stopping goes around a Flower strategy such as FedAvg(), not {strategy!r}")
    if isinstance(strategy, EarlyStopping) or "early_stopping" in vars(strategy):
        raise FedhaltError(f"this {type(strategy).__name__} stops early already")
    for depth, level in enumerate(levels(strategy)):
        names = {base.__name__ for base in type(level).__mro__}
        if names & set(TREES):
            raise FedhaltError(
                f"{type(level).__name__} sends trees, not weights: they have no distance from the start to watch; "
                "use a weight-based strategy such as FedAvg"
            )
        if depth and "FedMethod" in names:
            raise FedhaltError(
                f"{type(strategy).__name__} clips and averages models, but FedMethod's clients reply with updates of "
                "several kinds; wrap one of Flower's strategies instead"
            )
    return MessageStopping if isinstance(strategy, Strategy) else LegacyStopping
