"""The average of the last global models: what to ship where single rounds jump with their cohorts.

`Window` keeps the last models and is exact; `Running` keeps two means, and covers between half of its rounds and all of
them. Neither looks at data, and neither is changed in place: a round that could not be recorded did not take place.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from ..errors import FedhaltError, brief, whole
from .arrays import CHUNK, Array, chunks, dense, is_finite, shape
from .blocks import Arrays, Block

RAM_LIMIT = 2 * 2**30
"""Bytes of models kept in memory; beyond that they are kept in temporary files."""

Parts = dict[str, Arrays]
"""Arrays to be saved under names that never mean anything else: what was saved once need not be saved again."""

Facts = dict[str, Any]
"""What else there is to save: plain data."""

Read = Callable[[str], Arrays]
"""The arrays of a part that was saved."""


class Average(Protocol):
    """The mean of the last rounds."""

    @property
    def setting(self) -> int | str:
        """What `make_average` makes it from, in one spelling: 10, or "running:10"."""

    @property
    def covers(self) -> int:
        """How many rounds the average covers now."""

    @property
    def last(self) -> Arrays:
        """Arrays with the names and shapes of the models so far; empty before the first."""

    def added(self, model: Mapping[str, Any]) -> Average:
        """With one more round."""

    def mean(self) -> Arrays:
        """The average so far, under the model's own names."""

    def distance(self, start: Mapping[str, Any]) -> float:
        """How far the average is from the start, over the arrays of the start."""

    def saved(self) -> tuple[Facts, Parts]:
        """Everything a restarted server needs."""

    def loaded(self, facts: Facts, read: Read) -> Average:
        """What was saved."""


def make_average(setting: object) -> Average:
    """The average that was asked for: 10, or "running:10".

    >>> make_average(10), make_average("10").setting, make_average("running:10").setting
    (Window(rounds=10), 10, 'running:10')
    """
    if isinstance(setting, str):
        found = re.fullmatch("(running:)?([0-9]{1,18})", setting)
        if found is None or (found[1] and int(found[2]) < 2):
            raise FedhaltError(f"average must be a number of rounds such as 10, or 'running:10', not {brief(setting)}")
        if found[1]:
            return Running(int(found[2]))
        setting = int(found[2])
    return Window(whole("average", setting))


def same_arrays(model: Mapping[str, Any], before: Mapping[str, Array]) -> dict[str, Any]:
    """The arrays of a model that the models before it have too; one that is gone or has another shape is refused."""
    for name, array in before.items():
        found = shape(model[name]) if name in model else None
        if found != array.shape:
            now = "is missing now" if found is None else f"has {found} now"
            raise FedhaltError(f"{name!r} is averaged, had shape {array.shape} in the model before and {now}")
    return {name: model[name] for name in before} if before else dict(model)


@dataclass(frozen=True)
class Window:
    """The exact mean of the last `rounds` models, each of which is kept."""

    rounds: int
    models: tuple[Arrays, ...] = ()
    count: int = 0
    """How many were added so far."""

    def __repr__(self) -> str:
        return f"Window(rounds={self.rounds})"

    @property
    def setting(self) -> int:
        return self.rounds

    @property
    def covers(self) -> int:
        return len(self.models)

    @property
    def last(self) -> Arrays:
        return self.models[-1] if self.models else {}

    def added(self, model: Mapping[str, Any]) -> Window:
        arrays = {name: dense(leaf) for name, leaf in model.items()}
        in_files = self.rounds * sum(array.nbytes for array in arrays.values()) > RAM_LIMIT
        try:
            kept = {name: _kept(array, in_files) for name, array in arrays.items()}
        except OSError as error:
            raise FedhaltError(
                f"the last {self.rounds} models do not fit into files in {tempfile.gettempdir()} ({error}): point "
                f"TMPDIR to a larger disk, or keep two models with average='running:{self.rounds}'"
            ) from None
        return replace(self, models=(*self.models, kept)[-self.rounds :], count=self.count + 1)

    def finite(self) -> tuple[Window, list[int]]:
        """Without the models in which an array is not finite that is so in another one; and the places of the rest.

        An array that is finite in none, such as a mask of infinities, does not count.
        """
        finite = [{name for name, array in model.items() if is_finite(array)} for model in self.models]
        places = [place for place, names in enumerate(finite) if names == set().union(*finite)]
        return replace(self, models=tuple(self.models[place] for place in places)), places

    def mean(self) -> Arrays:
        return {name: _mean([model[name] for model in self.models]) for name in self.models[-1]}

    def distance(self, start: Mapping[str, Any]) -> float:
        return _distance([(1, model) for model in self.models], start)

    def saved(self) -> tuple[Facts, Parts]:
        first = self.count - len(self.models) + 1
        return {"count": self.count}, {f"average-{first + index}": model for index, model in enumerate(self.models)}

    def loaded(self, facts: Facts, read: Read) -> Window:
        last = facts["count"]
        numbers = range(max(0, last - self.rounds) + 1, last + 1)
        return replace(self, models=tuple(read(f"average-{number}") for number in numbers), count=last)


