"""A sweep's plan, from its TOML file: the space, the two rules, the objective, where and how the trials run."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .check import FedhaltError, known, whole
from .judge import Candidate, candidate
from .space import Space
from .spec import RunSpec
from .trackers import available

OBJECTIVES = {
    "val_loss": "minimize",
    "val_accuracy": "maximize",
    "val_balanced_accuracy": "maximize",
    "client_loss": "minimize",
    "client_accuracy": "maximize",
    "none": "",
}
"""Recorded columns that a trial can be scored by, and which way is better; none is screening only."""

OPTUNA = ("tpe", "qmc", "gp")
SAMPLERS = ("grid", "random", *OPTUNA)
EXECUTORS = ("processes", "ray")
WHOLE = ("rounds", "trials", "parallel", "workers")
TEXT = ("out", "storage", "study", "executor", "address", "device", "data_root", "sampler", "objective")
STAGES = {"screen": "wandering", "converge": "growth"}
"""The two stages and the rule that each has unless another is named."""


@dataclass(frozen=True)
class Plan:
    """What `fedhalt sweep` does; equal plans propose equal configurations."""

    space: Space
    rounds: int = 500
    objective: str = "val_loss"
    screen: Candidate | None = None
    converge: Candidate | None = None
    sampler: str = "grid"
    trials: int | None = None
    sampler_seed: int = 0
    out: str = "runs"
    storage: str | None = None
    study: str = "fedhalt"
    executor: str = "processes"
    parallel: int = 1
    address: str | None = None
    workers: int = 1
    device: str | None = None
    data_root: str | None = None
    track: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        known("objective", self.objective, OBJECTIVES)
        known("sampler", self.sampler, SAMPLERS)
        known("executor", self.executor, EXECUTORS)
        if self.sampler == "grid" and self.trials is not None:
            raise FedhaltError(f"a grid has as many trials as it has points, so trials = {self.trials} has no meaning")
        if self.sampler != "grid" and self.trials is None:
            raise FedhaltError(f"the sampler {self.sampler} needs a number of trials: trials = 50")
        if self.storage is not None and self.sampler not in OPTUNA:
            raise FedhaltError(f"a storage is for Optuna's samplers ({', '.join(OPTUNA)}), not for {self.sampler}")
        if self.sampler in OPTUNA and self.objective == "none":
            raise FedhaltError(f"the sampler {self.sampler} learns from an objective; with none choose grid or random")
        if self.address is not None and self.executor != "ray":
            raise FedhaltError(f"an address belongs to a Ray cluster: add executor = 'ray' to {self.address!r}")
        available(self.track)
        for end in self.space.corners():
            self._check(end)

    @property
    def higher_is_better(self) -> bool:
        return OBJECTIVES[self.objective] == "maximize"

    @property
    def watch(self) -> list[Candidate]:
        """The rules of a run, the screening one first."""
        return [stage for stage in (self.screen, self.converge) if stage is not None]

    def _check(self, spec: RunSpec) -> None:
        """What the objective and the rules read has to be recorded."""
        read = {column for stage in self.watch for column in stage.rule.reads} | {self.objective}
        if not spec.evaluate_every and any(name.startswith(("val_", "test_", "client_")) for name in read):
            raise FedhaltError("the objective and the rules read evaluations: set evaluate_every to 1 or more")
        if not spec.held_out and any(name.startswith("client_") for name in read):
            raise FedhaltError(f"the objective {self.objective} needs data that clients keep apart: held_out = 0.2")


def load(path: Path, given: Mapping[str, Any] | None = None) -> Plan:
    """The plan in a file; what is `given` on the command line wins."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FedhaltError(f"{path} is not a TOML file: {error}") from None
    try:
        return plan({**content, **(given or {})})
    except FedhaltError as error:
        raise FedhaltError(f"{path}: {error}") from None


def plan(table: Mapping[str, Any]) -> Plan:
    """The plan that such a table describes; names may be written with a dash."""
    names = ["space", *STAGES, *WHOLE, *TEXT, "sampler_seed", "track"]
    settings = {known("setting of a sweep", key.replace("-", "_"), names): value for key, value in table.items()}
    for name in WHOLE:
        if name in settings:
            settings[name] = whole(name, settings[name])
    if "sampler_seed" in settings:
        settings["sampler_seed"] = whole("sampler_seed", settings["sampler_seed"], least=0)
    track = settings.pop("track", ())
    settings["track"] = (track,) if isinstance(track, str) else tuple(track)
    for name in TEXT:
        if not isinstance(settings.get(name, ""), str):
            raise FedhaltError(f"{name} must be text, not {settings[name]!r}")
    stages: dict[str, Any] = {name: _stage(name, settings.pop(name, {})) for name in STAGES}
    return Plan(space=Space(settings.pop("space", {})), **stages, **settings)


def _stage(name: str, table: Any) -> Candidate | None:
    """A stage's rule: `rule` and its settings; `screen = false` leaves the stage out."""
    if table is False:
        return None
    if not isinstance(table, Mapping):
        raise FedhaltError(f"{name} is a table with a rule and its settings, or false for none, not {table!r}")
    settings = {key.replace("-", "_"): value for key, value in table.items() if key != "rule"}
    return candidate(table.get("rule", STAGES[name]), **settings)
