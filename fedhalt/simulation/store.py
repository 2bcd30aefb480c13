"""Run folders: what a killed run needs to resume to the same numbers, and what remains when it is done.

    runs/ID/  spec.json  origin.json  trajectory.jsonl  summary.json
              state-R.safetensors            the server after round R
              memory/CLIENT-R.safetensors    what a client remembers since its visit in round R
              models/RULE.safetensors        the model of a rule's stop round

A round is committed by its line in the trajectory, with the digests of what belongs to it: all of that is written
before, under names that hold the round. Nothing is changed in place: a kill at any moment leaves whole rounds. Every
few seconds the last round is made to outlast a power cut, and only then what it supersedes is deleted. A run goes on
from the last round that is whole; where there is none it is refused, before anything is deleted.
"""

from __future__ import annotations

import os
import re
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
from torch import Tensor

from .. import files
from ..errors import FedhaltError
from ..measure import tensors
from ..methods.vector import Vectors
from ..records import lines
from ..records.trajectory import Trajectory
from .engine import Round
from .memory import ClientMemory, Version, Versions, read_vectors, require_digest, write_vectors
from .spec import RunSpec

SYNC_EVERY = 15.0
"""Seconds. A power cut costs these and the round that is being trained: 30 seconds at most, or that round."""


class Resumed(NamedTuple):
    """The last committed round: the server's state, the shared vectors, and what measuring needs."""

    round: int
    state: Vectors
    shared: Vectors
    measured: Vectors
    facts: dict[str, Any]


