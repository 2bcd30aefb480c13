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
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from flwr.app import Array, ArrayRecord
from flwr.common import Parameters

from ... import files
from ...check import FedhaltError
from ...rules import Rule
from ...stopper import STATE, EarlyStopper

Arrays = dict[str, Any]

LOG = logging.getLogger("flwr")
"""Flower's own, so that our lines stand among its lines."""


class StateFolder:
    """The folder of one run, held by one process at a time."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self.close = weakref.finalize(self, files.lock(self.path).close)
        """Lets go of the folder, at the latest with this object: the legacy API does not say when a run ends."""

    def load(self, rule: Rule, trajectory: Any) -> tuple[EarlyStopper, dict[str, Any]] | None:
        """The stopper and what was saved beside it, None if nothing was."""
        if not (self.path / STATE).exists():
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
        if _digest(content) != saved["digest"]:
            raise FedhaltError(f"{data} is damaged: its digest does not match its content")
        arrays = safetensors.numpy.load(content)
        return stopper, {**saved, "content": decode(saved["content"], arrays)}

    def save(self, stopper: EarlyStopper, content: dict[str, Any], facts: dict[str, Any]) -> None:
        """Makes the stopper's round count: `content` may hold arrays, `facts` is plain JSON."""
        arrays: Arrays = {}
        tree = encode(content, arrays, "")
        data = files.from_arrays(arrays, {"fedhalt": "flower"})
        files.write(self._file(stopper.round, "safetensors"), data)
        text = files.to_json({**facts, "digest": _digest(data), "content": tree})
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
        return [type(level).__name__ for level in self.levels]

    def changed(self) -> list[dict[str, Any]]:
        """The attributes of each level to be saved, by name."""
        return [
            {name: value for name, value in vars(level).items() if self._counts(level, name, value, before)}
            for level, before in zip(self.levels, self._before, strict=True)
        ]

    def restore(self, saved: list[dict[str, Any]]) -> None:
        for level, attributes in zip(self.levels, saved, strict=True):
            for name, value in attributes.items():
                if _stateful(getattr(level, name, None)):
                    getattr(level, name).load_state_dict(value)
                else:
                    setattr(level, name, value)

    def _counts(self, level: Any, name: str, value: Any, before: dict[str, Any]) -> bool:
        listed = getattr(level, "fedhalt_state", None)
        if listed is not None:
            return name in listed
        now = _print(value)
        if now == before.get(name):
            return False
        if isinstance(now, int) and name not in self._told:
            self._told.add(name)
            kind = f"{type(level).__name__}.{name} ({type(value).__name__})"
            LOG.warning("fedhalt: %s changes and cannot be saved; a continued run starts without it", kind)
        return not isinstance(now, int)


def encode(value: Any, arrays: Arrays, key: str) -> Any:
    """The value as a JSON tree; its arrays go to `arrays` under their path."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"value": value}
    if isinstance(value, ArrayRecord):
        return {"arrayrecord": {name: encode(each.numpy(), arrays, f"{key}/{name}") for name, each in value.items()}}
    if isinstance(value, Parameters):
        each = [np.frombuffer(tensor, np.uint8) for tensor in value.tensors]
        return {"parameters": encode(each, arrays, key), "type": value.tensor_type}
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biuf":
        arrays[key] = np.asarray(value)
        return {"array": key}
    if _tensor(value):
        arrays[key] = value.detach().cpu().numpy()
        return {"tensor": key}
    if isinstance(value, dict) and all(isinstance(name, (str, int)) for name in value):
        return {"dict": [[name, encode(child, arrays, f"{key}/{name}")] for name, child in value.items()]}
    if isinstance(value, (list, tuple)):
        return {"list": [encode(child, arrays, f"{key}/{index}") for index, child in enumerate(value)]}
    if _stateful(value):
        return encode(value.state_dict(), arrays, key)
    raise TypeError(f"{key} is a {type(value).__name__}")


def decode(tree: Any, arrays: Arrays) -> Any:
    """The inverse of `encode`; a tuple comes back as a list, an object with a state as that state."""
    ((kind, content),) = ((kind, content) for kind, content in tree.items() if kind != "type")
    if kind == "array":
        return arrays[content]
    if kind == "list":
        return [decode(child, arrays) for child in content]
    if kind == "dict":
        return {name: decode(child, arrays) for name, child in content}
    if kind == "tensor":
        import torch

        return torch.from_numpy(arrays[content])
    if kind == "arrayrecord":
        return ArrayRecord({name: Array(decode(child, arrays)) for name, child in content.items()})
    if kind == "parameters":
        return Parameters([part.tobytes() for part in decode(content, arrays)], tree["type"])
    return content


def levels(strategy: Any) -> Iterator[Any]:
    """The strategy, the one it wraps, and so on."""
    while strategy is not None:
        yield strategy
        strategy = vars(strategy).get("strategy")


def _stateful(value: Any) -> bool:
    """Whether the object can save itself, as Flower's privacy accountant can."""
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def _tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor) and value.dtype != torch.bfloat16


def _print(value: Any) -> str | int:
    """A digest of what can be saved, the identity of what cannot."""
    arrays: Arrays = {}
    try:
        text = files.to_json(encode(value, arrays, ""))
    except TypeError:
        return id(value)
    digest = hashlib.blake2b(text.encode(), digest_size=16)
    for array in arrays.values():
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()
