"""Data-free early stopping for federated learning: the server watches only its own parameters."""

from .check import FedhaltError, MissingExtra
from .distance import squared_distance
from .rules import (
    AllOf,
    AnyOf,
    Budget,
    Difference,
    GrowthAuthors,
    GrowthRate,
    Plateau,
    RelativeUpdate,
    Rule,
    Status,
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
    "GrowthAuthors",
    "GrowthRate",
    "MissingExtra",
    "Plateau",
    "RelativeUpdate",
    "Rule",
    "Status",
    "Trajectory",
    "WeightDiff",
    "replay",
    "squared_distance",
    "stop_round",
]
__version__ = "0.1.0"
