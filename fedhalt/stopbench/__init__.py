"""StopBench: what every stopping rule loses and saves on the same recorded runs; see docs/stopbench.md."""

from .bench import Bench, measured, scores
from .entries import ENTRIES, Entry
from .runs import Run, load
from .score import judged

__all__ = ["ENTRIES", "Bench", "Entry", "Run", "judged", "load", "measured", "scores"]
