"""Record once, judge many times: a rule over numbers that were recorded before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..check import FedhaltError
from .base import Row, Rule, Status
from .motion import Explained

if TYPE_CHECKING:
    from ..trajectory import Trajectory


def replay(rule: Rule, values: Trajectory | Iterable[Row] | Iterable[float]) -> Iterator[Status]:
    """The status of every round, also of those after the stop, with what the model was doing.

    `values` is a Trajectory, rows (mappings of columns), or plain numbers: the one column the rule
    reads, from round 1 on.
    """
    return _steps(Explained(rule), _rows(values))


def stop_round(rule: Rule, values: Trajectory | Iterable[Row] | Iterable[float]) -> int | None:
    """The first round that stops, or None if none does."""
    return next((status.round for status in _steps(rule, _rows(values)) if status.stop), None)


def _rows(values: Any) -> Iterable[Any]:
    rows = getattr(values, "rows", values)
    if isinstance(rows, (str, bytes)) or not isinstance(rows, Iterable):
        raise FedhaltError(f"replay takes a Trajectory, rows or numbers, not {values!r}; a file: Trajectory.load(path)")
    return rows


def _steps(rule: Rule, rows: Iterable[Any]) -> Iterator[Status]:
    state, step, reads = rule.begin(), rule.step, rule.reads
    for row in rows:
        if not isinstance(row, Mapping):
            if len(reads) > 1:
                raise FedhaltError(f"this rule reads {', '.join(reads)}: give it rows with these columns, not numbers")
            row = {column: row for column in reads}
        state, status = step(state, row)
        yield status
