"""Judges recorded runs: every file, every rule, every combination of its settings."""

from __future__ import annotations

import dataclasses
import difflib
import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import FedhaltError, require_one_of
from ..rules import NamedRule, Row, Status
from ..rules.step import end_status
from .stored import budget_of
from .trajectory import Trajectory

ACCURACIES = ("test_balanced_accuracy", "test_accuracy", "val_balanced_accuracy", "val_accuracy")
"""Which accuracy views show where there are several: the first of these."""
DRIFT = "drift_10"
"""The drift that views show beside the exponent: that of as many rounds as are usually averaged."""
LAST = 5
"""Evaluated rounds that the accuracy of a view is the mean of."""


@dataclass(frozen=True)
class Verdict:
    """Where one rule stops one recorded run.

    Attributes:
        file: The record.
        rule: The name of the rule.
        threshold: Its threshold, if it has one.
        patience: Its patience, if it has one.
        stop_round: The round at which it stops, or None.
        rounds: The last round. A round that failed is not recorded, but it took place.
        used: The share of the rounds up to the stop.
        reason: Why it stops; empty if it does not.
        exponent: The local exponent at the stop, or of the last round if it never stops.
        motion: The word for it.
        metrics: The recorded numbers of the stop round.
        accuracy: The mean of the last five evaluated rounds up to the stop, or up to the end if it never stops.
        metric: The column that `accuracy` is the mean of.
        average: The same metric of the averaged model, evaluated last up to the stop, if one was recorded.
        drift: drift_10 at the stop, or in the last round, if it was recorded.
        planned: The budget of the run, or its last round if none is recorded.
        saved: The share of the planned rounds after the stop.
        budget: The setting of the rule `budget`.
        checkpoint: The saved model of the stop round, if models were judged.

    Examples:
        >>> import fedhalt
        >>> from fedhalt.records import judge
        >>> from fedhalt.rules import named_rule
        >>> run = fedhalt.Trajectory({"distance": float(r)} for r in range(1, 41))
        >>> verdict = judge("run", run, named_rule("growth", threshold=0.1, patience=10))
        >>> verdict.stop_round, verdict.used, verdict.motion
        (21, 0.525, 'still moving')
    """

    file: str
    rule: str
    threshold: float | None
    patience: int | None
    stop_round: int | None
    rounds: int
    """The last round. A round that failed is not recorded, but it took place."""
    used: float
    """The share of the rounds up to the stop."""
    reason: str
    exponent: float | None
    """At the stop, or of the last round if it never stops."""
    motion: str
    metrics: dict[str, float]
    """The recorded numbers of the stop round."""
    accuracy: float | None = None
    """Mean of the last five evaluated rounds up to the stop; where it never stops, up to the end. See `accuracy_at`."""
    metric: str | None = None
    """The column that `accuracy` is the mean of."""
    average: float | None = None
    """The same metric of the averaged model, evaluated last up to the stop; None where no average was recorded."""
    drift: float | None = None
    """drift_10 at the stop, or in the last round; None where it was not recorded."""
    planned: int = 0
    """The budget of the run; its last round where none is recorded."""
    saved: float = 0.0
    """The share of the planned rounds after the stop."""
    budget: int | None = None
    """The setting of the rule `budget`."""
    checkpoint: str | None = None
    """The saved model of the stop round, if models were judged."""

    @classmethod
    def of(
        cls, file: str, named: NamedRule, rows: Sequence[Row], end: Status | None, planned: int | None = None
    ) -> Verdict:
        """Makes a verdict from the status of the stop round, or of the last round if there is none."""
        stop = end if end and end.stop else None
        row = _row(rows, stop.round) if stop else {}
        ended = row or (rows[-1] if rows else {})
        metric = accuracy_column(rows[0]) if rows else None
        last = rows[-1]["round"] if rows else 0
        planned = max(planned or 0, last)  # a later call may have allowed fewer rounds than are recorded
        return cls(
            file=file,
            rule=named.name,
            threshold=named.settings.get("threshold"),
            patience=named.settings.get("patience"),
            stop_round=stop.round if stop else None,
            rounds=last,
            used=stop.round / last if stop else 1.0,
            reason=stop.reason if stop else "",
            exponent=end.exponent if end else None,
            motion=end.motion if end else "",
            metrics=metrics(row),
            accuracy=accuracy_at(rows, stop.round if stop else None),
            metric=metric,
            average=_last(rows, f"{metric}_average", stop.round if stop else last),
            drift=metrics(ended).get(DRIFT),
            planned=planned,
            saved=1 - stop.round / planned if stop else 0.0,
            budget=named.settings.get("rounds"),
            checkpoint=row.get("checkpoint"),
        )

    def to_json(self) -> dict[str, Any]:
        """The verdict as `fedhalt replay --json` prints it. `budget` and `checkpoint` are left out where they do not
        apply.

        Returns:
            A dict that can be stored as JSON.
        """
        found = dataclasses.asdict(self)
        return {
            name: value
            for name, value in found.items()
            if value is not None or name not in ("budget", "checkpoint", "average", "drift")
        }


