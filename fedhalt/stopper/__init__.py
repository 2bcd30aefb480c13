"""EarlyStopper: theta_0, a rule and its state, the record, the average; for any training loop."""

from .folder import STATE
from .stopper import SECONDS, EarlyStopper

__all__ = ["SECONDS", "STATE", "EarlyStopper"]
