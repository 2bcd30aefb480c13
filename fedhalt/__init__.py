"""Data-free early stopping for federated learning: the server looks only at its own parameters."""

from importlib import import_module
from types import ModuleType

from .errors import FedhaltError, MissingExtra
from .measure.distance import squared_distance
from .records.trajectory import Trajectory
from .rules import (
    AllOf,
    AnyOf,
    AverageGrowth,
    Budget,
    Difference,
    Drift,
    ForwardGrowth,
    GrowthAuthors,
    GrowthRate,
    Megabytes,
    Minutes,
    Plateau,
    RelativeUpdate,
    Rule,
    Status,
    Target,
    TwoStages,
    Wandering,
    WeightDiff,
    replay,
    stop_round,
)
from .stopper import EarlyStopper

__all__ = [
    "AllOf",
    "AnyOf",
    "AverageGrowth",
    "Budget",
    "Difference",
    "Drift",
    "EarlyStopper",
    "FedhaltError",
    "ForwardGrowth",
    "GrowthAuthors",
    "GrowthRate",
    "Megabytes",
    "Minutes",
    "MissingExtra",
    "Plateau",
    "RelativeUpdate",
    "Rule",
    "Status",
    "Target",
    "Trajectory",
    "TwoStages",
    "Wandering",
    "WeightDiff",
    "replay",
    "squared_distance",
    "stop_round",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> ModuleType:
    """Imports the packages that need torch when they are first used."""
    if name in ("methods", "simulation", "tuning"):
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module 'fedhalt' has no attribute {name!r}")
