"""What the clients of a run remember, in versioned files: `memory/CLIENT-R.safetensors` since its visit in round R."""

from __future__ import annotations

import re
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import NamedTuple

import safetensors
import safetensors.torch

from .. import files
from ..errors import FedhaltError
from ..methods.vector import Vectors

RAM_LIMIT = 2 * 2**30
"""Bytes of client memory kept in RAM; beyond that a client's vectors are read from its file."""


class Version(NamedTuple):
    """Which file holds what a client remembers."""

    round: int
    digest: str


Versions = dict[int, Version]
"""By client."""


class ClientMemory(MutableMapping[int, Vectors]):
    """What each visited client remembers: in RAM up to a limit, always in versioned files."""

    def __init__(self, folder: Path, limit: int = RAM_LIMIT) -> None:
        self.folder, self.limit = folder, limit
        self._versions: Versions = {}
        self._unlisted: Versions = {}
        self._ram: dict[int, Vectors] = {}
        self._bytes = 0
        self._fresh: dict[int, Vectors] = {}

    def __getitem__(self, client: int) -> Vectors:
        if client in self._fresh:
            return self._fresh[client]
        if client not in self._ram:
            version = self._versions[client]
            return read_vectors(self.path(client, version.round), version.digest)
        return self._ram[client]

    def __setitem__(self, client: int, vectors: Vectors) -> None:
        self._fresh[client] = vectors

    def __delitem__(self, client: int) -> None:
        raise FedhaltError(f"client {client}: a memory is replaced, never forgotten")

    def __iter__(self) -> Iterator[int]:
        return iter({**self._versions, **self._fresh})

    def __len__(self) -> int:
        return len({**self._versions, **self._fresh})

    def path(self, client: int, r: int) -> Path:
        return self.folder / f"{client}-{r}.safetensors"

    def found(self) -> list[tuple[int, int]]:
        """The client and the round of every file that is there."""
        names = self.folder.iterdir() if self.folder.exists() else ()
        matches = (re.fullmatch(r"(\d+)-(\d+)\.safetensors", path.name, re.ASCII) for path in names)
        return sorted((int(match[1]), int(match[2])) for match in matches if match)

    def write(self, r: int) -> Versions:
        """Writes this round's new versions beside the old ones; returns what the commit of the round must list."""
        if self._fresh:
            self.folder.mkdir(exist_ok=True)
        written = {
            client: Version(r, write_vectors(self.path(client, r), vectors)) for client, vectors in self._fresh.items()
        }
        return {**self._unlisted, **written}

    def settle(self, written: Versions) -> dict[Path, int]:
        """After the commit: the new versions count; returns the files of the old ones, with their rounds."""
        old = {self.path(client, self._versions[client].round): self._versions[client].round
               for client in self._fresh if client in self._versions}  # fmt: skip
        for client, vectors in self._fresh.items():
            self._bytes -= _size(self._ram.pop(client, {}))
            if self._bytes + _size(vectors) <= self.limit:
                self._ram[client] = vectors
                self._bytes += _size(vectors)
        self._versions |= written
        self._fresh, self._unlisted = {}, {}
        return old

    def since(self, r: int) -> list[Path]:
        """The files that were written after round r and count."""
        return [self.path(client, version.round) for client, version in self._versions.items() if version.round > r]

    def restore(self, versions: Versions, listed: bool) -> None:
        """Goes on from these versions; those that no commit lists (of an earlier fedhalt) the next one does."""
        self._versions = dict(versions)
        self._unlisted = {} if listed else dict(versions)

    def clear(self) -> None:
        """Deletes the files that do not count."""
        for client, r in self.found():
            if client not in self._versions or self._versions[client].round != r:
                self.path(client, r).unlink()


def write_vectors(path: Path, vectors: Vectors) -> str:
    """Writes them for their owner alone; returns the digest of the file. It is not made durable."""
    data = safetensors.torch.save({name: vector.detach().cpu().contiguous() for name, vector in vectors.items()})
    files.write(path, data, durable=False, private=True)
    return files.digest(data, 8)


def read_vectors(path: Path, digest: str | None) -> Vectors:
    """The vectors of a file that is as it was written; a file of an earlier fedhalt has no digest."""
    try:
        read = safetensors.torch.load(require_digest(path, digest))
    except safetensors.SafetensorError as error:
        raise FedhaltError(f"{path} cannot be read ({error})") from None
    # What is read lies anywhere in memory; copies are aligned as a run's own tensors are, on which the order, and so
    # the last bit, of a sum depends.
    return {name: tensor.clone() for name, tensor in read.items()}


def require_digest(path: Path, digest: str | None) -> bytes:
    """The content of a file that is as it was written."""
    try:
        data = files.read(path)
    except FileNotFoundError:
        raise FedhaltError(f"{path} is gone") from None
    except OSError as error:
        raise FedhaltError(f"{path} cannot be read ({error.strerror})") from None
    if digest is not None and files.digest(data, 8) != digest:
        raise FedhaltError(f"{path} is damaged: its digest does not match its content")
    return data


def _size(vectors: Vectors) -> int:
    return sum(vector.numel() * vector.element_size() for vector in vectors.values())
