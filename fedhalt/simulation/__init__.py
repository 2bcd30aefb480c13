"""A federation in one process: data, split, model, clients, rounds, run folders."""

from .runner import run
from .spec import RunSpec, grid
from .summary import RuleSummary, RunSummary

__all__ = ["RuleSummary", "RunSpec", "RunSummary", "grid", "run"]
