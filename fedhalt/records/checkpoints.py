"""Global models that any tool saved, one file a round, measured against the first."""

from __future__ import annotations

import math
import pickletools
import re
import time
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .. import files
from ..errors import FedhaltError, MissingExtra, about
from ..measure import tensors
from ..measure.arrays import Array, Patterns, dense, is_floating, matches, named
from ..measure.average import Window, same_arrays
from ..measure.distance import Meter
from ..measure.rebuild import floating_arrays, rebuild
from ..measure.tail import AVERAGE_DISTANCE, Tail, average_for

LONGEST_NAME = 1000
SUFFIXES = (".safetensors", ".npz", ".npy", ".pt", ".pth")


def read(path: Path, chosen: bool = True, others: bool = False) -> dict[str, Any]:
    """The arrays of one saved model; nothing in it is ever executed.

    A file with several groups of arrays (a model and its optimizer) is refused unless some were chosen.
    """
    if path.suffix not in SUFFIXES:
        raise FedhaltError(f"{path}: unknown kind of model file; known: {', '.join(SUFFIXES)}")
    files.require_regular(path)
    if path.suffix == ".safetensors":
        return dict(tensors.to_arrays(files.read_any(path), path, others))
    if path.suffix in (".pt", ".pth"):
        try:
            import torch
        except ImportError:
            raise MissingExtra(f"reading {path.name}", "torch", "sim") from None
    with open(path, "rb") as file:
        try:
            if path.suffix == ".npz":
                content: Any = dict(np.load(file, allow_pickle=False))
            elif path.suffix == ".npy":
                content = np.load(file, allow_pickle=False)
            else:
                _require_short_names(file)
                content = torch.load(file, map_location="cpu", weights_only=True)
            arrays = {name: leaf for name, leaf in named(content) if hasattr(leaf, "dtype")}
            groups = [key for key, part in content.items() if _holds_arrays(part)] if isinstance(content, dict) else []
        except Exception as error:  # a damaged file makes these parsers raise almost anything
            reason = str(error).strip().split("\n")[0].split("In PyTorch")[0] or type(error).__name__
            if "eights only load failed" in reason:
                reason = "it holds more than tensors; save model.state_dict() instead"
            raise FedhaltError(f"{path} cannot be read as a model of plain arrays: {reason:.200}") from None
    if len(groups) > 1 and not chosen:
        found = ", ".join(map(str, groups))
        raise FedhaltError(f"{path} holds several groups of arrays ({found}); choose, e.g. --include '{groups[0]}.*'")
    return arrays


def _as_arrays(model: dict[str, Any]) -> dict[str, Array]:
    return {name: dense(leaf) if is_floating(name, leaf) else np.asarray(leaf) for name, leaf in model.items()}


