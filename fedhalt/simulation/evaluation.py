"""When a run evaluates its models: in the rounds that its spec says, or only where one is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import FedhaltError
from ..rules import NamedRule, Row
from .engine import Round
from .federation import EVALUATED, HELD_OUT, Federation
from .measured import Measured
from .spec import RunSpec

EVALUATE = ("rounds", "stops")
VALIDATION = ("val_loss", "val_accuracy")
"""What rules read: None in a round that was not evaluated."""


def check_evaluation(spec: RunSpec, watch: Sequence[NamedRule], evaluate: str) -> None:
    """Rules on metrics need them in every round that the spec evaluates."""
    for named in _on_metrics(watch):
        if not spec.evaluate_every:
            raise FedhaltError(f"{named.name} reads validation metrics: set evaluate_every to 1 or more")
        if evaluate == "stops":
            raise FedhaltError(
                f"{named.name} reads validation metrics, and evaluate 'stops' leaves their curves out: take 'rounds'"
            )
    if evaluate == "stops" and not spec.evaluate_every:
        raise FedhaltError("evaluate 'stops' and evaluate_every 0, which is never: set evaluate_every to 1 or more")


def check_curves(path: Path, rows: Sequence[Row], spec: RunSpec, watch: Sequence[NamedRule]) -> None:
    """A rule on metrics would pass over rounds that were recorded with evaluate 'stops'."""
    for named in _on_metrics(watch):
        for row in rows:
            if row["round"] % spec.evaluate_every == 0 and all(row.get(name) is None for name in named.rule.reads):
                raise FedhaltError(
                    f"{path} was evaluated only at stops: {named.name} has no validation metrics of round "
                    f"{row['round']} to read; record the run in another folder (out), or judge it by rules without data"
                )


def _on_metrics(watch: Sequence[NamedRule]) -> list[NamedRule]:
    """The rules that read what only an evaluation gives."""
    return [named for named in watch if {*EVALUATED, *HELD_OUT}.intersection(named.rule.reads)]


def evaluated(
    federation: Federation, done: Round, measured: Measured, each: Callable[..., Any], only: str | None = None
) -> dict[str, float]:
    """The metrics of a round's model and, if there is one, of the average; on all data, or on one split."""
    evaluate = federation.evaluate if only is None else partial(federation.evaluate_on, only)
    found = evaluate(done.state["x"], done.shared, each)
    if measured.averages and measured.finite:
        found |= {f"{name}_average": value for name, value in evaluate(*measured.mean(), each).items()}
    return found
