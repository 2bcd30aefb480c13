"""Data-free early stopping for federated learning: the server watches only its own parameters."""

from importlib import import_module
from types import ModuleType

from .check import FedhaltError, MissingExtra
from .distance import squared_distance
from .rules import (
    AllOf,
    AnyOf,
    Budget,
    Difference,
    ForwardGrowth,
    GrowthAuthors,
    GrowthRate,
    Plateau,
    RelativeUpdate,
    Rule,
    Status,
    TwoStages,
    Wandering,
    WeightDiff,
    replay,
    stop_round,
)
from .stopper import EarlyStopper
from .trajectory import Trajectory

__all__ = [
    "AllOf",
    "AnyOf",
    "Budget",
    "Difference",
    "EarlyStopper",
    "FedhaltError",
    "ForwardGrowth",
    "GrowthAuthors",
    "GrowthRate",
    "MissingExtra",
    "Plateau",
    "RelativeUpdate",
    "Rule",
    "Status",
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
    """The parts that need torch are imported when they are asked for."""
    if name in ("methods", "toy"):
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module 'fedhalt' has no attribute {name!r}")