def _require_short_names(file: BinaryIO) -> None:
    """Refuses a class whose name is none: torch's message about it takes time by the square of its length."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as archive:
            streams: list[Any] = [archive.read(name) for name in archive.namelist() if name.endswith("data.pkl")]
    else:
        file.seek(0)
        streams = [file] * 4  # one pickle behind the other
    for stream in streams:
        for opcode, argument, _ in pickletools.genops(stream):
            if opcode.name == "GLOBAL" and len(str(argument)) > LONGEST_NAME:
                raise ValueError(f"it names a class of {len(str(argument))} letters")
    file.seek(0)


def _holds_arrays(part: Any) -> bool:
    return isinstance(part, (dict, list, tuple)) and any(hasattr(leaf, "dtype") for _, leaf in named(part))


def listed(folder: Path) -> list[Path]:
    """The model files of a folder in natural order: round-2 before round-10."""
    return sorted((path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file()), key=natural)


def natural(path: Path) -> tuple[list[Any], str]:
    parts = re.split(r"([0-9]+)", path.name.lower())
    return [int(part) if index % 2 else part for index, part in enumerate(parts)], path.name


class Checkpoints:
    """A folder of models as rounds; the first one is theta_0 unless `start` names another."""

    def __init__(
        self,
        folder: Path,
        columns: tuple[str, ...],
        start: Path | None = None,
        include: Patterns = None,
        exclude: Patterns = None,
        average: int | None = None,
    ) -> None:
        if not folder.is_dir():
            raise FedhaltError(f"{folder} is not a folder of saved models")
        self.folder, self.columns, self.start = folder, columns, start
        self.include, self.exclude = include, exclude
        self._chosen = include is not None or exclude is not None
        self._meter: Meter | None = None
        read = AVERAGE_DISTANCE in columns  # else only `average()` needs one, at the end
        self._tail = Tail.of(columns, average_for(average, columns) if read else None)
        self._seen: dict[Path, None] = {}  # in the order they were read
        if start is not None:
            self._begin(start)

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row for every model after the start that is in the folder now and was not read yet."""
        for path in self.waiting():
            row = self.take(path)
            if row is not None:
                yield row

    def waiting(self) -> list[Path]:
        """The files not read yet, in order."""
        return [path for path in listed(self.folder) if path not in self._seen and not self._is_start(path)]

    def take(self, path: Path) -> dict[str, Any] | None:
        """Reads the next model: None if it is the start."""
        last = next(reversed(self._seen), None)
        if last is not None and natural(path) < natural(last):
            raise FedhaltError(f"{path.name} appeared after {last.name}, which it should precede")
        if self._meter is None:
            self._begin(path)
            self._seen[path] = None
            return None
        params = read(path, self._chosen)
        try:
            now = self._meter.leaves(params)
            row: dict[str, Any] = dict(self._meter.measure(now))
            self._tail = self._tail.added(now, now) if math.isfinite(row["distance"]) else self._tail
            row |= self._tail.columns(self._meter.start)
            self._meter.keep(now)
        except FedhaltError as error:
            raise FedhaltError(f"{path}: {error}") from None
        self._seen[path] = None
        return {"round": len(self._seen) - (self.start is None), **row, "checkpoint": path.name}

    def average(self, rounds: int, last: int) -> tuple[bytes, list[str]]:
        """The mean of the models of the `rounds` rounds up to round `last`, as a safetensors file; and their names.

        Every floating-point array that `include` chooses is averaged, watched or not; the others are the last model's.
        A model that is not finite is left out.
        """
        taken = [path for path in self._seen if not self._is_start(path)][self.start is None :][:last][-rounds:]
        mean = Window(rounds)
        for path in taken:
            with about(path):
                mean = mean.added(same_arrays(floating_arrays(self._whole(path)), mean.last))
        mean, places = mean.finite()
        names = [taken[place].name for place in places]
        model = rebuild(_as_arrays(self._whole(taken[places[-1]])), mean.mean())
        facts = {"fedhalt": "average", "first": names[0], "last": names[-1], "models": str(len(names))}
        return tensors.pack(model, facts), names

    def _whole(self, path: Path) -> dict[str, Any]:
        """All arrays of a model that `include` chooses."""
        return {name: leaf for name, leaf in read(path, others=True).items() if matches(name, self.include)}

    def follow(self, interval: float) -> Iterator[dict[str, Any]]:
        """Rows as the files come, forever. A file that cannot be read yet is waited for."""
        stuck: tuple[Path, int] | None = None
        told: Path | None = None
        while True:
            waiting = self.waiting()
            for path in waiting:
                try:
                    row = self.take(path)
                except (FedhaltError, FileNotFoundError) as error:
                    # still being written, unless it stopped growing and the next one is there already
                    size = path.stat().st_size if path.exists() else -1
                    if stuck == (path, size):
                        if path != waiting[-1]:
                            raise
                        if path != told:
                            warnings.warn(f"waiting for a whole {path.name}: {error}", stacklevel=2)
                            told = path
                    stuck = (path, size)
                    break
                if row is not None:
                    yield row
            time.sleep(interval)

    def _begin(self, path: Path) -> None:
        try:
            self._meter = Meter(read(path, self._chosen), self.columns, self.include, self.exclude)
        except FedhaltError as error:
            raise FedhaltError(f"{path}: {error}" if str(path) not in str(error) else str(error)) from None

    def _is_start(self, path: Path) -> bool:
        return self.start is not None and path.resolve() == self.start.resolve()
