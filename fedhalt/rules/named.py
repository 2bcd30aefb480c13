"""The list of rules: their names on the command line, and rules as plain data."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..errors import FedhaltError, brief, parsed, require_one_of
from .base import Rule
from .budget import Budget
from .combine import AllOf, AnyOf, Combination, TwoStages
from .growth_authors import GrowthAuthors
from .limits import Megabytes, Minutes, Target
from .plateau import Plateau
from .signals.difference import Difference
from .signals.drift import Drift
from .signals.forward import ForwardGrowth
from .signals.growth import GrowthRate
from .signals.growth_average import AverageGrowth
from .signals.relative_update import RelativeUpdate
from .signals.wandering import Wandering
from .signals.weight_diff import WeightDiff


@dataclass(frozen=True)
class Listed:
    """A rule of the command line: how to create it, and what views and StopBench need to know about its signal.

    Args:
        make: Creates the rule from its settings.
        holds: What is compared with the threshold, as a formula.
        thresholds: A range of thresholds, from one that almost never stops to one that stops almost at once.
        log: Whether the signal is drawn on a logarithmic scale.

    Examples:
        >>> from fedhalt.rules import RULES
        >>> RULES["growth"].make(threshold=0.05).threshold
        0.05
    """

    make: Callable[..., Rule]
    holds: str = ""
    """What is compared with the threshold, as a formula."""
    thresholds: tuple[float, float] | None = None
    """A range of thresholds, from one that almost never stops to one that stops almost at once."""
    log: bool = True
    """Whether the signal is drawn on a logarithmic scale."""


RULES: dict[str, Listed] = {
    "growth": Listed(GrowthRate, "growth rate |δᵣ − δᵣ₋₁| / δᵣ₋₁", (5e-4, 0.5)),
    "growth-authors": Listed(GrowthAuthors, "signed growth rate (δᵣ − δᵣ₋₁) / δᵣ₋₁", (5e-4, 0.5)),
    "val-loss": Listed(
        partial(Plateau, "val_loss"), "fall of the validation loss below its best", (1e-4, 1), log=False
    ),
    "val-accuracy": Listed(
        partial(Plateau, "val_accuracy"),
        "rise of the validation accuracy above its best, in points",
        (1e-2, 20),
        log=False,
    ),
    "client-loss": Listed(partial(Plateau, "client_loss"), "fall of the clients' loss below its best", log=False),
    "client-accuracy": Listed(
        partial(Plateau, "client_accuracy"), "rise of the clients' accuracy above its best, in points", log=False
    ),
    "difference": Listed(Difference, "change of the distance δᵣ − δᵣ₋₁", (1e-5, 10), log=False),
    "relative-update": Listed(RelativeUpdate, "relative update ‖uᵣ‖ / δᵣ₋₁", (2e-3, 2)),
    "weight-diff": Listed(WeightDiff, "update ‖uᵣ‖ / max(‖θᵣ‖, 1)", (1e-4, 1)),
    "wandering": Listed(Wandering, "distance / random walk of the same updates", (0.03, 3)),
    "forward": Listed(ForwardGrowth, "growth of the way forward fᵣ / Fᵣ", (5e-4, 0.5)),
    "drift": Listed(Drift, "drift over scatter, 20 rounds", (1, 100)),
    "growth-average": Listed(AverageGrowth, "growth rate of the average's distance", (5e-4, 0.5)),
    "budget": Listed(Budget),
}
"""The rules by their command-line names. To add a rule, add one line here."""

BUDGETS: dict[str, Callable[[float], Rule]] = {"minutes": Minutes, "megabytes": Megabytes}
"""The rules that are named with their number, as in `minutes=90`; a target is named by what it asks for, as in
`val_accuracy>=0.8`.
"""

LIMITS = ("minutes=90", "megabytes=500", "val_accuracy>=0.8", "val_loss<=0.3")
"""Examples of these names."""


def listed(name: str) -> Listed:
    """The rule of a command-line name: one of `RULES`, or one that is named with its number.

    >>> listed("val_accuracy>=0.8").make()
    Target(column='val_accuracy', target=0.8, patience=1, higher_is_better=True)
    """
    found = re.fullmatch(r"(\w+)(=|>=|<=)(\S+)", name) if isinstance(name, str) else None
    if found is None or (found[2] == "=" and found[1] not in BUDGETS):
        return RULES[require_one_of("rule", name, [*RULES, *LIMITS])]
    value = parsed(found[3])
    if value is None:
        raise FedhaltError(f"rule {brief(name)}: {found[3]!r} is not a number; for example {', '.join(LIMITS)}")
    if found[2] == "=":
        return Listed(partial(BUDGETS[found[1]], value))
    return Listed(partial(Target, found[1], value, higher_is_better=found[2] == ">="))


def limit_name(rule: Rule) -> str | None:
    """The name of a rule that is named with its number; None for others.

    >>> limit_name(Minutes(90)), limit_name(Target("client_loss", 0.25))
    ('minutes=90', 'client_loss<=0.25')
    """
    if isinstance(rule, Target) and rule.patience == 1:
        return f"{rule.column}{'>=' if rule.higher_is_better else '<='}{_short(rule.target)}"
    return next((f"{name}={_short(getattr(rule, name))}" for name, kind in BUDGETS.items() if type(rule) is kind), None)


def _short(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def types() -> dict[str, Callable[..., Rule]]:
    """The classes of rules by the names under which files store them."""
    made = [listed.make for listed in RULES.values()]
    kinds = [make.func if isinstance(make, partial) else make for make in made]
    return {kind.__name__: kind for kind in (*kinds, AnyOf, AllOf, TwoStages, Target, *BUDGETS.values())}


def create(name: str, **settings: Any) -> Rule:
    """Creates a rule from its command-line name.

    Args:
        name: The name, such as "growth", "minutes=90" or "val_accuracy>=0.8".
        **settings: The settings of the rule, such as `threshold=0.005`.

    Returns:
        The rule.

    Raises:
        FedhaltError: If the name or a setting is unknown, or a setting is out of range.

    Examples:
        >>> from fedhalt.rules import create
        >>> create("growth", threshold=0.005)
        GrowthRate(threshold=0.005, patience=10, start_from_round=1, check_finite=True)
    """
    make = listed(name).make
    for setting in settings:
        require_one_of(f"setting of the rule {name}", setting, accepts(name))
    return make(**settings)


def accepts(name: str) -> list[str]:
    """The settings that a rule accepts.

    Args:
        name: The command-line name of the rule.

    Returns:
        The names of its settings.

    Raises:
        FedhaltError: If there is no such rule.

    Examples:
        >>> from fedhalt.rules import accepts
        >>> accepts("budget")
        ['rounds']
    """
    if name not in RULES:
        listed(name)
        return []
    return [key for key in inspect.signature(RULES[name].make).parameters if key != "column"]


def to_json(rule: Rule) -> dict[str, Any]:
    """A rule as plain data: its type and its settings.

    Args:
        rule: The rule.

    Returns:
        A dict that can be stored as JSON.

    Examples:
        >>> from fedhalt.rules import to_json
        >>> from fedhalt import Budget
        >>> to_json(Budget(3))
        {'type': 'Budget', 'rounds': 3}
    """
    if isinstance(rule, Combination):
        return {"type": type(rule).__name__, "rules": [to_json(child) for child in rule.rules]}
    settings: dict[str, Any] = dataclasses.asdict(rule) if dataclasses.is_dataclass(rule) else {}
    return {"type": type(rule).__name__, **settings}


def from_json(data: Any) -> Rule:
    """Creates the rule that `to_json` described.

    Args:
        data: The dict.

    Returns:
        The rule.

    Raises:
        FedhaltError: If it does not describe a rule of fedhalt.

    Examples:
        >>> from fedhalt.rules import from_json
        >>> from_json({"type": "Budget", "rounds": 3})
        Budget(rounds=3)
    """
    known = types()
    kind = data.get("type") if isinstance(data, Mapping) else None
    if not isinstance(kind, str) or kind not in known:
        raise FedhaltError(f"not a rule of fedhalt: {brief(data)}; pass your own rule as rule=…")
    settings = {key: value for key, value in data.items() if key != "type"}
    try:
        if "rules" in settings:
            return known[kind](*map(from_json, settings["rules"]))
        return known[kind](**settings)
    except TypeError as error:
        raise FedhaltError(f"not the settings of {kind}: {brief(settings)} ({error})") from None


@dataclass(frozen=True)
class NamedRule:
    """A rule with its command-line name and its settings.

    Args:
        name: The name.
        settings: The settings to show.
        rule: The rule.

    Examples:
        >>> from fedhalt.rules import NamedRule
        >>> from fedhalt import Budget
        >>> str(NamedRule("budget", {"rounds": 3}, Budget(3)))
        'budget rounds=3'
    """

    name: str
    settings: dict[str, Any]
    rule: Rule

    def __str__(self) -> str:
        return " ".join([self.name, *(f"{key}={value}" for key, value in self.settings.items())])


def named_rule(name: str, **settings: Any) -> NamedRule:
    """Creates one rule from its command-line name, with its name and settings.

    Args:
        name: The name, such as "growth".
        **settings: The settings of the rule, such as `threshold=0.1`.

    Returns:
        The named rule.

    Raises:
        FedhaltError: If the name or a setting is unknown, or a setting is out of range.

    Examples:
        >>> from fedhalt.rules import named_rule
        >>> str(named_rule("growth", threshold=0.1))
        'growth threshold=0.1 patience=10'
    """
    rule = create(name, **settings)
    return NamedRule(limit_name(rule) or name, shown_settings(rule), rule)


def shown_settings(rule: Rule) -> dict[str, Any]:
    """The settings that a view shows; a rule that is named with its number says them in its name."""
    if limit_name(rule) is not None:
        return {}
    return {key: getattr(rule, key) for key in ("threshold", "patience", "rounds") if hasattr(rule, key)}


def named_rules(names: Sequence[str], settings: Mapping[str, Sequence[Any]]) -> list[NamedRule]:
    """Creates every rule with every combination of the given settings that it accepts.

    Args:
        names: The names of the rules.
        settings: For each setting, the values to try.

    Returns:
        The named rules, without duplicates.

    Raises:
        FedhaltError: If a name is unknown, or no rule accepts a setting.

    Examples:
        >>> from fedhalt.rules import named_rules
        >>> [str(named) for named in named_rules(["growth", "budget"], {"threshold": [0.1, 0.01], "rounds": [3]})]
        ['growth threshold=0.1 patience=10', 'growth threshold=0.01 patience=10', 'budget rounds=3']
    """
    for name in names:
        listed(name)
    for setting, values in settings.items():
        if values and not any(setting in accepts(name) for name in names):
            raise FedhaltError(f"{' and '.join(names)} takes no {setting}, but {setting} {values[0]} was given")
    made = []
    for name in names:
        taken = {key: values for key, values in settings.items() if values and key in accepts(name)}
        for values in itertools.product(*taken.values()):
            made.append(named_rule(name, **dict(zip(taken, values, strict=True))))
    return [one for index, one in enumerate(made) if one not in made[:index]]
