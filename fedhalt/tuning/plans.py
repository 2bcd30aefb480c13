"""A sweep's plan, from its TOML file: the space, the two rules, the objective, and where and how the trials run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import FedhaltError, about, brief, names_in, require_one_of, text, whole
from ..files import read_toml
from ..measure.average import make_average
from ..measure.tail import average_for
from ..rules import NamedRule, named_rule
from ..simulation.spec import RunSpec
from .space import Space

OBJECTIVES = {
    "val_loss": "minimize",
    "val_accuracy": "maximize",
    "val_balanced_accuracy": "maximize",
    "client_loss": "minimize",
    "client_accuracy": "maximize",
    "val_loss_average": "minimize",
    "val_accuracy_average": "maximize",
    "val_balanced_accuracy_average": "maximize",
    "none": "",
}
"""Recorded columns that can be an objective, and which direction is better; none is for screening only."""

OPTUNA = ("tpe", "qmc", "gp")
SAMPLERS = ("grid", "random", *OPTUNA)
EXECUTORS = ("processes", "ray")
WHOLE = ("rounds", "trials", "parallel", "workers")
TEXT = ("out", "storage", "study", "executor", "address", "device", "data_root", "sampler", "objective")
STAGES = {"screen": "wandering", "converge": "growth"}
"""The two stages with their default rules."""


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Where and how runs are trained."""

    out: str = "runs"
    executor: str = "processes"
    parallel: int = 1
    address: str | None = None
    workers: int = 1
    device: str | None = None
    data_root: str | None = None

    def __post_init__(self) -> None:
        require_one_of("executor", self.executor, EXECUTORS)
        if self.address is not None and self.executor != "ray":
            raise FedhaltError(f"an address belongs to a Ray cluster: add executor = 'ray' to {self.address!r}")


@dataclass(frozen=True, kw_only=True)
class Plan(Execution):
    """What `fedhalt sweep` does. Equal plans propose equal configurations. Use `plan` to make one.

    Args:
        out: The folder of run folders.
        executor: "processes" or "ray".
        parallel: How many trials run at once.
        address: The address of a Ray cluster.
        workers: Workers per trial.
        device: "cpu" or "cuda".
        data_root: The folder of the data files.
        space: The search space.
        rounds: The budget of a trial.
        average: Also evaluate and keep the mean of the last models: 10, or "running:10".
        objective: The recorded column to optimize, or "none".
        screen: The rule that ends hopeless trials.
        converge: The rule that ends trials that are done.
        sampler: "grid", "random", "tpe", "qmc" or "gp".
        trials: The number of trials, for all samplers except "grid".
        sampler_seed: The seed of the sampler.
        storage: Where Optuna stores the study.
        study: The name of the study.

    Raises:
        FedhaltError: If settings are not valid or contradict each other.

    Examples:
        >>> from fedhalt.tuning import plan
        >>> made = plan({"objective": "val_accuracy", "space": {"lr": [0.01, 0.1]}})
        >>> made.higher_is_better, list(made.stages)
        (True, ['screen', 'converge'])
    """

    space: Space
    rounds: int = 500
    average: int | str | None = None
    objective: str = "val_loss"
    screen: NamedRule | None = None
    converge: NamedRule | None = None
    sampler: str = "grid"
    trials: int | None = None
    sampler_seed: int = 0
    storage: str | None = field(default=None, repr=False)
    study: str = "fedhalt"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of("objective", self.objective, OBJECTIVES)
        require_one_of("sampler", self.sampler, SAMPLERS)
        if self.sampler == "grid" and self.trials is not None:
            raise FedhaltError(f"a grid has as many trials as it has points, so trials = {self.trials} has no meaning")
        if self.sampler != "grid" and self.trials is None:
            raise FedhaltError(f"the sampler {self.sampler} needs a number of trials: trials = 50")
        if self.storage is not None and self.sampler not in OPTUNA:
            raise FedhaltError(f"a storage is for Optuna's samplers ({', '.join(OPTUNA)}), not for {self.sampler}")
        if self.sampler in OPTUNA and self.objective == "none":
            raise FedhaltError(f"the sampler {self.sampler} learns from an objective; with none choose grid or random")
        if self.average is not None:
            make_average(self.average)
        elif self.objective.endswith("_average") and average_for(None, self._read()) is None:
            raise FedhaltError(f"the objective {self.objective} needs an average: average = 10")
        for end in self.space.corners():
            self._check(end)

    @property
    def higher_is_better(self) -> bool:
        """Whether a larger objective is better."""
        return OBJECTIVES[self.objective] == "maximize"

    @property
    def stages(self) -> dict[str, NamedRule]:
        """The rules that may end a trial, the screening rule first."""
        both = {"screen": self.screen, "converge": self.converge}
        return {name: stage for name, stage in both.items() if stage is not None}

    def _read(self) -> set[str]:
        return {column for stage in self.stages.values() for column in stage.rule.reads}

    def _check(self, spec: RunSpec) -> None:
        """Checks that what the objective and the rules read is recorded."""
        read = self._read() | {self.objective}
        if not spec.evaluate_every and any(name.startswith(("val_", "test_", "client_")) for name in read):
            raise FedhaltError("the objective and the rules read evaluations: set evaluate_every to 1 or more")
        if not spec.held_out and any(name.startswith("client_") for name in read):
            raise FedhaltError(f"the objective {self.objective} needs data that clients keep apart: held_out = 0.2")


def load(path: Path, given: Mapping[str, Any]) -> tuple[Plan, tuple[str, ...]]:
    """Reads the plan in a file and the trackers that the file names. Settings of the command line (`given`) take
    precedence.
    """
    table = {**read_toml(path), **given}
    with about(path):
        track = names_in("track", table.pop("track", []))
        return plan(table), tuple(track)


def plan(table: Mapping[str, Any]) -> Plan:
    """Makes a plan from a table, as in the TOML file of `fedhalt sweep`.

    Args:
        table: The settings of `Plan`, with `space`, `screen` and `converge` as tables. Names may have dashes.

    Returns:
        The plan.

    Raises:
        FedhaltError: If a setting is unknown or not valid.

    Examples:
        >>> from fedhalt.tuning import plan
        >>> plan({"rounds": 60, "space": {"data": "digits", "lr": [0.05, 0.2]}}).rounds
        60
    """
    names = ["space", *STAGES, *WHOLE, *TEXT, "sampler_seed", "average"]
    settings = {
        require_one_of("setting of a sweep", key.replace("-", "_"), names): value for key, value in table.items()
    }
    for name in WHOLE:
        if name in settings:
            settings[name] = whole(name, settings[name])
    if "sampler_seed" in settings:
        settings["sampler_seed"] = whole("sampler_seed", settings["sampler_seed"], least=0)
    for name in TEXT:
        value = settings.get(name, "")
        if name == "storage" and not isinstance(value, str):
            raise FedhaltError("storage must be text, not something else")  # which may hold a password
        text(name, value)
    stages: dict[str, Any] = {name: _stage(name, settings.pop(name, {})) for name in STAGES}
    return Plan(space=Space(settings.pop("space", {})), **stages, **settings)


def _stage(name: str, table: Any) -> NamedRule | None:
    """The rule of a stage, with its settings; `screen = false` leaves the stage out."""
    if table is False:
        return None
    if not isinstance(table, Mapping):
        raise FedhaltError(f"{name} is a table with a rule and its settings, or false for none, not {brief(table)}")
    settings = {key.replace("-", "_"): value for key, value in table.items() if key != "rule"}
    return named_rule(table.get("rule", STAGES[name]), **settings)
