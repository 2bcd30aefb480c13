"""One trial of a sweep: the job that is sent to where it is trained, and the outcome that comes back."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import rules
from ..errors import FedhaltError
from ..files import InUse, NoLock
from ..records.trajectory import Trajectory
from ..rules import NamedRule, is_hopeless
from ..simulation import spec as specs
from ..simulation.runner import Progress, run
from ..simulation.spec import RunSpec
from ..simulation.summary import RunSummary
from . import observers
from .observers import Observer
from .plans import Execution

ENDED = ("screened", "converged", "complete", "failed")
"""The final states. The others are waiting, running, interrupted, elsewhere (another process has it) and lost."""


@dataclass(frozen=True)
class Cost:
    """Rounds, their seconds, and the bytes sent."""

    rounds: float
    seconds: float
    bytes: float

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, Any]]) -> Cost:
        """What these recorded rounds cost."""
        seconds = round(sum(row["seconds"] for row in rows), 4)
        return cls(len(rows), seconds, sum(row["bytes_down"] + row["bytes_up"] for row in rows))

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.rounds + other.rounds, self.seconds + other.seconds, self.bytes + other.bytes)

    def of_further(self, rounds: int) -> Cost:
        """What this many more rounds would cost at the same pace."""
        return Cost(*(round(value / self.rounds * rounds, 4) if self.rounds else 0.0 for value in self._values()))

    def share(self, whole: Cost) -> Cost:
        """Each of the three as a share of the whole; 0 of 0 is 0."""
        pairs = zip(self._values(), whole._values(), strict=True)
        return Cost(*(value / most if most else 0.0 for value, most in pairs))

    def _values(self) -> tuple[float, float, float]:
        return self.rounds, self.seconds, self.bytes


@dataclass(frozen=True)
class Outcome:
    """How a trial ended. A trial that has not run to an end (failed, lost, elsewhere, waiting) has only a state."""

    state: str
    error: str = ""
    retry: bool = False
    """Whether it failed by what is around it, such as a full disk: the next process tries it again."""
    run: str = ""
    """The run's folder; empty if there is no run."""
    rounds: int = 0
    reason: str = ""
    value: float | None = None
    """The objective at the last round in which it was evaluated."""
    growth: float | None = None
    exponent: float | None = None
    motion: str = ""
    drift: float | None = None
    """drift_10 of the last round: how far ten rounds move, compared with how much they scatter."""
    cost: Cost | None = None
    saved: Cost | None = None
    """What the rest of the budget would have cost, if the trial ended."""

    def to_json(self) -> dict[str, Any]:
        """As `fedhalt sweep --json` prints it, and as it comes back from a worker."""
        found = dataclasses.asdict(self)
        if not self.run:
            return {name: found[name] for name in ("state", "error", "retry") if found[name]}
        return {name: {} if name in ("cost", "saved") and value is None else value
                for name, value in found.items() if name not in ("error", "retry")}  # fmt: skip

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Outcome:
        """The outcome that `to_json` described."""
        costs = {name: Cost(**data[name]) if data.get(name) else None for name in ("cost", "saved")}
        return cls(**{**data, **costs})


@dataclass
class Trial:
    """A configuration in a sweep.

    Attributes:
        number: Its number in the sweep.
        spec: What is trained.
        label: What distinguishes it from the other trials.
        outcome: How it ended.
        attempts: How often its worker died.
        token: What the sampler needs to recognize it.

    Examples:
        >>> from fedhalt.simulation import RunSpec
        >>> from fedhalt.tuning import Trial
        >>> trial = Trial(0, RunSpec(lr=0.1), "lr=0.1")
        >>> trial.state, trial.value
        ('waiting', None)
    """

    number: int
    spec: RunSpec
    label: str
    outcome: Outcome = Outcome("waiting")
    attempts: int = 0
    """How often its worker died."""
    token: Any = None
    """What the sampler needs to recognize it."""

    @property
    def state(self) -> str:
        """The state: waiting, running, screened, converged, complete, failed, interrupted, elsewhere or lost."""
        return self.outcome.state

    @property
    def value(self) -> float | None:
        """The objective. A screened trial has none."""
        return self.outcome.value if self.state in ("converged", "complete") else None


