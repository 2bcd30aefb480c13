"""What is kept of the last rounds besides the distance: their average, which can be shipped, and their drift."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import FedhaltError
from .arrays import Array, is_finite
from .average import Average, Facts, Parts, Read, make_average, same_arrays
from .blocks import Arrays
from .drift import COLUMNS as DRIFTS
from .drift import DriftMeter
from .rebuild import floating_arrays

AVERAGE_DISTANCE = "distance_average"
"""The column with the distance of the average from the start."""

COLUMNS = (*DRIFTS, AVERAGE_DISTANCE)
"""What is measured of the last rounds; a rule may read it."""

ROUNDS = 10
"""How many rounds are averaged for a rule that reads the average's distance, if nobody says."""

STATISTICS = ("running_mean", "running_var")
"""Where BatchNorm keeps what it has seen."""


@dataclass(frozen=True)
class Tail:
    """The average and the drift of the last rounds, or None for either; never changed in place."""

    average: Average | None = None
    drift: DriftMeter | None = None
    fresh: bool = True
    """Whether the last round is part of the average."""

    @classmethod
    def of(cls, columns: Iterable[str], average: int | str | None = None) -> Tail:
        """The average that was asked for, and the drift with it or if somebody reads that."""
        drifts = average is not None or any(column in DRIFTS for column in columns)
        return cls(make_average(average) if average is not None else None, DriftMeter() if drifts else None)

    def added(self, params: Any, watched: Mapping[str, Any]) -> Tail:
        """With the finite model of one more round; the drift is that of the watched arrays."""
        average, drift, fresh = self.average, self.drift, True
        if average is not None:
            model = _averaged(floating_arrays(params), average.last, watched)
            if not average.covers:
                _warn_of_statistics(model)
            fresh = bool(model)
            if fresh:
                average = average.added(model)
        return Tail(average, drift.added(watched) if drift is not None else None, fresh)

    def columns(self, start: Mapping[str, Array]) -> dict[str, Any]:
        """What is recorded of a round."""
        found: dict[str, Any] = dict(self.drift.columns) if self.drift is not None else {}
        if self.average is not None:
            found[AVERAGE_DISTANCE] = self.average.distance(start) if self.average.covers and self.fresh else None
        return found

    def mean(self) -> Arrays:
        """The average of the last rounds."""
        if self.average is None:
            raise FedhaltError("no average is kept: EarlyStopper(start=params, …, average=10)")
        if not self.average.covers:
            raise FedhaltError("there is no average before the first finite round; model('last') is what there is")
        return self.average.mean()

    def saved(self) -> tuple[Facts, Parts]:
        """Everything a restarted server needs."""
        facts: Facts = {}
        parts: Parts = {}
        for name, kept in (("average", self.average), ("drift", self.drift)):
            if kept is not None:
                facts[name], more = kept.saved()
                parts |= more
        return facts, parts

    def loaded(self, facts: Facts, read: Read) -> Tail:
        """What was saved."""
        average = self.average.loaded(facts["average"], read) if self.average is not None else None
        return Tail(average, self.drift.loaded(facts["drift"], read) if self.drift is not None else None)


def average_for(average: int | str | None, columns: Iterable[str]) -> int | str | None:
    """What is averaged: what was asked for, or ten rounds if the average's distance is read."""
    return ROUNDS if average is None and AVERAGE_DISTANCE in columns else average


def _averaged(model: dict[str, Any], before: Mapping[str, Any], watched: Mapping[str, Any]) -> dict[str, Any]:
    """What is averaged of a model whose watched arrays are finite; nothing if another array has ceased to be.

    An array that is not finite from the beginning, such as a mask of infinities, is no part of the average.
    """
    if not before:
        return {name: leaf for name, leaf in model.items() if name in watched or is_finite(leaf)}
    same = same_arrays(model, before)
    return same if all(name in watched or is_finite(leaf) for name, leaf in same.items()) else {}


def _warn_of_statistics(model: Mapping[str, Any]) -> None:
    if found := [name for name in model if name.endswith(STATISTICS)]:
        warnings.warn(
            f"the average holds BatchNorm statistics ({found[0]}, …), averaged too: they may not fit the averaged "
            "weights; estimate them again at the clients (docs/choosing.md)",
            stacklevel=2,
        )
