"""The paper's tables and figures: trains what no recorded row answers yet, keeps the rows, draws from them alone."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import files
from .check import MissingExtra, known
from .plan import Plan
from .space import Space
from .sweep import Listed, Watcher, sweep
from .table import duration
from .trajectory import Trajectory
from .trial import ENDED, Trial, described

EXTRAS = {"matplotlib": "report", "pandas": "report"}
SAVE_EVERY = 20.0
"""Seconds between two writes of the rows while runs go on."""


def part(name: str = "", of: str = "paper") -> Any:
    """A module of experiments/paper, or of another folder beside it."""
    root = files.checkout(f"experiments/{of}")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        return importlib.import_module(f"experiments.{of}.{name}".rstrip("."))
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        raise MissingExtra("this command", package, EXTRAS.get(package, "sim")) from None


def items(names: list[str]) -> dict[str, Any]:
    """The modules of the named items; all for `all`."""
    there = part().ITEMS
    for name in names:
        known("table or figure", name, [*there, "all"])
    wanted = list(there) if "all" in names else list(dict.fromkeys(names))
    return {name: part(there[name]) for name in wanted}


class Recording(Listed):
    """The runs that are missing; each is kept as a row when it ends, if somebody keeps rows."""

    def __init__(self, needs: list[Any], results: Any | None, store: Path) -> None:
        super().__init__((need.spec, need.spec.id) for need in needs)
        self.needs, self.results, self.store = needs, results, store
        self.saved = time.monotonic()
        self.failed = False

    def job(self, plan: Plan, trial: Trial) -> dict[str, Any]:
        need = self.needs[trial.number]
        stages = {str(rule): rule for rule in need.until}
        return described(plan, trial, stages, "all" if stages else "never", need.rounds)

    def tell(self, trial: Trial) -> None:
        self.failed = self.failed or trial.state == "failed"
        if trial.state in ENDED and trial.state != "failed" and self.results is not None:
            self.results.add(self.needs[trial.number], _recorded(self.store, self.needs[trial.number]))
            if time.monotonic() - self.saved > SAVE_EVERY:
                self.close()

    def close(self) -> None:
        if self.results is not None:
            self.results.save()
        self.saved = time.monotonic()


def collect(needs: list[Any], results: Any, store: Path) -> None:
    """Takes over what run folders answer already."""
    for need in needs:
        if (store / need.spec.id / "trajectory.jsonl").exists():
            results.add(need, _recorded(store, need))
    results.save()


def record(
    needs: list[Any], results: Any | None, settings: dict[str, Any], seen: Watcher, interrupted: Callable[[], bool]
) -> list[Trial]:
    """Trains these runs to their ends, by the executors of a sweep, and adds their rows to the results.

    One that fails ends all: what it lacks (data, weights, memory), the others lack too.
    """
    plan = Plan(space=Space({"seed": 0}), objective="none", **settings)  # its points are not asked for: these are
    sampler = Recording(needs, results, Path(plan.out))
    return sweep(plan, seen, lambda: interrupted() or sampler.failed, sampler, sampler.job)


class TimeLeft:
    """What is still to do, at the pace of what was done; before the first run has ended, by the measured seconds."""

    def __init__(self, costs: list[float], parallel: int) -> None:
        self.costs, self.parallel = costs, parallel
        self.begin = time.monotonic()

    def __call__(self, trials: list[Trial]) -> str:
        done = [trial.number for trial in trials if trial.state in ENDED]
        spent, left = sum(self.costs[number] for number in done), sum(self.costs)
        pace = (time.monotonic() - self.begin) / spent if spent else 1 / self.parallel
        return duration((left - spent) * pace)


def overview(scale: Any, results: Any, modules: dict[str, Any]) -> list[dict[str, Any]]:
    """For --list: each item's runs, how many are recorded, the hours of one core; last all of them, each run once."""
    setting = part("setting")
    found = []
    lists = {name: setting.merged(module.specs(scale)) for name, module in modules.items()}
    titles = {name: module.TITLE for name, module in modules.items()}
    everything = setting.merged(need for needs in lists.values() for need in needs)
    for name, needs in {**lists, "together": everything}.items():
        missing = results.missing(needs)
        found.append({
            "item": name, "title": titles.get(name, "each run once"), "runs": len(needs),
            "recorded": len(needs) - len(missing), "hours": round(sum(map(setting.cost, needs)) / 3600, 2),
            "hours_left": round(sum(map(setting.cost, missing)) / 3600, 2),
        })  # fmt: skip
    return found


def _recorded(store: Path, need: Any) -> Trajectory:
    """The rounds that the item asks for; another may have trained the run further."""
    record = Trajectory.load(store / need.spec.id / "trajectory.jsonl")
    return Trajectory(record.rows[: need.rounds])
