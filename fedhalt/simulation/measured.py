"""What is measured of every round of a run, from its models alone, and what a resumed run needs for that."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import FedhaltError
from ..measure.average import Facts, make_average
from ..measure.distance import MEASURED, Meter
from ..measure.drift import COLUMNS as DRIFTS
from ..measure.tail import AVERAGE_DISTANCE, Tail, average_for
from ..methods.vector import Vectors
from .engine import Round

UPDATE = "update"
"""The part with the last update; the others are those of the average and the drift."""


class Measured:
    """Distance, movement, drift and average of the global models, round after round."""

    def __init__(self, theta0: Tensor, average: int | str | None, read: Collection[str] = ()) -> None:
        self._asked, self._reads = average is not None, AVERAGE_DISTANCE in read
        self._meter = Meter(theta0, MEASURED)
        self._average_over(average_for(average, read))
        self.finite = True
        """Whether the model that was measured last is."""

    def _average_over(self, average: int | str | None) -> None:
        self.average = make_average(average).setting if average is not None else None
        self._tail = Tail.of(DRIFTS, average)

    def measure(self, done: Round) -> dict[str, Any]:
        """This round's columns. From here on the round belongs to the average and the drift."""
        x = done.state["x"]
        now = self._meter.leaves(x)
        measured = self._meter.measure(now)
        self.finite = math.isfinite(measured["distance"])
        if self.finite:
            self._tail = self._tail.added({"x": x, **done.shared}, {"x": x})
        self._meter.keep(now)
        return {**measured, **self._tail.columns({"x": self._meter.start["array"]})}

    @property
    def averages(self) -> bool:
        """Whether there is an average: it was asked for, and a round was finite."""
        return self._tail.average is not None and self._tail.average.covers > 0

    def mean(self) -> tuple[Tensor, Vectors]:
        """The average of the last rounds: parameters and shared vectors."""
        arrays = {name: torch.from_numpy(np.array(array)) for name, array in self._tail.mean().items()}
        return arrays.pop("x"), arrays

    def saved(self) -> tuple[Facts, Vectors]:
        """Everything a resumed run needs besides the state of its last round."""
        facts, parts = self._tail.saved()
        parts[UPDATE] = self._meter.update
        pairs = ((f"{part}.{name}", array) for part, arrays in parts.items() for name, array in arrays.items())
        return {**facts, "setting": self.average}, {name: torch.from_numpy(array) for name, array in pairs}

    def restore(self, x: Tensor, facts: Facts, vectors: Vectors) -> None:
        """Goes on after the round whose model is x; an average of another length begins anew, unless a rule reads it:
        then the one that was begun goes on, and to ask for another is an error."""
        parts: dict[str, dict[str, Any]] = {}
        for name, vector in vectors.items():
            part, _, own = name.partition(".")
            parts.setdefault(part, {})[own] = vector.numpy()
        self._meter.keep(self._meter.leaves(x))
        self._meter.update = parts.get(UPDATE, {})
        was = facts.get("setting")
        begun = make_average(was).setting if was is not None else None
        if self._reads and begun is not None and begun != self.average:
            if self._asked:
                raise FedhaltError(
                    f"the run was begun with an average of {begun}, which a rule reads, not of {self.average}: leave "
                    f"average out, or give {begun}"
                )
            self._average_over(begun)
        same = begun == self.average
        before = Tail(self._tail.average if same else None, self._tail.drift)
        if "drift" in facts:  # version 0.1 recorded none
            before = before.loaded(facts, parts.__getitem__)
            self._tail = before if same else Tail(self._tail.average, before.drift)
