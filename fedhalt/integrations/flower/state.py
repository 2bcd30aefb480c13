"""What a killed Flower server needs to go on: a folder with the stopper, the model and the strategy's own state.

    folder/  stopper.json, start-*.safetensors     theta_0 and the rule's state (EarlyStopper.save)
             round-R.json, round-R.safetensors     model, strategy and metrics after round R

A round counts once stopper.json names it: everything else is written before and what it supersedes is deleted after.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from flwr.app import Array, ArrayRecord
from flwr.common import Parameters
from flwr.server.strategy import Strategy as LegacyStrategy
from flwr.serverapp.strategy import Strategy

from ... import files
from ...check import FedhaltError
from ...rules import Rule
from ...stopper import STATE, EarlyStopper

Arrays = dict[str, Any]

HARMLESS = (Strategy, LegacyStrategy, Path, Enum, logging.Logger)
"""What strategies hold that training does not change."""

LOG = logging.getLogger("flwr")
"""Flower's own, so that our lines stand among its lines."""


@dataclass(frozen=True)
class Saved:
    """What an object's `state_dict` said, for an object of the new run to load."""

    state: Any


class StateFolder:
    """The folder of one run, held by one process at a time."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FedhaltError(f"state={os.fspath(path)!r} cannot be a folder: {error.strerror}") from None
        self.close = weakref.finalize(self, files.lock(self.path).close)
        """Lets go of the folder, at the latest with this object: the legacy API does not say when a run ends."""

    @property
    def saved(self) -> bool:
        return (self.path / STATE).exists()

    def load(self, rule: Rule, trajectory: Any) -> tuple[EarlyStopper, dict[str, Any]] | None:
        """The stopper and what was saved beside it, None if nothing was."""
        if not self.saved:
            return None
        stopper = EarlyStopper.load(self.path, rule=rule, trajectory=trajectory)
        text, data = self._file(stopper.round, "json"), self._file(stopper.round, "safetensors")
        for path in (text, data):
            if not path.exists():
                raise FedhaltError(f"{path} is missing: the folder is not complete")
        try:
            saved: dict[str, Any] = files.from_json(text.read_text(encoding="utf-8"))
        except ValueError as error:
            raise FedhaltError(f"{text} is damaged: {error}") from None
        content = data.read_bytes()
        if files.digest(content) != saved["digest"]:
            raise FedhaltError(f"{data} is damaged: its digest does not match its content")
        arrays = safetensors.numpy.load(content)
        return stopper, {**saved, "content": decode(saved["content"], arrays)}

    def save(self, stopper: EarlyStopper, content: dict[str, Any], facts: dict[str, Any]) -> None:
        """Makes the stopper's round count: `content` may hold arrays, `facts` is plain JSON."""
        arrays: Arrays = {}
        tree = encode(content, arrays, "")
        data = files.from_arrays(arrays, {"fedhalt": "flower"})
        files.write(self._file(stopper.round, "safetensors"), data)
        text = files.to_json({**facts, "digest": files.digest(data), "content": tree})
        files.write(self._file(stopper.round, "json"), f"{text}\n".encode())
        stopper.save(self.path)
        for file in self.path.glob("round-*"):
            if file.stem != f"round-{stopper.round}":
                file.unlink(missing_ok=True)

    def _file(self, r: int, suffix: str) -> Path:
        return self.path / f"round-{r}.{suffix}"


class OwnState:
    """A strategy's own state: the attributes, its wrapped strategy's too, that training changes.

    A strategy that lists them as `fedhalt_state = ("momentum", …)` is taken at its word; of any other,
    whatever differs from what it was before the first round is saved.
    """

    def __init__(self, strategy: Any) -> None:
        self.levels = list(levels(strategy))
        self._before = [{name: _print(value) for name, value in vars(level).items()} for level in self.levels]
        self._told: set[str] = set()

    @property
    def names(self) -> list[str]:
        """Which strategies these are; one with settings that must not change says so itself."""
        return [getattr(level, "fedhalt_identity", type(level).__name__) for level in self.levels]

    def changed(self) -> list[dict[str, Any]]:
        """The attributes of each level to be saved, by name."""
        return [
            {name: value for name, value in vars(level).items() if self._counts(level, name, value, before)}
            for level, before in zip(self.levels, self._before, strict=True)
        ]

    def restore(self, saved: list[dict[str, Any]]) -> None:
        for level, attributes in zip(self.levels, saved, strict=True):
            for name, value in attributes.items():
                if not _put_back(level, name, value):
                    LOG.warning("fedhalt: %s.%s is not there yet and begins anew", type(level).__name__, name)

    def _counts(self, level: Any, name: str, value: Any, before: dict[str, Any]) -> bool:
        listed = getattr(level, "fedhalt_state", None)
        if listed is not None:
            return name in listed
        now = _print(value)
        if now is None:
            what = f"{type(level).__name__}.{name} ({type(value).__name__})"
            if what not in self._told and not isinstance(value, HARMLESS) and not callable(value):
                self._told.add(what)
                LOG.warning("fedhalt: %s cannot be saved; a continued run begins with a new one", what)
            return False
        return now != before.get(name)