def judge(
    file: str, trajectory: Trajectory, named: NamedRule, column: str | None = None, planned: int | None = None
) -> Verdict:
    """Judges one record with one rule.

    Args:
        file: The name of the record, for the verdict and for errors.
        trajectory: The record.
        named: The rule.
        column: A column to read in place of the rule's first one.
        planned: The budget of the run. Default: the one in its header, or its last round.

    Returns:
        The verdict.

    Raises:
        FedhaltError: If a column that the rule reads is not recorded.

    Examples:
        >>> from fedhalt.records import judge
        >>> import fedhalt
        >>> from fedhalt.rules import named_rule
        >>> run = fedhalt.Trajectory({"norm": float(r)} for r in range(1, 41))
        >>> judge("run", run, named_rule("growth", threshold=0.1), column="norm").stop_round
        21
    """
    rows, first = trajectory.table, next(iter(named.rule.reads), None)
    if len(rows):
        _require_columns(file, trajectory, named, column)
    if column and first:
        rows = rows.replaced(first, column)
    try:
        end = end_status(named.rule, rows)
    except FedhaltError as error:
        raise FedhaltError(f"{file}: {error}") from None
    return Verdict.of(file, named, trajectory.table, end, planned or budget_of(trajectory, {}))


def _require_columns(file: str, trajectory: Trajectory, named: NamedRule, column: str | None) -> None:
    """Says which column is missing, and which one may be meant."""
    if column:
        require_one_of(f"column of {file}", column, trajectory.columns)
    first = next(iter(named.rule.reads), None)
    for needed in named.rule.reads:
        wanted = column if column and needed == first else needed
        if wanted not in trajectory.columns:
            there = [name for name in trajectory.columns if name != "round"]
            near = nearest_column(wanted, there) if needed == first else None
            hint = f"; add --column {near}" if near else ""
            listed = ", ".join(there)
            raise FedhaltError(
                f"{file}: {named.name} reads {wanted!r}, which is not recorded{hint}; recorded: {listed}"
            )


def nearest_column(wanted: str, columns: Iterable[str]) -> str | None:
    """The column that somebody else calls nearly so.

    >>> nearest_column("distance", ["round", "dist", "loss"]), nearest_column("distance", ["loss"])
    ('dist', None)
    """
    near = difflib.get_close_matches(wanted, list(columns), n=1)
    return near[0] if near else None


def with_column(file: str, trajectory: Trajectory, column: str) -> Trajectory:
    """The record with one of its columns as the distance."""
    require_one_of(f"column of {file}", column, trajectory.columns)
    return Trajectory([{**row, "distance": row[column]} for row in trajectory.rows], trajectory.header)


def accuracy_column(columns: Iterable[str]) -> str | None:
    """The accuracy that views show, of the columns that there are."""
    there = list(columns)
    return next((name for name in (*ACCURACIES, *there) if name in there and "accuracy" in name), None)


def accuracy_at(rows: Sequence[Row], r: int | None = None) -> float | None:
    """Mean of the last five evaluated rounds up to round `r`, by default the last; one lucky round is not enough.

    >>> rows = [{"round": r, "test_accuracy": None if r % 2 else r / 10} for r in range(1, 10)]
    >>> accuracy_at(rows), accuracy_at(rows, 4), accuracy_at(rows, 1)
    (0.5, 0.30000000000000004, None)
    """
    name = accuracy_column(rows[0]) if rows else None
    values: list[float] = []
    place = len(rows) if r is None else _place(rows, r)
    while name and place and len(values) < LAST:
        place -= 1
        value = rows[place].get(name)
        if isinstance(value, (int, float)):
            values.append(value)
    return math.fsum(values) / len(values) if values else None


def _last(rows: Sequence[Row], column: str, r: int) -> float | None:
    """The last number in a column up to round `r`; None where the record has no such column."""
    if not rows or column not in rows[-1]:
        return None
    there = (row.get(column) for row in reversed(rows) if row["round"] <= r)
    return next((value for value in there if isinstance(value, (int, float))), None)


def metrics(row: Mapping[str, Any]) -> dict[str, float]:
    """The recorded numbers of a round."""
    numbers = (int, float)
    return {key: value for key, value in row.items() if key != "round" and isinstance(value, numbers)}


def _row(rows: Sequence[Row], r: int) -> Row:
    place = _place(rows, r)
    return rows[place - 1] if place and rows[place - 1]["round"] == r else {}


def _place(rows: Sequence[Row], r: int) -> int:
    """How many rows there are up to round r."""
    return bisect_right(rows, r, key=lambda row: row["round"])