class RunFolder:
    """One run's folder, held by one process at a time."""

    def __init__(self, path: Path, spec: RunSpec, budget: int | None = None) -> None:
        """`budget` is recorded in a new record's header; it does not decide training and is no part of the spec."""
        self.path, self.spec, self.budget = path, spec, budget
        files.make_folder(path)
        self._lock = files.Lock(path)
        self.memory = ClientMemory(path / "memory")
        self._record = path / "trajectory.jsonl"
        self._last = self._durable = 0
        self._synced = time.monotonic()
        self._superseded: dict[Path, int] = {}
        self._models: dict[str, str] = {}
        try:
            self._check_same("spec.json", spec.to_json(), "belongs to a run of another specification")
            self.trajectory, self._damage = self._open()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._lock.close()

    def check_origin(self, origin: dict[str, str]) -> None:
        """A run resumes only with the data and the initial parameters it began with."""
        self._check_same("origin.json", origin, "began with other data or other initial weights")

    def recover(self) -> None:
        """Goes back to the last round that is whole and makes it durable; what is no part of it is deleted last."""
        self._last = self._last_whole()
        for name in self._saved_models(self._last):
            self.model(name)
        self.memory.restore(self._memory_after(self._last), listed=self._last in self.trajectory.commits)
        self.trajectory = Trajectory.resume(self._record, after=self._last)
        self.sync()
        for r, file in self._states().items():
            if r != self._last:
                file.unlink()
        self.memory.clear()

    def resume(self) -> Resumed | None:
        """The last committed round, None before the first."""
        if self._last == 0:
            return None
        parts: dict[str, Vectors] = {"state": {}, "shared": {}, "measured": {}}
        for name, vector in read_vectors(self._state(self._last), self._digest(self._last)).items():
            kind, _, name = name.partition(".")
            parts[kind][name] = vector
        facts = self.trajectory.commits.get(self._last, {}).get("measured", {})
        return Resumed(self._last, **parts, facts=facts)

    def commit(self, done: Round, row: dict[str, Any], measured: tuple[dict[str, Any], Vectors] = ({}, {})) -> None:
        """Makes a finished round count; `measured` is what measuring the next one needs, facts and vectors."""
        self._lock.check()
        parts = {"state": done.state, "shared": done.shared, "measured": measured[1]}
        vectors = {f"{kind}.{name}": vector for kind, part in parts.items() for name, vector in part.items()}
        state, memory = write_vectors(self._state(done.round), vectors), self.memory.write(done.round)
        listed = {f"{client}-{version.round}": version.digest for client, version in memory.items()}
        commit: dict[str, Any] = {"state": state, "memory": listed, "models": self._models, "measured": measured[0]}
        self.trajectory.append(row, {name: found for name, found in commit.items() if found})
        self._superseded |= {self._state(self._last): self._last, **self.memory.settle(memory)}
        self._last, self._models = done.round, {}
        if self._durable == 0 or time.monotonic() - self._synced >= SYNC_EVERY:
            self.sync()
        else:
            self._delete(path for path, r in self._superseded.items() if r > self._durable)

    def sync(self) -> None:
        """Makes the last committed round outlast a power cut; only then what belonged to earlier ones goes."""
        written = [*self.memory.since(self._durable), *([self._state(self._last)] if self._last else [])]
        for path in (*written, *sorted({path.parent for path in written}), self._record):
            files.sync(path)
        self._durable, self._synced = self._last, time.monotonic()
        self._delete(self._superseded)

    def save_model(self, name: str, state: dict[str, Tensor], metadata: dict[str, str]) -> None:
        """Keeps a model, which counts from the next commit on."""
        self._lock.check()
        files.make_folder(self._model(name).parent)
        data = tensors.ordered(safetensors.torch.save(state, metadata))
        files.write(self._model(name), data)
        self._models[name] = files.digest(data, 8)

    def model(self, name: str) -> str | None:
        """Where the model of that name is, if it was saved; a damaged one is not handed out."""
        path, saved = self._model(name), self._saved_models(len(self.trajectory)).get(name)
        if not path.exists():
            if saved:
                warnings.warn(f"{path} is gone: the run has no such model any more", stacklevel=3)
            return None
        if saved and files.digest(files.read(path), 8) != saved:
            raise FedhaltError(f"{path} is damaged: wrong digest; remove it to continue without that model")
        return os.fspath(path)

    def _saved_models(self, last: int) -> dict[str, str]:
        """The digests, by name, of the models that were committed up to that round."""
        commits = [commit for r, commit in self.trajectory.commits.items() if r <= last]
        return {name: digest for commit in commits for name, digest in commit.get("models", {}).items()}

    def write_summary(self, summary: dict[str, Any]) -> None:
        self._lock.check()
        files.write(self.path / "summary.json", lines.to_line(summary))

    def _check_same(self, name: str, value: dict[str, Any], words: str) -> None:
        file, text = self.path / name, (files.to_json(value) + "\n").encode()
        if not file.exists():
            files.write(file, text)
        elif files.read(file) != text:
            raise FedhaltError(f"{self.path} {words} (see its {name})")

    def _open(self) -> tuple[Trajectory, str]:
        """The rounds that can be read, and what is wrong with the next line if there is one."""
        for left in (*self.path.glob(".*.part"), *self.path.glob("*/.*.part")):
            left.unlink()
        if self._record.exists():
            files.require_regular(self._record)
        if self._record.exists() and self._record.stat().st_size:
            found = Trajectory.salvage(self._record)
            if found[0].header.get("spec") != files.from_json(files.to_json(self.spec.to_json())):
                raise FedhaltError(f"{self._record} is the record of a run of another specification: it was replaced")
            return found
        if states := self._states():
            raise FedhaltError(f"{self.path} holds {states[max(states)].name}, but {self._record.name} is gone")
        self._record.unlink(missing_ok=True)
        planned = {} if self.budget is None else {"budget": self.budget}
        return Trajectory.create(self._record, spec=self.spec.to_json(), **planned), ""

    def _last_whole(self) -> int:
        """The last round whose state and memory are as they were committed."""
        recorded = [row["round"] for row in self.trajectory.rows]
        last, states = len(recorded), self._states()
        if recorded != list(range(1, last + 1)):
            raise FedhaltError(f"{self._record} has lost rounds: it holds {last}, and the last is {recorded[-1]}")
        earlier = sorted((r for r in states if r < last and r in self.trajectory.commits), reverse=True)
        candidates = [r for r in (last, *earlier) if r]
        if last <= 1 and max(states, default=0) <= 1:
            candidates.append(0)  # the first round at most is lost
        problem = self._damage
        for r in candidates:
            found = self._problem(r)
            if not found:
                if problem:
                    warnings.warn(f"{problem}; the run resumes after round {r}", stacklevel=4)
                return r
            problem = problem or found
        problem = problem or f"{self._record} holds no round, but {states[max(states)].name} is there"
        raise FedhaltError(f"{problem}; remove {self.path} to start the run over")

    def _problem(self, r: int) -> str:
        """What is not as it was when round r was committed, if anything."""
        if r and not self._state(r).exists():
            return f"{self.path} records {r} rounds, but {self._state(r).name} is gone"
        try:
            if r:
                read_vectors(self._state(r), self._digest(r))
            for client, version in self._memory_after(r).items():
                require_digest(self.memory.path(client, version.round), version.digest)
        except FedhaltError as error:
            return str(error)
        return ""

    def _digest(self, r: int) -> str | None:
        return self.trajectory.commits[r]["state"] if r in self.trajectory.commits else None

    def _memory_after(self, r: int) -> Versions:
        """Which files hold what the clients remembered after round r."""
        if r not in self.trajectory.commits:  # of an earlier fedhalt: the newest there are
            found = {client: version for client, version in self.memory.found() if version <= r}
            paths = {client: self.memory.path(client, version) for client, version in found.items()}
            return {client: Version(found[client], files.digest(files.read(path), 8)) for client, path in paths.items()}
        versions: Versions = {}
        for committed, commit in self.trajectory.commits.items():
            for name, digest in commit.get("memory", {}).items() if committed <= r else ():
                client, _, version = name.partition("-")
                versions[int(client)] = Version(int(version), digest)
        return versions

    def _states(self) -> dict[int, Path]:
        """The server's states that are there, by round."""
        matches = [
            (re.fullmatch(r"state-(\d+)\.safetensors", path.name, re.ASCII), path) for path in self.path.iterdir()
        ]
        return {int(match[1]): path for match, path in matches if match}

    def _state(self, r: int) -> Path:
        return self.path / f"state-{r}.safetensors"

    def _model(self, name: str) -> Path:
        return self.path / "models" / f"{name}.safetensors"

    def _delete(self, paths: Iterable[Path]) -> None:
        for path in list(paths):
            path.unlink(missing_ok=True)
            del self._superseded[path]
