"""Run folders: what a killed run needs to go on to the same numbers, and what is left when it is done.

    runs/ID/  spec.json  origin.json  trajectory.jsonl  summary.json
              state-R.safetensors            the server after round R
              memory/CLIENT-R.safetensors    what a client remembers since its visit in round R
              models/RULE.safetensors        the model of a rule's stop round

A round is committed by its line in the trajectory: everything it needs is written before, under names that hold the
round, and what it supersedes is deleted after. Nothing is changed in place: a kill at any moment leaves whole rounds.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
from torch import Tensor

from . import files
from .check import FedhaltError
from .engine import Round
from .spec import RunSpec
from .trajectory import Trajectory
from .vector import Vectors

RAM_LIMIT = 2 * 2**30
"""Bytes of client memory kept in RAM; beyond that a client's vectors are read, memory-mapped, from its file."""


class ClientMemory(MutableMapping[int, Vectors]):
    """What each visited client remembers: in RAM up to a limit, always in versioned files."""

    def __init__(self, folder: Path, limit: int = RAM_LIMIT) -> None:
        self.folder, self.limit = folder, limit
        self._versions: dict[int, int] = {}
        self._ram: dict[int, Vectors] = {}
        self._bytes = 0
        self._fresh: dict[int, Vectors] = {}

    def __getitem__(self, client: int) -> Vectors:
        if client in self._fresh:
            return self._fresh[client]
        if client not in self._ram:
            return _read(self._path(client, self._versions[client]))
        return self._ram[client]

    def __setitem__(self, client: int, vectors: Vectors) -> None:
        self._fresh[client] = vectors

    def __delitem__(self, client: int) -> None:
        raise FedhaltError(f"client {client}: a memory is replaced, never forgotten")

    def __iter__(self) -> Iterator[int]:
        return iter({**self._versions, **self._fresh})

    def __len__(self) -> int:
        return len({**self._versions, **self._fresh})

    def write(self, r: int) -> None:
        """Writes this round's new versions beside the old ones."""
        if self._fresh:
            self.folder.mkdir(exist_ok=True)
        for client, vectors in self._fresh.items():
            _write(self._path(client, r), vectors)

    def settle(self, r: int) -> None:
        """After the commit: the new versions count, the old ones go."""
        for client, vectors in self._fresh.items():
            if client in self._versions:
                self._path(client, self._versions[client]).unlink(missing_ok=True)
            self._versions[client] = r
            self._bytes -= _size(self._ram.pop(client, {}))
            if self._bytes + _size(vectors) <= self.limit:
                self._ram[client] = vectors
                self._bytes += _size(vectors)
        self._fresh = {}

    def restore(self, r: int) -> None:
        """Back to the state after round r: its newest versions count, later and older ones go."""
        found: dict[int, list[int]] = {}
        for path in self.folder.glob("*-*.safetensors") if self.folder.exists() else []:
            client, version = map(int, path.stem.split("-"))
            found.setdefault(client, []).append(version)
        for client, versions in found.items():
            current = max((version for version in versions if version <= r), default=None)
            for version in versions:
                if version != current:
                    self._path(client, version).unlink()
            if current is not None:
                self._versions[client] = current

    def _path(self, client: int, r: int) -> Path:
        return self.folder / f"{client}-{r}.safetensors"


class InUse(FedhaltError):
    """A run's folder is held by another process, which will go on with it."""


class RunFolder:
    """One run's folder, held by one process at a time."""

    def __init__(self, path: Path, spec: RunSpec) -> None:
        self.path, self.spec = path, spec
        path.mkdir(parents=True, exist_ok=True)
        self._lock = open(path / ".lock", "w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise InUse(f"{path} is in use by another process") from None
        self.memory = ClientMemory(path / "memory")
        try:
            self._check_spec()
            self.trajectory, self._last = self._open()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._lock.close()

    def resume(self) -> tuple[int, Vectors, Vectors] | None:
        """The last committed round with the server's state and shared vectors, None before the first."""
        if self._last == 0:
            return None
        if not self._state(self._last).exists():
            raise FedhaltError(f"{self.path} records {self._last} rounds, but {self._state(self._last).name} is gone")
        parts: tuple[Vectors, Vectors] = ({}, {})
        for name, vector in _read(self._state(self._last)).items():
            kind, _, name = name.partition(".")
            parts[kind == "shared"][name] = vector
        return (self._last, *parts)

    def check_origin(self, origin: dict[str, str]) -> None:
        """A run goes on only from what it began with: the same data and the same initial parameters."""
        file, text = self.path / "origin.json", files.to_json(origin) + "\n"
        if not file.exists():
            files.write(file, text.encode())
        elif file.read_text(encoding="utf-8") != text:
            raise FedhaltError(f"{self.path} began with other data or other initial weights (see its origin.json)")

    def commit(self, done: Round, row: dict[str, Any]) -> None:
        """Makes a finished round count."""
        tensors = {f"state.{name}": vector for name, vector in done.state.items()}
        tensors |= {f"shared.{name}": vector for name, vector in done.shared.items()}
        _write(self._state(done.round), tensors)
        self.memory.write(done.round)
        self.trajectory.append(row)
        self.memory.settle(done.round)
        self._state(self._last).unlink(missing_ok=True)
        self._last = done.round

    def save_model(self, name: str, tensors: dict[str, Tensor], metadata: dict[str, str]) -> None:
        (self.path / "models").mkdir(exist_ok=True)
        files.write(self.path / "models" / f"{name}.safetensors", safetensors.torch.save(tensors, metadata))

    def model(self, name: str) -> str | None:
        """Where the model of that name is, if it was saved."""
        path = self.path / "models" / f"{name}.safetensors"
        return os.fspath(path) if path.exists() else None

    def write_summary(self, summary: dict[str, Any]) -> None:
        files.write(self.path / "summary.json", (files.to_json(summary) + "\n").encode())

    def _check_spec(self) -> None:
        file, text = self.path / "spec.json", files.to_json(self.spec.to_json()) + "\n"
        if not file.exists():
            files.write(file, text.encode())
        elif file.read_text(encoding="utf-8") != text:
            raise FedhaltError(f"{self.path} belongs to a run of another specification (see its spec.json)")

    def _open(self) -> tuple[Trajectory, int]:
        """The record, and what killed processes left behind cleared away."""
        for left in (*self.path.glob(".*.part"), *self.path.glob("*/.*.part")):
            left.unlink()
        path = self.path / "trajectory.jsonl"
        if not path.exists() or b"\n" not in path.read_bytes():
            path.unlink(missing_ok=True)
            return Trajectory.create(path, spec=self.spec.to_json()), 0
        trajectory = Trajectory.resume(path)
        last = trajectory.rows[-1]["round"] if len(trajectory) else 0
        for file in self.path.glob("state-*.safetensors"):
            if file != self._state(last):
                file.unlink()  # of a round that was never committed, or superseded
        self.memory.restore(last)
        return trajectory, last

    def _state(self, r: int) -> Path:
        return self.path / f"state-{r}.safetensors"


def _write(path: Path, vectors: Vectors) -> None:
    data = safetensors.torch.save({name: vector.detach().cpu().contiguous() for name, vector in vectors.items()})
    files.write(path, data, durable=False)


def _read(path: Path) -> Vectors:
    try:
        return safetensors.torch.load_file(path)
    except (safetensors.SafetensorError, OSError) as error:
        raise FedhaltError(f"{path} cannot be read ({error}); remove the run's folder to start it again") from None


def _size(vectors: Vectors) -> int:
    return sum(vector.numel() * vector.element_size() for vector in vectors.values())