@dataclass(frozen=True)
class Running:
    """The mean of between half and all of the last `rounds` models, from the means of two blocks in a row."""

    rounds: int
    full: Block = field(default_factory=Block)
    filling: Block = field(default_factory=Block)
    count: int = 0

    @property
    def setting(self) -> str:
        return f"running:{self.rounds}"

    @property
    def covers(self) -> int:
        return self.full.count + self.filling.count

    @property
    def last(self) -> Arrays:
        return self.filling.mean

    def added(self, model: Mapping[str, Any]) -> Running:
        full, filling = self.full, self.filling
        if filling.count >= -(-self.rounds // 2):
            full, filling = filling, Block()
        return replace(self, full=full, filling=filling.added(model), count=self.count + 1)

    def mean(self) -> Arrays:
        return self.full.merged(self.filling).mean if self.full.count else self.filling.mean

    def distance(self, start: Mapping[str, Any]) -> float:
        blocks = [block for block in (self.full, self.filling) if block.count]
        return _distance([(block.count, block.mean) for block in blocks], start)

    def saved(self) -> tuple[Facts, Parts]:
        facts = {"count": self.count, "full": self.full.count, "filling": self.filling.count}
        parts = {f"average-to-{self.count}": self.filling.mean, f"average-half-{self._end()}": self.full.mean}
        return facts, {name: mean for name, mean in parts.items() if mean}

    def loaded(self, facts: Facts, read: Read) -> Running:
        made = replace(self, filling=Block(facts["filling"]), count=facts["count"])
        parts = {"filling": f"average-to-{made.count}", "full": f"average-half-{made._end()}"}
        for kind, part in parts.items():
            if facts[kind]:
                made = replace(made, **{kind: Block(facts[kind], mean=read(part))})  # type: ignore[arg-type]
        return made

    def _end(self) -> int:
        """How many models there were when the full block was."""
        return self.count - self.filling.count


@np.errstate(over="ignore", invalid="ignore")
def _distance(summands: list[tuple[int, Arrays]], start: Mapping[str, Any]) -> float:
    """The distance of a mean from the start, piece by piece: the mean itself is never made.

    A summand is an array that stands for so many models: one model, or the mean of some.
    """
    total, counts = 0.0, [count for count, _ in summands]
    for name, leaf in sorted(start.items()):
        first, arrays = dense(leaf), [arrays[name] for _, arrays in summands]
        kind = np.float64 if np.float64 in (first.dtype, arrays[0].dtype) else np.float32
        for pieces in zip(chunks(first), *map(chunks, arrays), strict=True):
            gap = _gap(pieces[0], pieces[1:], counts, kind)
            part = float(np.dot(gap, gap))
            if not 1e-25 < part < math.inf:  # in float32 something may have under- or overflowed
                gap = _gap(pieces[0], pieces[1:], counts, np.float64)
                part = float(np.dot(gap, gap))
            total += part
    return math.sqrt(total)


def _gap(first: Array, pieces: Sequence[Array], counts: list[int], kind: type[np.floating[Any]]) -> Array:
    """The mean of the pieces without the first."""
    total = np.multiply(pieces[0], kind(counts[0]), dtype=kind)
    for count, piece in zip(counts[1:], pieces[1:], strict=True):
        np.add(total, piece if count == 1 else piece * kind(count), out=total)
    total *= kind(1 / sum(counts))
    total -= first
    return total


def _kept(array: Array, in_file: bool) -> Array:
    """A copy in the array's own precision: in memory, or in a file without a name that goes with it."""
    if not in_file or array.nbytes < 2**16:
        return np.array(array, order="C", copy=True)
    with tempfile.TemporaryFile() as file:
        np.ascontiguousarray(array).tofile(file)  # not through the map: a full disk must be an error, not a signal
        file.flush()
        kept: Array = np.memmap(file, array.dtype, "r", shape=array.shape)
    return kept


def _mean(arrays: list[Array]) -> Array:
    """The mean in float32 or float64, added up in float64, piece by piece."""
    first = arrays[0]
    mean: Array = np.empty(first.shape, np.float64 if first.dtype == np.float64 else np.float32)
    flat = mean.reshape(-1)
    for index, pieces in enumerate(zip(*map(chunks, arrays), strict=True)):
        total = pieces[0].astype(np.float64)
        for piece in pieces[1:]:
            total += piece
        total /= len(arrays)
        flat[index * CHUNK : index * CHUNK + total.size] = total
    return mean
