"""The rows of a record in memory: in blocks of rounds, column by column, as compact as their numbers."""

from __future__ import annotations

import itertools
import numbers
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

from ..errors import FedhaltError, brief
from ..rules.columns import are_rounds
from . import lines

SIZE = 4096
"""Rounds of a block."""

WHOLE = range(-(2**63), 2**63)
"""Whole numbers are recorded in 64 bits."""


class ColumnBlock:
    """Rounds that recorded the same columns in the same order. A column of floats or of whole numbers is an array."""

    def __init__(self, columns: dict[str, Sequence[Any]]) -> None:
        self.columns = columns

    @classmethod
    def of(cls, entries: Sequence[Mapping[str, Any]]) -> ColumnBlock | None:
        """Packs rounds; None if their columns differ."""
        names = tuple(entries[0])
        if not all(map(names.__eq__, map(tuple, entries))):
            return None
        columns = zip(*(entry.values() for entry in entries), strict=True)
        return cls(dict(zip(names, map(_compact, columns), strict=True)))

    def __len__(self) -> int:
        return len(self.columns["round"])

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = tuple(self.columns)
        return (dict(zip(names, values, strict=True)) for values in zip(*self.columns.values(), strict=True))

    def __getitem__(self, place: int) -> dict[str, Any]:
        return {name: values[place] for name, values in self.columns.items()}

    def values(self, name: str) -> Sequence[Any]:
        """One column; None where it was not recorded."""
        return self.columns[name] if name in self.columns else [None] * len(self)

    def replaced(self, name: str, by: str) -> ColumnBlock:
        return ColumnBlock({**self.columns, name: self.values(by)})

    def follows(self, last: int) -> bool:
        """Whether all rounds are as `Table.checked` returns them."""
        first, *others = self.columns
        if first != "round" or not lines.RESERVED.isdisjoint(others) or not are_rounds(self.columns["round"], last):
            return False
        mixed = [values for values in self.columns.values() if not isinstance(values, array)]
        return all(value in WHOLE for values in mixed for value in values if type(value) is int)


class EntryBlock:
    """Rounds as they were recorded, each with columns of its own."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self.entries = entries

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self.entries)

    def __getitem__(self, place: int) -> dict[str, Any]:
        return self.entries[place]

    def values(self, name: str) -> Sequence[Any]:
        """One column; None where it was not recorded."""
        return [entry.get(name) for entry in self.entries]

    def replaced(self, name: str, by: str) -> EntryBlock:
        return EntryBlock([{**entry, name: entry.get(by)} for entry in self.entries])


class Table(Sequence[dict[str, Any]]):
    """The rows of a record: one mapping per round with every column, made when it is asked for."""

    def __init__(self) -> None:
        self.names: dict[str, None] = {"round": None}
        """All columns, `round` first."""
        self.last = 0
        """The last round."""
        self._blocks: list[ColumnBlock | EntryBlock] = []
        self._starts: list[int] = []

    def checked(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """The next round as it will be recorded, `round` first."""
        r = row.get("round", self.last + 1)
        if type(r) is not int and (isinstance(r, bool) or not isinstance(r, numbers.Integral)):
            raise FedhaltError(f"round {brief(r)}: rounds are whole numbers, counted from 1")
        if r <= self.last:
            raise FedhaltError(f"round {brief(r)} after round {self.last}: rounds count from 1 and only grow")
        entry = {"round": None, **row}  # in the first place
        entry["round"] = int(r)
        if not lines.RESERVED.isdisjoint(entry):
            raise FedhaltError(f"a column cannot be called {' or '.join(sorted(lines.RESERVED))}: rename it")
        for name, value in entry.items():
            if type(value) is int and value not in WHOLE:
                raise FedhaltError(f"{name!r} is a whole number beyond 64 bits, too large to be recorded")
        return entry

    def append(self, entry: dict[str, Any]) -> None:
        """Adds the next round, as `checked` returned it."""
        if not entry.keys() <= self.names.keys():
            self.names |= dict.fromkeys(entry)
        self.last = entry["round"]
        newest = self._blocks[-1] if self._blocks else None
        if not isinstance(newest, EntryBlock) or len(newest) == SIZE:
            newest = EntryBlock([])
            self._add(newest)
        newest.entries.append(entry)
        if len(newest) == SIZE:
            self._blocks[-1] = ColumnBlock.of(newest.entries) or newest

    def extend(self, block: ColumnBlock) -> None:
        """Adds the next rounds at once, which `follows` has checked."""
        self._add(block)
        self.names |= dict.fromkeys(block.columns)
        self.last = block.columns["round"][-1]

    def blocks(self) -> Iterator[ColumnBlock | EntryBlock]:
        """All rounds, with every column; no block is empty."""
        return map(self._padded, self._blocks)

    def entries(self) -> Iterator[dict[str, Any]]:
        """Every round with the columns that it recorded."""
        return itertools.chain.from_iterable(self._blocks)

    def values(self, name: str) -> Sequence[Any]:
        """One column; None where it was not recorded."""
        if len(self._blocks) == 1:
            return self._blocks[0].values(name)
        return [value for block in self._blocks for value in block.values(name)]

    def until(self, last: int) -> Table:
        """The rounds up to this one."""
        kept = Table()
        for entry in itertools.takewhile(lambda entry: entry["round"] <= last, self.entries()):
            kept.append(entry)
        kept.names = self.names
        return kept

    def replaced(self, name: str, by: str) -> Table:
        """The same rounds with another column under this name."""
        made = Table()
        for block in self._blocks:
            made._add(block.replaced(name, by))
        made.names, made.last = self.names | {name: None}, self.last
        return made

    def __len__(self) -> int:
        return self._starts[-1] + len(self._blocks[-1]) if self._blocks else 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return itertools.chain.from_iterable(self.blocks())

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, index: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        if isinstance(index, slice):
            return [self[place] for place in range(*index.indices(len(self)))]
        place = range(len(self))[index]
        block = bisect_right(self._starts, place) - 1
        return {**dict.fromkeys(self.names), **self._blocks[block][place - self._starts[block]]}

    def _padded(self, block: ColumnBlock | EntryBlock) -> ColumnBlock | EntryBlock:
        """The same rounds with every column, in order; None where a round did not record it."""
        if isinstance(block, EntryBlock):
            empty = dict.fromkeys(self.names)
            return EntryBlock([{**empty, **entry} for entry in block])
        whole = list(block.columns) == list(self.names)
        return block if whole else ColumnBlock({name: block.values(name) for name in self.names})

    def _add(self, block: ColumnBlock | EntryBlock) -> None:
        self._starts.append(len(self))
        self._blocks.append(block)


def _compact(values: Sequence[Any]) -> Sequence[Any]:
    """The same values; as an array if they are all floats, or all whole numbers of 64 bits."""
    kinds = set(map(type, values))
    if kinds == {float}:
        return array("d", values)
    if kinds == {int} and min(values) in WHOLE and max(values) in WHOLE:
        return array("q", values)
    return values
