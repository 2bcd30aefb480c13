"""From parameters of any framework to numbers, with numpy only."""

from .distance import Meter, squared_distance

__all__ = ["Meter", "squared_distance"]
