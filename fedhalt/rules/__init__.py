"""Stopping rules, each a few pure lines; `RULES` gives them their names on the command line."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..check import FedhaltError, known
from .base import Row, Rule, State, Status
from .combine import AllOf, AnyOf, Budget, Combination, TwoStages
from .forward import ForwardGrowth
from .growth import GrowthAuthors, GrowthRate
from .movement import Difference, RelativeUpdate, WeightDiff
from .plateau import Plateau
from .replay import replay, stop_round
from .wandering import Wandering

__all__ = [
    "RULES",
    "AllOf",
    "AnyOf",
    "Budget",
    "Difference",
    "ForwardGrowth",
    "GrowthAuthors",
    "GrowthRate",
    "Plateau",
    "RelativeUpdate",
    "Row",
    "Rule",
    "State",
    "Status",
    "TwoStages",
    "Wandering",
    "WeightDiff",
    "create",
    "from_json",
    "replay",
    "stop_round",
    "to_json",
]

RULES: dict[str, Callable[..., Rule]] = {
    "growth": GrowthRate,
    "growth-authors": GrowthAuthors,
    "val-loss": partial(Plateau, "val_loss"),
    "val-accuracy": partial(Plateau, "val_accuracy"),
    "difference": Difference,
    "relative-update": RelativeUpdate,
    "weight-diff": WeightDiff,
    "wandering": Wandering,
    "forward": ForwardGrowth,
    "budget": Budget,
}

TYPES: dict[str, Callable[..., Rule]] = {
    rule.__name__: rule
    for rule in (
        GrowthRate,
        GrowthAuthors,
        Plateau,
        Difference,
        RelativeUpdate,
        WeightDiff,
        Wandering,
        ForwardGrowth,
        Budget,
        AnyOf,
        AllOf,
        TwoStages,
    )
}


def create(name: str, **settings: Any) -> Rule:
    """The rule of that name: `create("growth", threshold=0.005)`."""
    make = RULES[known("rule", name, RULES)]
    for setting in settings:
        known(f"setting of the rule {name}", setting, accepts(name))
    return make(**settings)


def accepts(name: str) -> list[str]:
    """The settings that the rule of that name takes."""
    return [key for key in inspect.signature(RULES[name]).parameters if key != "column"]


def to_json(rule: Rule) -> dict[str, Any]:
    """A rule as plain data: its type and its settings."""
    if isinstance(rule, Combination):
        return {"type": type(rule).__name__, "rules": [to_json(child) for child in rule.rules]}
    settings: dict[str, Any] = dataclasses.asdict(rule) if dataclasses.is_dataclass(rule) else {}
    return {"type": type(rule).__name__, **settings}


def from_json(data: Any) -> Rule:
    """The rule that `to_json` described."""
    if not isinstance(data, Mapping) or data.get("type") not in TYPES:
        raise FedhaltError(f"not a rule of fedhalt: {data!r}; pass your own rule as rule=…")
    settings = {key: value for key, value in data.items() if key != "type"}
    try:
        if "rules" in settings:
            return TYPES[data["type"]](*map(from_json, settings["rules"]))
        return TYPES[data["type"]](**settings)
    except TypeError as error:
        raise FedhaltError(f"not the settings of {data['type']}: {settings!r} ({error})") from None
