"""One trial of a sweep: a run under two rules, and what became of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import files, rules, spec
from .check import FedhaltError
from .files import InUse
from .judge import Candidate
from .plan import Plan
from .rules import motion
from .run import Progress, run
from .spec import RunSpec
from .trackers import Tracking
from .trajectory import Trajectory

ENDED = ("screened", "converged", "complete", "failed")
"""States that are final; the others are waiting, running, interrupted, elsewhere (another process has it) and lost."""


@dataclass
class Trial:
    """A configuration on its way through a sweep."""

    number: int
    spec: RunSpec
    label: str
    state: str = "waiting"
    outcome: dict[str, Any] = field(default_factory=dict)
    attempts: int = 0
    token: Any = None
    """What the sampler needs to recognise it."""

    @property
    def value(self) -> float | None:
        """The objective where it counts: a screened trial has none."""
        return self.outcome.get("value") if self.state in ("converged", "complete") else None


def job(plan: Plan, trial: Trial) -> dict[str, Any]:
    """The trial as plain data that travels to another process or machine."""
    stages = {
        name: stage for name, stage in (("screen", plan.screen), ("converge", plan.converge)) if stage is not None
    }
    return described(plan, trial, stages, "first", plan.rounds)


def described(plan: Plan, trial: Trial, stages: Mapping[str, Candidate], stop: str, rounds: int) -> dict[str, Any]:
    """A job with other rules and another budget than the plan's."""
    return {
        "number": trial.number, "spec": trial.spec.to_json(), "rounds": rounds, "stop": stop,
        "stages": {
            name: {"name": stage.name, "settings": stage.settings, "rule": rules.to_json(stage.rule)}
            for name, stage in stages.items()
        },
        "objective": plan.objective, "out": str(Path(plan.out).absolute()), "workers": plan.workers,
        "device": plan.device, "data_root": plan.data_root and str(Path(plan.data_root).absolute()),
        "track": list(plan.track),
    }  # fmt: skip


def perform(
    job: Mapping[str, Any], beat: Callable[[Any], None] | None = None, interrupted: Callable[[], bool] = lambda: False
) -> dict[str, Any]:
    """Runs it to its end, or goes on with it, and says what became of it."""
    watch = {
        name: Candidate(stage["name"], stage["settings"], rules.from_json(stage["rule"]))
        for name, stage in job["stages"].items()
    }
    chosen = spec.from_json(job["spec"])
    rules_watched = list(watch.values())
    try:
        with Tracking(job["track"], Path(job["out"]) / chosen.id, rules_watched, chosen.to_json()) as tracking:

            def progress(now: Progress) -> None:
                tracking(now.row)
                if beat is not None:
                    beat(now)

            summary = run(
                chosen, job["out"], rounds=job["rounds"], watch=rules_watched, stop=job["stop"],
                workers=job["workers"], device=job["device"], data_root=job["data_root"], progress=progress,
                interrupted=interrupted,
            )  # fmt: skip
    except InUse:
        return {"state": "elsewhere"}
    except (FedhaltError, OSError) as error:
        return {"state": "failed", "error": str(error)}
    return outcome(summary, list(watch), job["rounds"], job["objective"])


def outcome(summary: Mapping[str, Any], stages: list[str], rounds: int, objective: str) -> dict[str, Any]:
    """The end of a run in a sweep's words, with its cost and what the rest of the budget would have cost."""
    fired = {stage: rule["stop_round"] for stage, rule in zip(stages, summary["rules"], strict=False)}
    record = Trajectory.load(Path(summary["run"]) / "trajectory.jsonl").rows[: summary["rounds"]]
    if fired.get("screen") or summary["reason"] == "diverged":
        state = "screened"
    elif summary["stop_round"] is not None:
        state = "converged"
    else:
        state = "complete" if summary["reason"] == "budget" else "interrupted"
    used = summary["rounds"]
    cost = spent(record)
    left = {key: cost[key] / used * (rounds - used) if used else 0.0 for key in cost}
    return {
        "state": state, "run": summary["run"], "rounds": used, "reason": summary["reason"],
        "value": scored(record, objective), "growth": record[-1]["growth"] if record else None,
        "exponent": summary["exponent"], "motion": summary["motion"],
        "cost": cost, "saved": {key: round(value, 4) for key, value in left.items()} if state in ENDED else {},
    }  # fmt: skip


def spent(rows: list[dict[str, Any]]) -> dict[str, float]:
    """What these rounds cost."""
    return {
        "rounds": len(rows),
        "seconds": round(sum(row["seconds"] for row in rows), 4),
        "bytes": sum(row["bytes_down"] + row["bytes_up"] for row in rows),
    }


def scored(rows: list[dict[str, Any]], objective: str) -> float | None:
    """The objective at the last round of these in which it was evaluated."""
    return next((row[objective] for row in reversed(rows) if row.get(objective) is not None), None)


class Following:
    """A record that somebody may be writing: its last whole row and what the model does there; reads what is new."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin()

    def _begin(self) -> None:
        self.place = 0
        self.row: dict[str, Any] = {}
        self.state, self.motion = motion.begin(), motion.Motion()

    def look(self) -> dict[str, Any]:
        """The last whole row; empty if there is none."""
        try:
            with open(self.path, "rb") as file:
                if file.seek(0, 2) < self.place:  # cut back, to be trained again
                    self._begin()
                file.seek(self.place)
                lines = file.read().split(b"\n")[:-1]
            for line in lines:
                entry = files.from_json(line.decode())
                if "round" in entry:  # not the header
                    self.row = entry
                    self.state, self.motion = motion.step(self.state, entry["round"], entry)
            self.place += sum(len(line) + 1 for line in lines)
        except (OSError, ValueError):
            self._begin()
        return self.row
