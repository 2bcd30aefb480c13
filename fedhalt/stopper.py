"""EarlyStopper: theta_0, a rule and its state, for any training loop and any array type."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from . import files, rules
from .arrays import Array, Patterns
from .check import FedhaltError
from .distance import MEASURED, Meter
from .rules import GrowthRate, Rule, Status
from .rules.combine import is_rule
from .rules.motion import Explained, begin
from .trajectory import Trajectory

STATE = "stopper.json"


class EarlyStopper:
    """Says after every round whether to stop, from the server's own parameters.

    >>> import numpy as np
    >>> stopper = EarlyStopper(start=np.zeros(1), threshold=0.3, patience=2)
    >>> for r in range(1, 10):
    ...     if stopper.update(np.full(1, float(r))).stop:
    ...         break
    >>> stopper.status
    Status(round=6, value=6.0, growth=0.2, streak=2, stop=True, reason='saturated', exponent=1.0, motion='still moving')

    `start` is copied. The paper's rule takes `threshold`, `patience`, `start_from_round` and
    `check_finite`; any other rule is given as `rule=`. `include` and `exclude` are patterns on the
    names of the arrays. `trajectory` names a file that every round is recorded in.
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
        self._explained = Explained(self.rule)
        self._state = self._explained.begin()
        self.status: Status | None = None
        """The verdict on the last round, None before the first."""
        self.trajectory = Trajectory.create(trajectory, rule=rules.to_json(self.rule)) if trajectory else None

    @property
    def round(self) -> int:
        """The last round that was judged; 0 before the first."""
        return self.status.round if self.status else 0

    def update(self, params: Any, **columns: Any) -> Status:
        """Measures this round's parameters and judges; further columns (`val_loss=…`) are recorded too."""
        if self._meter is None:
            raise FedhaltError("this stopper has no start: EarlyStopper(start=params, …), or observe(distance)")
        now = self._meter.leaves(params)
        status = self._judge({**self._meter.measure(now), **columns})
        self._meter.keep(now)
        return status

    def observe(self, distance: float | None = None, **columns: Any) -> Status:
        """Judges numbers measured elsewhere: `distance` is the root of the shards' `squared_distance` sum."""
        if distance is not None:
            columns = {"distance": distance, **columns}
        return self._judge(columns)

    def _judge(self, columns: dict[str, Any]) -> Status:
        state, status = self._explained.step(self._state, columns)
        if self.trajectory is not None:
            self.trajectory.append({"round": status.round, **columns})
        self._state, self.status = state, status
        return status

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Everything a restarted server needs: theta_0 once, the rule's state every time, atomically."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        path = self.trajectory.path if self.trajectory else None
        saved: dict[str, Any] = {
            "rule": rules.to_json(self.rule),
            "state": self._state["rule"],
            "motion": self._state["motion"],
            "status": self.status._asdict() if self.status else None,
            "trajectory": os.fspath(path.absolute()) if path else None,
            "arrays": {},
        }
        if self._meter is not None:
            saved |= {"include": self._meter.include, "exclude": self._meter.exclude}
            if self._start_file is None or not (folder / self._start_file).exists():
                self._start_file = _save_arrays(folder, "start", self._meter.start)
            saved["arrays"]["start"] = self._start_file
            if self._meter.previous is not None:
                saved["arrays"]["previous"] = _save_arrays(folder, "previous", self._meter.previous)
        text = files.to_json(saved)
        sealed = files.to_json(
            {"fedhalt": "stopper", "version": 1, "digest": files.digest(text.encode()), "saved": text}
        )
        files.write(folder / STATE, f"{sealed}\n".encode())
        for file in folder.glob("*-*.safetensors"):
            if file.name.split("-")[0] in ("start", "previous") and file.name not in saved["arrays"].values():
                file.unlink(missing_ok=True)

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        rule: Rule | None = None,
        trajectory: str | os.PathLike[str] | None = None,
    ) -> EarlyStopper:
        """Goes on where `save` left off. A rule of one's own is passed again, a trajectory if it was moved."""
        folder = Path(folder)
        saved = _load_state(folder / STATE)
        if rule is not None and files.from_json(files.to_json(rules.to_json(rule))) != saved["rule"]:
            raise FedhaltError(f"{folder} was saved with the rule {saved['rule']}, not {rules.to_json(rule)}")
        stopper = cls(rule=rule if rule is not None else rules.from_json(saved["rule"]))
        unknown = {**begin(), "squares": None}  # a folder of an earlier fedhalt: nobody summed the updates so far
        stopper._state = {"rule": saved["state"], "motion": saved.get("motion", unknown)}
        stopper.status = Status(**saved["status"]) if saved["status"] else None
        arrays = {kind: _load_arrays(folder / name) for kind, name in saved["arrays"].items()}
        if "start" in arrays:
            stopper._meter = Meter(arrays["start"], _columns(stopper.rule))
            stopper._meter.include, stopper._meter.exclude = saved["include"], saved["exclude"]
            stopper._meter.previous = arrays.get("previous")
            stopper._start_file = saved["arrays"]["start"]
        trajectory = trajectory or saved["trajectory"]
        if trajectory is not None:
            if not Path(trajectory).exists():
                raise FedhaltError(f"the trajectory {trajectory} is gone: EarlyStopper.load(folder, trajectory=…)")
            stopper.trajectory = Trajectory.resume(trajectory, after=stopper.round)
        return stopper


def _columns(rule: Rule) -> tuple[str, ...]:
    """What is measured: the distance always, the rest only if the rule reads it."""
    return tuple(column for column in MEASURED if column == "distance" or column in rule.reads)


def _save_arrays(folder: Path, kind: str, arrays: dict[str, Array]) -> str:
    """Writes them under a name that holds the digest of the file."""
    data = files.from_arrays(arrays, {"fedhalt": f"stopper {kind}"})
    name = f"{kind}-{files.digest(data)}.safetensors"
    files.write(folder / name, data)
    return name


def _load_arrays(path: Path) -> dict[str, Array]:
    if not path.exists():
        raise FedhaltError(f"{path} is missing: the stopper's folder is not complete")
    data = path.read_bytes()
    if files.digest(data) not in path.name:
        raise FedhaltError(f"{path} is damaged: its digest does not match its content")
    return files.to_arrays(data, path)


def _load_state(path: Path) -> dict[str, Any]:
    if not path.exists():
        raise FedhaltError(f"no stopper was saved in {path.parent}: {path.name} is missing")
    try:
        sealed = files.from_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise FedhaltError(f"{path} is damaged: {error}") from None
    if not isinstance(sealed, dict) or sealed.get("fedhalt") != "stopper" or sealed.get("version") != 1:
        raise FedhaltError(f"{path} was not written by this version of fedhalt's EarlyStopper.save")
    text = sealed.get("saved")
    if not isinstance(text, str) or files.digest(text.encode()) != sealed.get("digest"):
        raise FedhaltError(f"{path} is damaged: its digest does not match its content")
    saved: dict[str, Any] = files.from_json(text)
    return saved
