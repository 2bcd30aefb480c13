"""What every adapter does, written once: theta_0, the verdict after a round, record, state folder, average, log lines.

An adapter keeps one `Watch` and tells it three things: `begin` with the parameters before round 1, `update` after every
aggregation, `end`. How a stop reaches the framework is the adapter's own business. See docs/adapters.md.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypedDict, Unpack

from ..errors import FedhaltError, flag
from ..measure.arrays import Patterns
from ..measure.average import make_average
from ..measure.tail import average_for
from ..records.judging import DRIFT
from ..records.stored import named
from ..records.trajectory import Trajectory
from ..rules import Rule, Status, from_json
from ..stopper import EarlyStopper
from ..views.words import SIGNALS, format_stop
from .host import LOG, StateFolder, format_status, require, show_lines

__all__ = ["Options", "Watch", "require"]


class FurtherOptions(TypedDict, total=False):
    """What `Options` holds beside threshold and patience, which adapters take by position too."""

    rule: Rule | Mapping[str, Any] | None
    start_from_round: int | None
    check_finite: bool | None
    include: Patterns
    exclude: Patterns
    trajectory: str | os.PathLike[str] | None
    overwrite: bool
    state: str | os.PathLike[str] | None
    average: int | str | None


class Options(FurtherOptions, total=False):
    """The options that every adapter takes, with the meaning they have in `EarlyStopper`.

    Attributes:
        threshold: The threshold of the paper's rule. Default: 0.01.
        patience: For how many rounds in a row growth must stay below the threshold. Default: 10.
        rule: Another rule, in place of the paper's, or what `fedhalt.rules.to_json` makes of one.
        start_from_round: The first round that counts toward the patience. Default: 1.
        check_finite: Whether a model that is not finite stops the run as "diverged". Default: True.
        include: Glob patterns of the arrays to measure. Default: all floating-point arrays.
        exclude: Glob patterns of arrays to leave out.
        trajectory: A file in which every round is recorded.
        overwrite: Whether a trajectory of an earlier run may be replaced. Default: False.
        state: A folder from which the run resumes after a kill.
        average: Keep the mean of the last models: 10 for the last ten (exact), or "running:10", which keeps only two.
            Default: none; 10 for a rule that reads the average.

    Examples:
        >>> from fedhalt.integrations.seam import Options, Watch
        >>> options: Options = {"threshold": 0.02, "patience": 5}
        >>> Watch(**options).rule
        GrowthRate(threshold=0.02, patience=5, start_from_round=1, check_finite=True)
    """

    threshold: float | None
    patience: int | None


class Watch:
    """One run under a rule, fed by an adapter.

    Args:
        framework: The framework's logger, whose handlers show fedhalt's lines if the app has set up no logging.
        **options: See `Options`.

    Raises:
        FedhaltError: If an option is out of range, or the trajectory exists.

    Examples:
        >>> from fedhalt.integrations.seam import Watch
        >>> import numpy as np
        >>> watch = Watch(threshold=0.3, patience=2, average=2)
        >>> watch.begin(np.zeros(1), budget=9)
        >>> for r in range(1, 10):
        ...     if watch.update(np.full(1, float(r)), round=r).stop:
        ...         break
        >>> watch.end()
        >>> watch.told, watch.model("average")
        ('stopped after round 6 (growth below threshold; model still moving)', array([5.5]))
    """

    def __init__(self, framework: str = "", **options: Unpack[Options]) -> None:
        self.framework = framework
        self.trajectory, self.state = options.pop("trajectory", None), options.pop("state", None)
        self.average, self.overwrite = options.pop("average", None), options.pop("overwrite", False)
        self.include, self.exclude = options.pop("include", None), options.pop("exclude", None)
        rule = options.pop("rule", None)
        rule = from_json(rule) if isinstance(rule, Mapping) else rule
        self.rule: Rule = EarlyStopper(None, rule=rule, **options).rule  # type: ignore[misc, arg-type]
        if self.state is not None and not isinstance(self.state, (str, os.PathLike)):
            raise FedhaltError(f"state must be the path of a folder, not {self.state!r}")
        self.average = average_for(self.average, self.rule.reads)
        if self.average is not None:
            self.average = make_average(self.average).setting  # a mistake is said here, not in round 1
        flag("overwrite", self.overwrite)
        if self.state is None:
            self._require_no_record()
        self.stopper: EarlyStopper | None = None
        self.status: Status | None = None
        """The verdict on the last round, None before the first."""
        self.folder: StateFolder | None = None

    def begin(self, start: Any, budget: int | None = None, done: int | None = None) -> None:
        """Begins with the parameters before round 1, or resumes from the state folder.

        A run that the rule has already ended is then `stopped`.

        Args:
            start: theta_0. A resumed run measures from the one that was saved.
            budget: The rounds that the framework was asked for, if it says so.
            done: The rounds that the framework itself has restored, if it says so: 0 for a new run.

        Raises:
            FedhaltError: If the folder holds another run, or the framework and the folder are at different places.
        """
        self.open()
        try:
            if done is not None:
                self._require_same_place(done)
            if self.stopper is None:
                self.create(start, budget)
                self.save()
        except BaseException:
            self.end()
            raise

    def open(self) -> None:
        """Takes the state folder and, if it holds this run, the stopper in it."""
        self.end()
        self.stopper = self.status = None
        show_lines(self.framework)
        self.folder = self.make_folder() if self.state is not None else None
        try:
            if self.folder is not None and self.folder.saved:
                self.resume(self.folder)
                saved = self.begun.round
                after = "which stopped it" if self.stopped else f"resuming with round {saved + 1}"
                LOG.info("fedhalt: %s holds this run up to round %s, %s", self.folder.path, saved, after)
            else:
                self._require_no_record()
        except BaseException:
            self.end()
            raise

    def create(self, start: Any, budget: int | None) -> None:
        """A new stopper, and a new record."""
        if self.trajectory is not None and os.path.exists(self.trajectory):
            os.unlink(self.trajectory)  # an earlier run's, which may be overwritten, or one without a round
        self.stopper = EarlyStopper(
            start,
            rule=self.rule,
            include=self.include,
            exclude=self.exclude,
            trajectory=self.trajectory,
            average=self.average,
            budget=budget,
        )
        if self.trajectory is not None:
            LOG.info("fedhalt: recording in %s", os.path.abspath(self.trajectory))

    def make_folder(self) -> StateFolder:
        assert self.state is not None
        return StateFolder(self.state)

    def resume(self, folder: StateFolder) -> None:
        """The saved run, if it was begun with the same options."""
        if self.trajectory is not None and not os.path.exists(self.trajectory):
            raise FedhaltError(f"{self.trajectory} is gone, in which {folder.path} recorded its rounds: put it back")
        stopper = EarlyStopper.load(folder.path, rule=self.rule, trajectory=self.trajectory)
        if stopper.average != self.average:
            raise FedhaltError(f"{folder.path} was saved with average={stopper.average}, not {self.average}")
        if stopper.patterns != self.patterns:
            raise FedhaltError(
                f"{folder.path} was saved with include, exclude = {stopper.patterns}, not {self.patterns}"
            )
        self.stopper, self.status = stopper, stopper.status

    def update(self, params: Any, round: int | None = None, **columns: Any) -> Status:
        """Judges, records, saves and logs a round.

        Args:
            params: The parameters after this round, with the same names and shapes as at the start.
            round: The framework's number of the round, from 1. A round that was judged before a kill is not judged
                again. Default: the next round.
            **columns: Other numbers to record, such as the clients' metrics. Rules can read them.

        Returns:
            The status of the round. Tell the framework to end if its `stop` is true.

        Raises:
            FedhaltError: If the parameters do not match the start.
        """
        stopper = self.begun
        if round is not None and self.status is not None and round <= self.status.round:
            return self.status
        numbered = {} if round is None else {"round": round}
        return self.judged(stopper.update(params, **numbered, **columns))

    def judged(self, status: Status, save: bool = True) -> Status:
        """Logs the verdict, then saves the round."""
        self.status = status
        LOG.info("fedhalt: %s", self.line)
        if save:
            self.save()
        return status

    def save(self) -> None:
        """Saves the round in the state folder, if there is one."""
        if self.folder is not None:
            self.folder.save(self.begun)

    def end(self) -> None:
        """Lets go of the state folder."""
        if self.folder is not None:
            self.folder.close()

    @property
    def begun(self) -> EarlyStopper:
        """The stopper of a run that has begun."""
        if self.stopper is None:
            raise FedhaltError("the run has not begun: call begin(start) with the parameters before round 1")
        return self.stopper

    @property
    def stopped(self) -> bool:
        """Whether the rule has ended the run."""
        return self.status is not None and self.status.stop

    @property
    def patterns(self) -> list[Any]:
        """Which arrays are measured, as the folder holds it."""
        return [list(each) if isinstance(each, (list, tuple)) else each for each in (self.include, self.exclude)]

    @property
    def averages(self) -> bool:
        """Whether there is an average to ship."""
        return self.average is not None and self.stopper is not None and self.stopper.round > 0

    def model(self, which: str = "average", like: Any = None) -> Any:
        """The model to ship: `EarlyStopper.model`, in the structure of `like`."""
        return self.begun.model(which, like=like)

    @property
    def metrics(self) -> dict[str, float]:
        """The last round for the framework's own metrics: the distance, the rule's signal, exponent, drift, streak."""
        if self.status is None:
            return {}
        signal = SIGNALS.get(named(self.rule).name, "signal").replace(" ", "_")
        found = {
            next(iter(self.rule.reads), "value"): self.status.value,
            signal: self.status.signal,
            "exponent": self.status.exponent,
            "drift": self.begun.drift.get(DRIFT),
            "streak": self.status.streak,
        }
        return {f"fedhalt/{name}": float(value) for name, value in found.items() if value is not None}

    @property
    def line(self) -> str:
        """The verdict on the last round, as it is logged."""
        drift = self.begun.drift.get(DRIFT)
        return format_status(self.status, self.rule, drift) if self.status else "no round yet"

    @property
    def told(self) -> str:
        """When and why the run was stopped; empty if it was not."""
        if self.status is None or not self.status.stop:
            return ""
        reason = format_stop(self.status.reason, self.status.motion, named(self.rule).name)
        return f"stopped after round {self.status.round} ({reason})"

    def _require_no_record(self) -> None:
        """A record is not overwritten, unless it may be, or a kill before round 1 left it empty."""
        if self.trajectory is None or self.overwrite or not os.path.exists(self.trajectory):
            return
        if self.state is None or len(Trajectory.load(self.trajectory)):
            raise FedhaltError(
                f"{os.path.abspath(self.trajectory)} exists already: remove it, name another, give overwrite=True, or "
                "resume its run with state=FOLDER"
            )

    def _require_same_place(self, done: int) -> None:
        """The framework goes on where the folder is, or a little before: rounds it repeats are not judged again."""
        saved = self.stopper.round if self.stopper is not None else 0
        if self.state is None:
            if done:
                LOG.warning("fedhalt: without state=FOLDER the distance counts from the model after round %s", done)
        elif done > saved or done == 0 < saved:
            does = f"resumes after round {done}" if done else "starts over"
            raise FedhaltError(
                f"{os.path.abspath(self.state)} holds this run up to round {saved}, but the training {does}: resume it "
                "where it was, or name another folder"
            )
