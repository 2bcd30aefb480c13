"""What is recorded of a run: trajectories, checkpoints, CSV files, and how to judge them."""

from .judging import Verdict, judge
from .opening import recorded
from .trajectory import Trajectory

__all__ = ["Trajectory", "Verdict", "judge", "recorded"]
