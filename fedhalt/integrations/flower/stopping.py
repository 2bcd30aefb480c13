"""EarlyStopping for a Flower strategy of either API; `attach` for strategies with their own start()."""

from __future__ import annotations

import os
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar, overload

from flwr.serverapp.strategy import FedXgbBagging, FedXgbCyclic, Strategy

from ...errors import FedhaltError
from ...measure.arrays import Patterns
from ...rules import Rule
from .encoding import loaded
from .message import MessageStopping
from .run import FlowerRun
from .state import ATTACHED, is_strategy, levels
from .wrapper import StoppingStrategy

if TYPE_CHECKING:
    from flwr.server.strategy import Strategy as LegacyStrategy

    from .legacy import LegacyStopping

LEGACY_TREES = ("FedXgbBagging", "FedXgbCyclic", "FedXgbNnAvg")
"""The legacy API's strategies that send trees."""

Attached = TypeVar("Attached")


@overload
def EarlyStopping(strategy: Strategy, *settings: Any, **options: Any) -> MessageStopping: ...
@overload
def EarlyStopping(strategy: LegacyStrategy, *settings: Any, **options: Any) -> LegacyStopping: ...
def EarlyStopping(
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
    overwrite: bool = False,
    state: str | os.PathLike[str] | None = None,
    average: int | str | None = None,
) -> Any:
    """Wraps a Flower strategy so that the run stops by itself.

    It must be the outermost wrapper, so that it sees the model as it is published, after any noise. Strategies of the
    legacy API (`flwr.server.strategy`) are wrapped in the same way.

    Args:
        strategy: The strategy.
        threshold: The threshold of the paper's rule. Default: 0.01.
        patience: For how many rounds in a row growth must stay below the threshold. Default: 10.
        rule: Another rule, in place of the paper's.
        start_from_round: The first round that counts toward the patience. Default: 1.
        check_finite: Whether a model that is not finite stops the run as "diverged". Default: True.
        include: Glob patterns of the arrays to measure. Default: all floating-point arrays.
        exclude: Glob patterns of arrays to leave out.
        trajectory: A file in which every round is recorded.
        overwrite: Whether an earlier run's trajectory may be replaced. Without it, it is an error if the file exists.
        state: A folder from which a run resumes after the server was killed.
        average: Return the mean of the last global models: 10 for the last ten (exact), or "running:10", which keeps
            only two. `model("last")` is the last global model.

    Returns:
        A strategy, which is also a `StoppingStrategy`. Use it like the original, whose attributes it has.

    Raises:
        FedhaltError: If the strategy is not supported, or a setting is out of range.

    Examples:
        >>> from flwr.serverapp.strategy import FedAdam
        >>> from fedhalt.integrations.flower import EarlyStopping
        >>> strategy = EarlyStopping(FedAdam(), threshold=0.01, patience=10)
        >>> strategy.status is None
        True
    """
    wrapper = _wrapper_for(strategy)
    if isinstance(strategy, Strategy) and type(strategy).start is not Strategy.start:
        name = type(strategy).__name__
        raise FedhaltError(f"{name} has a start() of its own, which EarlyStopping would pass by: use attach(…)")
    run = FlowerRun(
        strategy,
        threshold=threshold,
        patience=patience,
        rule=rule,
        start_from_round=start_from_round,
        check_finite=check_finite,
        include=include,
        exclude=exclude,
        trajectory=trajectory,
        overwrite=overwrite,
        state=state,
        average=average,
    )
    # Flower's log names the strategy by its class
    return type(f"EarlyStopping({type(strategy).__name__})", (wrapper,), {})(strategy, run)


def attach(strategy: Attached, threshold: float | None = None, patience: int | None = None, **options: Any) -> Attached:
    """Adds early stopping to a strategy that has its own start(), and returns the same strategy.

    At the stop, start() ends in `configure_train` and returns a normal Result. The verdict is in
    `strategy.early_stopping.status`.

    Args:
        strategy: The strategy, which is changed in place.
        threshold: The threshold of the paper's rule. Default: 0.01.
        patience: For how many rounds in a row growth must stay below the threshold. Default: 10.
        **options: The other options of `EarlyStopping`.

    Returns:
        The strategy.

    Raises:
        FedhaltError: If the strategy is not supported, or a setting is out of range.

    Examples:
        >>> from flwr.serverapp.strategy import FedAvg
        >>> from fedhalt.integrations.flower import attach
        >>> class Mine(FedAvg):
        ...     def start(self, *args, **kwargs):
        ...         return super().start(*args, **kwargs)
        >>> attach(Mine(), threshold=0.01, patience=10).early_stopping.status is None
        True
    """
    wrapper = _wrapper_for(strategy)
    own_methods = SimpleNamespace(**{name: getattr(strategy, name) for name in wrapper.hooks})
    run = FlowerRun(strategy, threshold=threshold, patience=patience, **options)
    stopping: Any = wrapper(own_methods, run)
    if isinstance(strategy, Strategy):
        strategy.start = partial(stopping.start_stoppable, strategy.start)  # type: ignore[method-assign]
    for name in wrapper.hooks:
        setattr(strategy, name, getattr(stopping, name))
    setattr(strategy, ATTACHED, stopping)
    return strategy


def _wrapper_for(strategy: Any) -> type[MessageStopping] | type[LegacyStopping]:
    """Chooses the wrapper for a strategy; strategies that send no weights are refused."""
    if not is_strategy(strategy):
        raise FedhaltError(f"early stopping goes around a Flower strategy such as FedAvg(), not {strategy!r}")
    if isinstance(strategy, StoppingStrategy) or ATTACHED in vars(strategy):
        raise FedhaltError(f"this {type(strategy).__name__} stops early already")
    legacy = tuple(loaded("flwr.server.strategy", name) for name in LEGACY_TREES)
    for depth, level in enumerate(levels(strategy)):
        if isinstance(level, (FedXgbBagging, FedXgbCyclic, *legacy)):
            raise FedhaltError(
                f"{type(level).__name__} sends trees, not weights: they have no distance from the start to watch; "
                "use a weight-based strategy such as FedAvg"
            )
        if depth and isinstance(level, loaded(f"{__package__}.method", "FedMethod")):
            raise FedhaltError(
                f"{type(strategy).__name__} clips and averages models, but FedMethod's clients reply with updates of "
                "several kinds; wrap one of Flower's strategies instead"
            )
    if isinstance(strategy, Strategy):
        return MessageStopping
    from .legacy import LegacyStopping

    return LegacyStopping
