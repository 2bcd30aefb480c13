"""What a client remembers of one federated run; it stays with the client."""

from __future__ import annotations

import re
from pathlib import Path

from flwr.app import Array, ArrayRecord, ConfigRecord, Context

from ... import files
from ...errors import FedhaltError
from ...measure import tensors
from ...methods.convert import to_arrays, to_vectors
from ...methods.vector import Vectors
from ...records import lines

MEMORY = "fedhalt.memory"
"""Where a client's memory lies in Flower's context."""

NAME = re.compile("[0-9]{1,18}(-[0-9a-f]{32})?[.]safetensors")
"""The round, and the digest of the content."""


class ClientMemory:
    """What a client remembers of one federated run, by round: in Flower's context, and on disk if the node says so.

    A round that the server repeats after a kill must not see its own first attempt, so the last memory
    from before the round is used, and kept beside the new one; so is the last one that the server knows of.
    """

    def __init__(self, context: Context, run: str, confirmed: int) -> None:
        if not re.fullmatch("[0-9a-f]+", run):
            raise FedhaltError(f"{run!r} is not a run of fedhalt")
        self._state, self._run, folder = context.state, run, context.node_config.get("memory")
        client = client_number(context)
        self._folder = MemoryFolder(Path(str(folder)) / run / str(client), run, client) if folder else None
        self._confirmed = confirmed

    def read(self, r: int) -> Vectors | None:
        """The memory from before round r, None at the first visit."""
        if self._folder is not None:
            return self._folder.read(r)
        owner = self._state.config_records.get(f"{MEMORY}.run")
        # one Flower run may train several models
        if owner is None or owner["run"] != self._run:
            return None
        return to_vectors(self._state.array_records[MEMORY])

    def write(self, r: int, vectors: Vectors) -> None:
        """The memory after round r; a method that keeps nothing writes nothing."""
        if not vectors:
            return
        arrays = to_arrays(vectors)
        if self._folder is not None:
            self._folder.write(r, tensors.from_arrays(arrays, {"fedhalt": "client memory"}), self._confirmed)
            return
        self._state[f"{MEMORY}.run"] = ConfigRecord({"run": self._run})
        self._state[MEMORY] = ArrayRecord({name: Array(array) for name, array in arrays.items()})


class MemoryFolder:
    """The folder of one client: a file for each round that is kept, and a list of those that must be there.

    Without the list, the client would train with an older memory, without a word, once the newest file is gone.
    """

    def __init__(self, path: Path, run: str, client: int) -> None:
        self.path, self._list = path, path / "versions.json"
        self._whose = {"fedhalt": "client memory", "run": run, "client": client}

    def read(self, r: int) -> Vectors | None:
        """The last memory from before round r as it was written, None if there is none."""
        earlier = {version: path for version, path in self._kept().items() if version < r}
        if not earlier:
            return None
        path = earlier[max(earlier)]
        try:
            data = files.read(path)
        except FileNotFoundError:
            raise FedhaltError(f"{path} is gone; {self._way_out}") from None
        digest = path.stem.partition("-")[2]
        if digest and files.digest(data) != digest:
            raise FedhaltError(f"{path} is damaged: its digest does not match its content; {self._way_out}")
        return to_vectors(tensors.to_arrays(data, path))

    def write(self, r: int, data: bytes, confirmed: int) -> None:
        """Adds round r. It counts once it is listed; then what it supersedes is deleted."""
        try:
            files.make_folder(self.path, private=True)
            files.clear_leftovers(self.path)
        except OSError as error:
            raise FedhaltError(f"memory={self.path.parent.parent} cannot be a folder: {error.strerror}") from None
        kept = self._kept()
        if not self._list.exists():
            self._write_list(kept)  # before any file that needs it
        new = self.path / f"{r}-{files.digest(data)}.safetensors"
        files.write(new, data, private=True)
        older = [version for version in kept if version < r]
        known = [version for version in older if version <= confirmed]
        kept = {version: kept[version] for version in {*older[-1:], *known[-1:]}} | {r: new}
        self._write_list(kept)
        for path in self._found():
            if path not in kept.values():
                path.unlink(missing_ok=True)

    def _kept(self) -> dict[int, Path]:
        """The files that count, in the order of their rounds."""
        if self._list.exists():
            names = self._read_list()
        else:
            names = [path.name for path in self._found()]
            if listed := [name for name in names if "-" in name]:
                raise FedhaltError(f"{self.path} holds {listed[0]}, but {self._list.name} is gone; {self._way_out}")
        return dict(sorted((int(name.partition(".")[0].partition("-")[0]), self.path / name) for name in names))

    def _found(self) -> list[Path]:
        """The memories in the folder; version 0.1.0 named them by the round alone, and had no list."""
        found = sorted(self.path.glob("*.safetensors")) if self.path.exists() else []
        return [path for path in found if NAME.fullmatch(path.name)]

    def _read_list(self) -> list[str]:
        content = files.read(self._list)
        try:
            found = lines.from_line(content.removesuffix(b"\n"))
        except ValueError as error:
            raise FedhaltError(f"{self._list}: {error}; {self._way_out}") from None
        names = found.pop("versions", None)
        if found != self._whose or not isinstance(names, list) or not all(NAME.fullmatch(str(name)) for name in names):
            raise FedhaltError(f"{self._list} is not the list of this client's memory in this run; {self._way_out}")
        return names

    def _write_list(self, kept: dict[int, Path]) -> None:
        names = [path.name for path in kept.values()]
        files.write(self._list, lines.to_line({**self._whose, "versions": names}), private=True)

    @property
    def _way_out(self) -> str:
        return f"put it back, or remove {self.path} to let the client start over"


def client_number(context: Context) -> int:
    """The client's number in the federation: its partition, or its node if it was given none."""
    return int(context.node_config.get("partition-id", context.node_id))
