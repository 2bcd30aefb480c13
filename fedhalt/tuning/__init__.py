"""Many configurations, two rules, one budget: spaces, plans, trials, sweeps."""

from .plans import Plan, plan
from .sweeps import Sweep, best, sweep
from .trial import Trial

__all__ = ["Plan", "Sweep", "Trial", "best", "plan", "sweep"]
