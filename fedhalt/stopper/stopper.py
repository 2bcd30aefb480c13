"""EarlyStopper: theta_0, a rule and its state, for any training loop and any array type."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .. import files, rules
from ..errors import FedhaltError, about, require_one_of, whole
from ..measure.arrays import Array, Patterns, copy
from ..measure.average import make_average
from ..measure.distance import MEASURED, Meter
from ..measure.rebuild import floating_arrays, rebuild, require_alike
from ..measure.tail import Tail, average_for
from ..records.trajectory import Trajectory
from ..rules import GrowthRate, Rule, Status, Stepper, motion
from ..rules.base import is_rule
from ..rules.earlier import state_of, status_of
from .folder import STATE, kept_or_written, read_arrays, read_state, resume_trajectory, row_digest, write_state

SECONDS = "seconds"
"""What a round took: measured if the rule reads it and nobody else did."""


class EarlyStopper:
    """Decides after every round whether to stop, from the server's own parameters.

    Args:
        start: The parameters before round 1; they are copied. Accepts numpy and JAX arrays, torch tensors and modules,
            lists, nested mappings, and Flower's `ArrayRecord` and `Parameters`. Leave it out to use only `observe`.
        threshold: The threshold of the paper's rule. Default: 0.01.
        patience: For how many rounds in a row growth must stay below the threshold. Default: 10.
        rule: Another rule, in place of the paper's. Give it its own settings.
        start_from_round: The first round that counts toward the patience. Default: 1.
        check_finite: Whether parameters that are not finite stop the run as "diverged". Default: True.
        include: Glob patterns of the arrays to measure. Default: all floating-point arrays.
        exclude: Glob patterns of arrays to leave out.
        trajectory: A new file in which every round is recorded.
        budget: The number of rounds that are planned. It is recorded, so that views can say what a stop saves.
        keep_finite: Whether to keep a copy of the last finite parameters, as `last_finite`.
        average: Keep the mean of the last models, for `model("average")`: 10 for the last ten (exact), or "running:10",
            which keeps only two and covers five to ten rounds. The drift of the rounds is then recorded too.
            Default: none; 10 for a rule that reads the average.

    Raises:
        FedhaltError: If a setting is out of range, if both a rule and settings of the paper's rule are given, or if the
            trajectory exists.

    Examples:
        >>> from fedhalt import EarlyStopper
        >>> import numpy as np
        >>> stopper = EarlyStopper(start=np.zeros(1), threshold=0.3, patience=2)
        >>> for r in range(1, 10):
        ...     if stopper.update(np.full(1, float(r))).stop:
        ...         break
        >>> stopper.round, stopper.status.reason, stopper.status.motion
        (6, 'saturated', 'still moving')
    """

    def __init__(
        self,
        start: Any = None,
        threshold: float | None = None,
        patience: int | None = None,
        *,
        rule: Rule | None = None,
        start_from_round: int | None = None,
        check_finite: bool | None = None,
        include: Patterns = None,
        exclude: Patterns = None,
        trajectory: str | os.PathLike[str] | None = None,
        budget: int | None = None,
        keep_finite: bool = False,
        average: int | str | None = None,
    ) -> None:
        settings = {
            "threshold": threshold,
            "patience": patience,
            "start_from_round": start_from_round,
            "check_finite": check_finite,
        }
        given = {name: value for name, value in settings.items() if value is not None}
        if rule is not None and given:
            raise FedhaltError(f"give {', '.join(given)} to the rule itself, or leave rule={rule!r} out")
        if rule is not None and not is_rule(rule):
            raise FedhaltError(f"rule must be a rule such as GrowthRate(0.01, 10), not {rule!r}")
        self.rule: Rule = rule if rule is not None else GrowthRate(**given)  # type: ignore[arg-type]
        self._meter = Meter(start, _columns(self.rule), include, exclude) if start is not None else None
        self._start_file: str | None = None
        self._row: str | None = None
        """The digest of the last recorded round."""
        self._finite = self._meter.start if self._meter is not None and keep_finite else None
        if average is not None and start is None:
            raise FedhaltError("an average needs the models themselves: EarlyStopper(start=params, …, average=10)")
        average = average_for(average, self.rule.reads) if start is not None else None
        self.average = make_average(average).setting if average is not None else None
        """How many rounds `model("average")` covers."""
        self._tail = Tail.of(self.rule.reads, self.average)
        self._tail_files: dict[str, str] = {}
        self._params: Any = None if isinstance(start, Iterator) else start
        self._stepper = Stepper([self.rule])
        self.status: Status | None = None
        """The verdict on the last round, None before the first."""
        self._begin = time.perf_counter()
        """When the round that is to be judged next began."""
        planned = {} if budget is None else {"budget": whole("budget", budget)}
        header = {"rule": rules.to_json(self.rule), **planned}
        self.trajectory = Trajectory.create(trajectory, **header) if trajectory else None

    @property
    def round(self) -> int:
        """The last round that was judged; 0 before the first."""
        return self.status.round if self.status else 0

    @property
    def last_finite(self) -> dict[str, Array]:
        """The measured arrays of the last round with a finite distance, by name. Before round 1: the start.

        Raises:
            FedhaltError: If the stopper was created without `keep_finite=True`.
        """
        if self._finite is None:
            raise FedhaltError("no finite parameters are kept: EarlyStopper(start=params, …, keep_finite=True)")
        return self._finite

    @property
    def patterns(self) -> list[Any]:
        """Which arrays are measured: `include` and `exclude`."""
        found = (self._meter.include, self._meter.exclude) if self._meter is not None else (None, None)
        return [list(each) if isinstance(each, (list, tuple)) else each for each in found]

    @property
    def drift(self) -> dict[str, float | None]:
        """drift_5, drift_10 and drift_20 where they are measured: with an average, or for a rule that reads one."""
        return dict(self._tail.drift.columns) if self._tail.drift is not None else {}

    def update(self, params: Any, **columns: Any) -> Status:
        """Measures this round's parameters and judges the round.

        Args:
            params: The parameters after this round, with the same names and shapes as the start.
            **columns: Other numbers to record, such as `val_loss=0.31`. Rules can read them. For a rule that reads
                `seconds`, the time since the last round is measured unless you pass it.

        Returns:
            The status of the round. End your loop if its `stop` is true.

        Raises:
            FedhaltError: If the parameters do not match the start, or the stopper has no start.
        """
        if self._meter is None:
            raise FedhaltError("this stopper has no start: EarlyStopper(start=params, …), or observe(distance)")
        params = list(params) if isinstance(params, Iterator) else params  # module.parameters() can be read only once
        now = self._meter.leaves(params)
        measured = self._meter.measure(now)
        tail = self._tail.added(params, now) if math.isfinite(measured["distance"]) else self._tail
        status = self._judge({**measured, **tail.columns(self._meter.start), **columns})
        self._tail, self._params = tail, params
        self._meter.keep(now)
        if self._finite is not None and math.isfinite(measured["distance"]):
            kept = self._meter.previous
            self._finite = kept if kept is not None else {name: copy(leaf) for name, leaf in now.items()}
        return status

    def model(self, which: str = "average", like: Any = None) -> Any:
        """The model to ship, in the structure and types that `update` was given.

        Args:
            which: "average", the mean of the last rounds, or "last", the model that `update` was given last. That one
                is not copied before you ask: if you train it further in place, you get it as it is now.
            like: A model whose structure and types to use. A stopper that was just loaded has seen no model; without
                `like` it returns a mapping of named arrays.

        Returns:
            A new model: a module, a state dict, a list, an ArrayRecord, whatever `update` was given.

        Raises:
            FedhaltError: If no average is kept, if no model was given yet, or if `like` holds other arrays.

        Examples:
            >>> from fedhalt import EarlyStopper
            >>> import numpy as np
            >>> stopper = EarlyStopper(start=[np.zeros(2)], average=2)
            >>> for r in range(1, 5):
            ...     status = stopper.update([np.full(2, float(r))])
            >>> stopper.model("average"), stopper.model("last")
            ([array([3.5, 3.5])], [array([4., 4.])])
        """
        require_one_of("model", which, ("average", "last"))
        if which == "average":
            arrays = self._tail.mean()
        elif self._params is None:
            raise FedhaltError("there is no last model: update() was given none yet, or none since the load")
        else:
            arrays = {name: copy(leaf) for name, leaf in floating_arrays(self._params).items()}
        if like is not None:
            require_alike(like, arrays)
        like = self._params if like is None else like
        return arrays if like is None else rebuild(like, arrays)

    def observe(self, distance: float | None = None, **columns: Any) -> Status:
        """Judges a round from numbers that were measured elsewhere.

        Args:
            distance: The distance from the start. For a model in shards, the square root of the sum of the shards'
                `squared_distance`.
            **columns: Other numbers of the round, such as `update_norm` or `val_loss`.

        Returns:
            The status of the round.

        Raises:
            FedhaltError: If a column that the rule reads is missing or not a number.

        Examples:
            >>> from fedhalt import EarlyStopper
            >>> stopper = EarlyStopper(threshold=0.5, patience=1)
            >>> [stopper.observe(distance).stop for distance in (1.0, 2.0, 2.5)]
            [False, False, True]
        """
        if distance is not None:
            columns = {"distance": distance, **columns}
        return self._judge(columns)

    def _judge(self, columns: dict[str, Any]) -> Status:
        before = self._stepper.state
        if SECONDS in self.rule.reads and SECONDS not in columns:
            columns = {**columns, SECONDS: round(time.perf_counter() - self._begin, 4)}
        self._stepper.step(columns)
        status = self._stepper.statuses[0]
        try:
            if self.trajectory is not None:
                row = {"round": status.round, **columns}
                self.trajectory.append(row)
                self._row = row_digest(row)
        except BaseException:
            self._stepper.state = before  # a round that was not recorded did not take place
            raise
        self.status = status
        self._begin = time.perf_counter()
        return status

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Saves everything that a restarted server needs: theta_0 once, the rule's state every time, atomically.

        When it returns, the folder and the trajectory survive a power cut.

        Args:
            folder: Where to save; it is created if needed.

        Examples:
            >>> from fedhalt import EarlyStopper
            >>> import numpy as np, tempfile
            >>> stopper = EarlyStopper(start=np.zeros(3), threshold=0.3, patience=2)
            >>> _ = stopper.update(np.ones(3))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     stopper.save(folder)
            ...     EarlyStopper.load(folder).round
            1
        """
        folder = Path(folder)
        files.make_folder(folder)
        files.clear_leftovers(folder)
        if self.trajectory is not None and self.trajectory.path is not None:
            files.clear_leftovers(self.trajectory.path.parent, self.trajectory.path.name)
            self.trajectory.sync()
        write_state(folder, self._saved(folder))

    def _saved(self, folder: Path) -> dict[str, Any]:
        """What the state of the folder says; the arrays that it names are written."""
        path = self.trajectory.path if self.trajectory is not None else None
        saved: dict[str, Any] = {
            "rule": rules.to_json(self.rule),
            "state": self._stepper.state["rules"][0],
            "motion": self._stepper.state["motion"],
            "status": self.status._asdict() if self.status else None,
            "trajectory": os.fspath(path.absolute()) if path else None,
            "recorded": len(self.trajectory or ()),
            "row": self._row,
            "arrays": {},
        }
        if self._meter is None:
            return saved
        self._start_file = kept_or_written(folder, "start", self._meter.start, self._start_file)
        saved["arrays"]["start"] = self._start_file
        kept = {"previous": self._meter.previous, "update": self._meter.update or None, "finite": self._finite}
        for kind, arrays in kept.items():
            if arrays is not None:
                saved["arrays"][kind] = kept_or_written(folder, kind, arrays, None)
        saved |= {"include": self._meter.include, "exclude": self._meter.exclude}
        return saved | {"average": self.average, "tail": self._save_tail(folder)}

    def _save_tail(self, folder: Path) -> dict[str, Any]:
        """The average and the drift; a model that is there from an earlier save is not written again."""
        facts, parts = self._tail.saved()
        before = self._tail_files
        self._tail_files = {
            part: kept_or_written(folder, part, found, before.get(part)) for part, found in parts.items()
        }
        return {"facts": facts, "files": self._tail_files}

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        rule: Rule | None = None,
        trajectory: str | os.PathLike[str] | None = None,
    ) -> EarlyStopper:
        """Resumes from a folder that `save` wrote.

        Nothing on disk changes. Rounds that were recorded after the save are moved to a separate file beside the
        trajectory when the next round is judged.

        Args:
            folder: The folder that `save` wrote.
            rule: Your own rule, if the stopper was saved with one.
            trajectory: The trajectory, if it was moved.

        Returns:
            A stopper that continues where the saved one was.

        Raises:
            FedhaltError: If the folder is incomplete or damaged, if the rule is another one, or if the trajectory lacks
                rounds.
        """
        folder = Path(folder)
        saved = read_state(folder / STATE)
        with files.taken_from(folder / STATE):
            return cls._restored(folder, saved, rule, trajectory)

    @classmethod
    def _restored(
        cls, folder: Path, saved: dict[str, Any], rule: Rule | None, trajectory: str | os.PathLike[str] | None
    ) -> EarlyStopper:
        if rule is not None and not _is_saved(rule, saved["rule"]):
            raise FedhaltError(f"{folder} was saved with the rule {saved['rule']}, not {rules.to_json(rule)}")
        with about(folder / STATE):
            stopper = cls(rule=rule if rule is not None else rules.from_json(saved["rule"]))
        # in a folder of an earlier fedhalt nobody summed the updates so far
        unknown = {**motion.begin(), "squares": None}
        stopper.status = status_of(saved["status"]) if saved["status"] else None
        stopper._stepper.state = {
            "round": stopper.round,
            "rules": [state_of(stopper.rule, saved["state"])],
            "motion": saved.get("motion", unknown),
        }
        stopper._load_arrays(folder, saved)
        if trajectory is not None and saved["trajectory"] is None and stopper.round:
            raise FedhaltError(f"{folder} was saved without a trajectory: {trajectory} would lack its rounds")
        trajectory = trajectory or saved["trajectory"]
        if trajectory is not None:
            stopper.trajectory = resume_trajectory(trajectory, folder, saved, stopper.round)
            stopper._row = saved.get("row")
        return stopper

    def _load_arrays(self, folder: Path, saved: dict[str, Any]) -> None:
        arrays = {kind: read_arrays(folder, name) for kind, name in saved["arrays"].items()}
        if not arrays:
            return
        self._meter = Meter(arrays["start"], _columns(self.rule))
        self._meter.include, self._meter.exclude = saved["include"], saved["exclude"]
        if self._meter.previous is not None:
            self._meter.previous = arrays["previous"]
        self._meter.update = arrays.get("update", {})
        self._finite = arrays.get("finite")
        self._start_file = saved["arrays"]["start"]
        self._load_tail(folder, saved)

    def _load_tail(self, folder: Path, saved: dict[str, Any]) -> None:
        with about(folder / STATE):
            self.average = make_average(saved["average"]).setting if saved.get("average") is not None else None
        self._tail = Tail.of(self.rule.reads, self.average)
        if "tail" in saved:  # version 0.1 had none
            self._tail_files = saved["tail"]["files"]
            self._tail = self._tail.loaded(
                saved["tail"]["facts"], lambda part: read_arrays(folder, self._tail_files[part])
            )


def _is_saved(rule: Rule, saved: Any) -> bool:
    """Whether this is the rule that was saved, by this version or an earlier one."""
    try:
        return files.from_json(files.to_json(rules.to_json(rule))) == saved or rules.from_json(saved) == rule
    except FedhaltError:
        return False


def _columns(rule: Rule) -> tuple[str, ...]:
    """What is measured: always the distance, the rest only if the rule reads it."""
    return tuple(column for column in MEASURED if column == "distance" or column in rule.reads)
