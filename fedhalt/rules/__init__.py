"""Stopping rules. A rule is a signal and a trigger; `RULES` lists them by their command-line names."""

from .base import Row, Rule, Signal, State, Status
from .budget import Budget
from .combine import AllOf, AnyOf, TwoStages, is_hopeless
from .growth_authors import GrowthAuthors
from .limits import Megabytes, Minutes, Target
from .named import RULES, Listed, NamedRule, accepts, create, from_json, named_rule, named_rules, to_json
from .plateau import Plateau
from .signals.difference import Difference
from .signals.drift import Drift
from .signals.forward import ForwardGrowth
from .signals.growth import GrowthRate
from .signals.growth_average import AverageGrowth
from .signals.relative_update import RelativeUpdate
from .signals.wandering import Wandering
from .signals.weight_diff import WeightDiff
from .step import Stepper, Trace, replay, stop_round, trace
from .trigger import OnSignal, SignalRule, Trigger

__all__ = [
    "RULES",
    "AllOf",
    "AnyOf",
    "AverageGrowth",
    "Budget",
    "Difference",
    "Drift",
    "ForwardGrowth",
    "GrowthAuthors",
    "GrowthRate",
    "Listed",
    "Megabytes",
    "Minutes",
    "NamedRule",
    "OnSignal",
    "Plateau",
    "RelativeUpdate",
    "Row",
    "Rule",
    "Signal",
    "SignalRule",
    "State",
    "Status",
    "Stepper",
    "Target",
    "Trace",
    "Trigger",
    "TwoStages",
    "Wandering",
    "WeightDiff",
    "accepts",
    "create",
    "from_json",
    "is_hopeless",
    "named_rule",
    "named_rules",
    "replay",
    "stop_round",
    "to_json",
    "trace",
]