def _put_back(level: Any, name: str, value: Any) -> bool:
    """Gives an attribute its saved value, inside the object that is there where others may hold it too."""
    there: Any = getattr(level, name, None)
    if isinstance(value, Saved):
        if not _stateful(there):
            return False
        there.load_state_dict(value.state)
    elif _tensor(there) and _tensor(value) and there.shape == value.shape:
        there.data.copy_(value)
    elif isinstance(there, dict) and isinstance(value, dict):
        there.clear()
        there.update(value)
    else:
        setattr(level, name, value)
    return True


def encode(value: Any, arrays: Arrays, key: str) -> Any:
    """The value as a JSON tree; its arrays go to `arrays` under their path."""
    if value is None or isinstance(value, (bool, int, float)):
        return {"value": value}
    if isinstance(value, str):
        return {"text": f"={value}"}  # a text that reads "NaN" stays one
    if isinstance(value, ArrayRecord):
        return {"arrayrecord": encode({name: each.numpy() for name, each in value.items()}, arrays, key)}
    if isinstance(value, Parameters):
        each = [np.frombuffer(tensor, np.uint8) for tensor in value.tensors]
        return {"parameters": encode(each, arrays, key), "type": value.tensor_type}
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        arrays[key] = np.asarray(value)
        return {"array": key}
    if _tensor(value):
        arrays[key] = value.detach().cpu().numpy()
        return {"tensor": key}
    if isinstance(value, dict) and all(isinstance(name, (str, int)) for name in value):
        pairs = enumerate(value.items())
        return {"dict": [[encode(k, {}, ""), encode(child, arrays, f"{key}/{index}")] for index, (k, child) in pairs]}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [encode(child, arrays, f"{key}/{index}") for index, child in enumerate(value)]}
    if _stateful(value):
        return {"state": encode(value.state_dict(), arrays, key)}
    raise TypeError(f"{key} is a {type(value).__name__}")


def decode(tree: Any, arrays: Arrays) -> Any:
    """The inverse of `encode`; an object with a state comes back as that state."""
    ((kind, content),) = ((kind, content) for kind, content in tree.items() if kind != "type")
    if kind == "text":
        return content[1:]
    if kind == "array":
        return arrays[content]
    if kind == "tensor":
        import torch

        return torch.from_numpy(arrays[content])
    if kind in ("list", "tuple"):
        children = [decode(child, arrays) for child in content]
        return children if kind == "list" else tuple(children)
    if kind == "dict":
        return {decode(name, arrays): decode(child, arrays) for name, child in content}
    if kind == "arrayrecord":
        return ArrayRecord({name: Array(value) for name, value in decode(content, arrays).items()})
    if kind == "parameters":
        return Parameters([part.tobytes() for part in decode(content, arrays)], tree["type"])
    return Saved(decode(content, arrays)) if kind == "state" else content


def levels(strategy: Any) -> Iterator[Any]:
    """The strategy, the one it wraps, whatever it calls it, and so on."""
    yield strategy
    for value in vars(strategy).values():
        if isinstance(value, (Strategy, LegacyStrategy)):
            yield from levels(value)


def _stateful(value: Any) -> bool:
    """Whether the object can save itself, as Flower's privacy accountant can."""
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def _tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor) and value.dtype != torch.bfloat16


def _print(value: Any) -> str | None:
    """A digest of what can be saved, None for what cannot."""
    arrays: Arrays = {}
    try:
        text = files.to_json(encode(value, arrays, ""))
    except TypeError:
        return None
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for array in arrays.values():
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
