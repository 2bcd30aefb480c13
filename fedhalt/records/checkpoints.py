"""Global models that any tool saved, one file a round, measured against the first."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import files
from .arrays import Patterns, named
from .check import FedhaltError, MissingExtra
from .distance import Meter

SUFFIXES = (".safetensors", ".npz", ".npy", ".pt", ".pth")


def read(path: Path, chosen: bool = True) -> dict[str, Any]:
    """The arrays of one saved model; nothing in it is ever executed.

    A file with several groups of arrays (a model and its optimiser) is refused unless some were chosen.
    """
    if path.suffix not in SUFFIXES:
        raise FedhaltError(f"{path}: unknown kind of model file; known: {', '.join(SUFFIXES)}")
    if path.suffix == ".safetensors":
        return dict(files.to_arrays(path.read_bytes(), path))
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
    ) -> None:
        if not folder.is_dir():
            raise FedhaltError(f"{folder} is not a folder of saved models")
        self.folder, self.columns, self.start = folder, columns, start
        self.include, self.exclude = include, exclude
        self._chosen = include is not None or exclude is not None
        self._meter: Meter | None = None
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
            row = self._meter.measure(now)
            self._meter.keep(now)
        except FedhaltError as error:
            raise FedhaltError(f"{path}: {error}") from None
        self._seen[path] = None
        return {"round": len(self._seen) - (self.start is None), **row, "checkpoint": path.name}

    def follow(self, interval: float) -> Iterator[dict[str, Any]]:
        """Rows as the files come, for ever. A file that cannot be read yet is waited for."""
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