@dataclass(frozen=True)
class Job:
    """A trial as it is sent to another process or machine: what to train, with which rules, and where."""

    number: int
    spec: RunSpec
    rounds: int
    stop: str
    """As in `run`: end when the first of the rules fires, when all have, or never."""
    stages: dict[str, NamedRule]
    objective: str
    out: str
    workers: int
    device: str | None
    data_root: str | None
    average: int | str | None = None
    observers: tuple[Observer, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """The job as plain data: names and settings instead of objects."""
        stages = {
            name: {"name": stage.name, "settings": stage.settings, "rule": rules.to_json(stage.rule)}
            for name, stage in self.stages.items()
        }
        plain = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        watching = [observers.to_json(observer) for observer in self.observers]
        return {**plain, "spec": self.spec.to_json(), "stages": stages, "observers": watching}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Job:
        """The job that `to_json` described."""
        stages = {
            name: NamedRule(stage["name"], stage["settings"], rules.from_json(stage["rule"]))
            for name, stage in data["stages"].items()
        }
        watching = tuple(map(observers.from_json, data["observers"]))
        return cls(**{**data, "spec": specs.from_json(data["spec"]), "stages": stages, "observers": watching})


def make_job(
    execution: Execution, trial: Trial, stages: Mapping[str, NamedRule], *, stop: str, rounds: int,
    objective: str = "none", average: int | str | None = None, observers: Sequence[Observer] = (),
) -> Job:  # fmt: skip
    """The job of a trial. Paths become absolute, because a worker may run in another folder."""
    data_root = execution.data_root and str(Path(execution.data_root).absolute())
    return Job(
        trial.number, trial.spec, rounds, stop, dict(stages), objective, str(Path(execution.out).absolute()),
        execution.workers, execution.device, data_root, average, tuple(observers),
    )  # fmt: skip


def run_job(
    job: Job, on_round: Callable[[Progress], None] | None = None, interrupted: Callable[[], bool] = lambda: False
) -> Outcome:
    """Runs or resumes a job, and returns its outcome."""
    watch, folder = list(job.stages.values()), Path(job.out) / job.spec.id
    try:
        with contextlib.ExitStack() as around:
            config = job.spec.to_json()
            told = [around.enter_context(observer(folder, watch, config)) for observer in job.observers]

            def progress(now: Progress) -> None:
                for tell in told:
                    tell(now.row)
                if on_round is not None:
                    on_round(now)

            summary = run(
                job.spec, job.out, rounds=job.rounds, watch=watch, stop=job.stop, workers=job.workers,
                device=job.device, data_root=job.data_root, progress=progress, interrupted=interrupted,
                average=job.average,
            )  # fmt: skip
    except InUse:
        return Outcome("elsewhere")
    except (OSError, NoLock) as error:
        return Outcome("failed", str(error), retry=True)
    except FedhaltError as error:
        return Outcome("failed", str(error))
    return outcome_of(summary, list(job.stages), job.rounds, job.objective)


def outcome_of(summary: RunSummary, stages: Sequence[str], rounds: int, objective: str) -> Outcome:
    """The outcome of a run, with its cost and what the rest of the budget would have cost."""
    fired = {stage: rule.stop_round for stage, rule in zip(stages, summary.rules, strict=False)}
    if is_hopeless(summary.reason, screened=bool(fired.get("screen"))):
        state = "screened"
    elif summary.stop_round is not None:
        state = "converged"
    else:
        state = "complete" if summary.reason == "budget" else "interrupted"
    record = Trajectory.load(Path(summary.run) / "trajectory.jsonl").rows[: summary.rounds]
    cost = Cost.of(record)
    return Outcome(
        state, run=summary.run, rounds=summary.rounds, reason=summary.reason, value=last_value(record, objective),
        growth=record[-1]["growth"] if record else None, exponent=summary.exponent, motion=summary.motion,
        drift=summary.drift, cost=cost,
        saved=cost.of_further(rounds - summary.rounds) if state in ENDED else None,
    )  # fmt: skip


def last_value(rows: Sequence[Mapping[str, Any]], column: str) -> float | None:
    """The column's value in the last of these rounds that has one; the objective is not evaluated in every round."""
    return next((row[column] for row in reversed(rows) if row.get(column) is not None), None)
