"""Steps rules over rows, live or recorded. This is the only place that loops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ..errors import FedhaltError
from . import motion
from .base import Row, Rule, State, Status, next_round
from .columns import Table, are_finite, blocks_of, rounds
from .trigger import OnSignal


class Record(Protocol):
    """Anything that holds recorded rows, such as a Trajectory."""

    @property
    def rows(self) -> Sequence[Row]:
        """One mapping of columns per round."""


class Stepper:
    """Steps several rules over the same rows, one row at a time, and tells what the model is doing.

    Args:
        rules: The rules.
        explain: Whether to add the exponent and the motion to each status.

    Examples:
        >>> from fedhalt.rules import Stepper
        >>> from fedhalt import Budget, GrowthRate
        >>> stepper = Stepper([GrowthRate(0.3, 2), Budget(3)])
        >>> [stepper.step({"distance": float(r)}) for r in range(1, 7)]
        [[], [], [1], [], [], [0]]
        >>> {index: status.round for index, status in stepper.fired.items()}
        {1: 3, 0: 6}
    """

    def __init__(self, rules: Sequence[Rule], explain: bool = True) -> None:
        self.rules, self.explain = list(rules), explain
        self.state: State = {"round": 0, "rules": [rule.begin() for rule in self.rules], "motion": motion.begin()}
        """Everything the next step needs: JSON-able, never changed in place, so an earlier one can be put back."""
        self.statuses: list[Status] = []
        """The verdict of every rule on the last row."""
        self.fired: dict[int, Status] = {}
        """The rules, by position, that have fired so far, with the verdict of their stop round."""
        self.motion = motion.Motion()

    def step(self, row: Row) -> list[int]:
        """Steps every rule, including those that have fired.

        Args:
            row: The recorded columns of the round.

        Returns:
            The positions of the rules that fire for the first time in this row.

        Raises:
            FedhaltError: If a column that a rule reads is missing or not a number.
        """
        r = next_round(self.state, row)
        stepped = [rule.step(state, row) for rule, state in zip(self.rules, self.state["rules"], strict=True)]
        moved, statuses = self.state["motion"], [status for _, status in stepped]
        if self.explain:
            moved, self.motion = motion.step(moved, r, row)
            exponent, word = self.motion
            statuses = [Status(*status[:6], exponent, word) for status in statuses]
        self.state = {"round": r, "rules": [state for state, _ in stepped], "motion": moved}
        self.statuses = statuses
        fresh = [index for index, status in enumerate(statuses) if status.stop and index not in self.fired]
        self.fired |= {index: statuses[index] for index in fresh}
        return fresh


def replay(rule: Rule, values: Record | Iterable[Row] | Iterable[float]) -> Iterator[Status]:
    """Replays a rule over a record.

    Args:
        rule: The rule.
        values: A `Trajectory`, rows (mappings of columns), or plain numbers: the one column that the rule reads, from
            round 1 on.

    Yields:
        The status of every round, including those after the stop, with what the model was doing.

    Raises:
        FedhaltError: If a column that the rule reads is missing or not a number.

    Examples:
        >>> from fedhalt import GrowthRate, replay
        >>> [status.streak for status in replay(GrowthRate(0.1, 2), [1.0, 2.0, 3.0, 3.1, 3.2])]
        [0, 0, 0, 1, 2]
    """
    return _replayed(rule, _rows(rule, values))


def _replayed(rule: Rule, rows: Iterable[Row]) -> Iterator[Status]:
    state, moved = rule.begin(), motion.begin()
    for row in rows:
        state, status = rule.step(state, row)
        moved, (exponent, word) = motion.step(moved, status.round, row)
        yield Status(*status[:6], exponent, word)


def end_status(rule: Rule, rows: Sequence[Row]) -> Status | None:
    """The status of the stop round, or of the last round if the rule never stops; None if there is no round.

    It is the one that `replay` yields. A rule on a signal, over a table of columns, makes no status for the other
    rounds.
    """
    if isinstance(rule, OnSignal) and type(rule).step is OnSignal.step and isinstance(rows, Table) and len(rows):
        _, status = rule.run(rule.begin(), rounds(rule, rows.blocks()))
        return Status(*status[:6], *motion.at(rows, status.round))
    end = None
    for end in _replayed(rule, rows):
        if end.stop:
            break
    return end


def stop_round(rule: Rule, values: Record | Iterable[Row] | Iterable[float]) -> int | None:
    """The round at which a rule stops a record.

    Args:
        rule: The rule.
        values: A `Trajectory`, rows (mappings of columns), or plain numbers: the one column that the rule reads, from
            round 1 on.

    Returns:
        The first round that stops, or None if none does.

    Raises:
        FedhaltError: If a column that the rule reads is missing or not a number.

    Examples:
        >>> from fedhalt import GrowthRate, stop_round
        >>> stop_round(GrowthRate(0.1, 2), [1.0, 2.0, 3.0, 3.1, 3.2])
        5
    """
    state = rule.begin()
    for row in _rows(rule, values):
        state, status = rule.step(state, row)
        if status.stop:
            return status.round
    return None


class Trace(NamedTuple):
    """A signal over a record: everything a trigger needs, for any threshold and patience.

    Attributes:
        rounds: The rounds.
        signals: The signal of each of these rounds.
        reasons: The words for a full streak (if the signal was zero throughout, and otherwise), with the position from
            which they hold.
        diverged: The position of the first round that ends the run whatever the signal says, or None.
        problem: Why the record cannot be judged after these rounds; empty if all of it can.

    Examples:
        >>> from fedhalt import GrowthRate
        >>> from fedhalt.rules import trace
        >>> trace(GrowthRate(), [{"distance": 1.0}, {"distance": 1.5}]).signals
        [None, 0.5]
    """

    rounds: list[int]
    signals: list[float | None]
    """The signal of each of these rounds."""
    reasons: list[tuple[int, tuple[str, str]]]
    """The words for a full streak, with the position from which they hold."""
    diverged: int | None
    """The position of the first round that ends the run whatever the signal says."""
    problem: str
    """Why the record cannot be judged after these rounds; empty if all of it can."""


def trace(rule: OnSignal, rows: Table | Sequence[Row]) -> Trace:
    """Computes a rule's signal over all rows that it can judge.

    Args:
        rule: A rule on a signal, such as `GrowthRate()`.
        rows: The recorded rows.

    Returns:
        The signal by round. Try any threshold and patience on it without stepping the rule again.

    Examples:
        >>> from fedhalt.rules import trace
        >>> from fedhalt import GrowthRate
        >>> trace(GrowthRate(), [{"distance": d} for d in (1.0, 2.0, 3.0)]).signals
        [None, 1.0, 0.5]
    """
    numbered: list[int] = []
    signals: list[float | None] = []
    reasons: list[tuple[int, tuple[str, str]]] = []
    diverged: int | None = None
    problem, words = "", ("", "")
    after, step = rule.signal.begin(), rule.signal.step
    # what is the same in all rounds is looked at once: whether one may diverge, whether the words may change
    ending = type(rule).diverged is not OnSignal.diverged or not are_finite(blocks_of(rows), rule.reads)
    changing = type(rule).reason is not OnSignal.reason
    try:
        for index, (r, now) in enumerate(rounds(rule, blocks_of(rows))):
            after, signal = step(after, r, now)
            numbered.append(r)
            signals.append(signal)
            if ending and diverged is None and rule.diverged(now, after):
                diverged = index
            if changing or not index:
                here = rule.reason(True, after), rule.reason(False, after)
                if here != words:
                    words = here
                    reasons.append((index, words))
    except FedhaltError as error:
        problem = str(error)
    return Trace(numbered, signals, reasons, diverged, problem)


def _rows(rule: Rule, values: Any) -> Iterator[Row]:
    rows, reads = getattr(values, "table", getattr(values, "rows", values)), rule.reads
    if isinstance(rows, (str, bytes)) or not isinstance(rows, Iterable):
        raise FedhaltError(f"replay takes a Trajectory, rows or numbers, not {values!r}; a file: Trajectory.load(path)")
    return (_row(row, reads) for row in rows)


def _row(row: Any, reads: tuple[str, ...]) -> Row:
    if isinstance(row, Mapping):
        return row
    if len(reads) > 1:
        raise FedhaltError(f"this rule reads {', '.join(reads)}: give it rows with these columns, not numbers")
    return {column: row for column in reads}
