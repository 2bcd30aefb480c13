"""Records column by column: what a rule reads of many rounds, without a mapping per round."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from math import isfinite
from operator import lt
from typing import Any, Protocol, runtime_checkable

from .base import Row, next_round
from .trigger import OnSignal


class Block(Protocol):
    """Consecutive rounds of a record."""

    def __iter__(self) -> Iterator[Row]:
        """One mapping of columns per round."""

    def values(self, name: str) -> Sequence[Any]:
        """One column; None where a round did not record it."""


@runtime_checkable
class Table(Protocol):
    """A record that holds its columns, in blocks of rounds."""

    def blocks(self) -> Iterable[Block]:
        """All rounds; no block is empty."""

    def __len__(self) -> int:
        """The number of rounds."""


class RowBlock:
    """Rounds that are held as mappings."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def values(self, name: str) -> list[Any]:
        return [row.get(name) for row in self.rows]


def blocks_of(rows: Table | Sequence[Row]) -> Iterable[Block]:
    """The blocks of a table, or all rows as one block."""
    return rows.blocks() if isinstance(rows, Table) else [RowBlock(rows)]


def rounds(rule: OnSignal, blocks: Iterable[Block]) -> Iterator[tuple[int, tuple[float, ...]]]:
    """Every round with the columns that the signal reads."""
    return chain.from_iterable(_pieces(rule, blocks))


def _pieces(rule: OnSignal, blocks: Iterable[Block]) -> Iterator[Iterable[tuple[int, tuple[float, ...]]]]:
    """The same; a block of plain numbers, as fedhalt records them, in one piece, which is walked without Python."""
    last = 0
    for block in blocks:
        numbered, columns = block.values("round"), [block.values(name) for name in rule.reads]
        if (
            are_rounds(numbered, last)
            and all(map(are_floats, columns))
            and all(min(column) >= 0 for column in columns[: rule.norms])
        ):
            yield zip(numbered, zip(*columns, strict=True), strict=True)
            last = numbered[-1]
            continue
        for row in block:
            last = next_round({"round": last}, row)
            yield ((last, rule.columns(row, last)),)


def are_floats(values: Sequence[Any]) -> bool:
    """Whether all values are plain floats, and there are any."""
    return values.typecode == "d" if isinstance(values, array) else set(map(type, values)) == {float}


def are_finite(blocks: Iterable[Block], names: Iterable[str]) -> bool:
    """Whether all values of these columns are plain floats and finite."""
    columns = [block.values(name) for block in blocks for name in names]
    return all(are_floats(values) and all(map(isfinite, values)) for values in columns)


def are_rounds(values: Sequence[Any], last: int) -> bool:
    """Whether the values are rounds that follow the last one, and there are any."""
    whole = values.typecode == "q" if isinstance(values, array) else set(map(type, values)) == {int}
    return whole and values[0] > last and all(map(lt, values, values[1:])) and values[-1] < 2**63
