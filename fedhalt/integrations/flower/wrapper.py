"""What the two kinds of wrappers around a Flower strategy share."""

from __future__ import annotations

from typing import Any, ClassVar

from ...rules import Status
from .run import FlowerRun


class StoppingStrategy:
    """A Flower strategy that stops by itself: what `EarlyStopping` returns. For annotations and `isinstance`.

    Attributes and methods of the wrapped strategy can be used as before: `stopping.fraction_train = 0.5`,
    `stopping.set_path(…)`. Those that the wrapper has too (`run`, `status`, `model`) are in `stopping.strategy`.

    Args:
        strategy: The wrapped strategy.
        run: The state of the run.

    Examples:
        >>> from flwr.serverapp.strategy import FedAvg
        >>> from fedhalt.integrations.flower import EarlyStopping, StoppingStrategy
        >>> isinstance(EarlyStopping(FedAvg()), StoppingStrategy)
        True
    """

    hooks: ClassVar[tuple[str, ...]]
    """The methods of the strategy that are wrapped."""

    def __init__(self, strategy: Any, run: FlowerRun) -> None:
        vars(self).update(strategy=strategy, run=run)

    strategy: Any
    run: FlowerRun

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "strategy" not in vars(self):
            raise AttributeError(name)
        return getattr(self.strategy, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self):
            vars(self)[name] = value
        else:
            setattr(self.strategy, name, value)

    @property
    def status(self) -> Status | None:
        """The verdict on the last round, None before the first."""
        return self.run.status

    def model(self, which: str = "average") -> Any:
        """The model to ship, as Flower hands it out.

        Args:
            which: "average", the mean of the last rounds (with `average=` only), or "last".

        Returns:
            An `ArrayRecord`, or `Parameters` of the legacy API.

        Raises:
            FedhaltError: If there is no such model.
        """
        return self.run.shipped(which)
