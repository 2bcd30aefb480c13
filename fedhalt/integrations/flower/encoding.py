"""What a strategy may hold, as JSON and arrays and back; nothing is ever unpickled."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord

from ... import files

Arrays = dict[str, Any]


@dataclass(frozen=True)
class SavedState:
    """What an object's `state_dict` said, for an object of the new run to load."""

    state: Any


def encode(value: Any, arrays: Arrays, key: str) -> Any:
    """The value as a JSON tree; its arrays go to `arrays` under their path. TypeError for what cannot be saved."""
    if value is None or isinstance(value, (bool, int, float)):
        return {"value": value}
    if isinstance(value, str):
        # a text that reads "NaN" stays one
        return {"text": f"={value}"}
    if isinstance(value, bytes):
        arrays[key] = np.frombuffer(value, np.uint8)
        return {"bytes": key}
    if isinstance(value, ArrayRecord):
        return {"arrayrecord": encode({name: each.numpy() for name, each in value.items()}, arrays, key)}
    if isinstance(value, loaded("flwr.common", "Parameters")):
        tensors = [np.frombuffer(tensor, np.uint8) for tensor in value.tensors]
        return {"parameters": encode(tensors, arrays, key), "type": value.tensor_type}
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biuf" and value.dtype.itemsize <= 8:
        arrays[key] = np.asarray(value)
        return {"array": key}
    if is_tensor(value):
        from ...methods.convert import to_numpy

        arrays[key] = to_numpy(value)
        return {"tensor": key}
    if isinstance(value, dict) and all(isinstance(name, (str, int)) for name in value):
        pairs = enumerate(value.items())
        return {"dict": [[encode(k, {}, ""), encode(child, arrays, f"{key}/{index}")] for index, (k, child) in pairs]}
    if isinstance(value, (list, tuple)):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [encode(child, arrays, f"{key}/{index}") for index, child in enumerate(value)]}
    if is_stateful(value):
        return {"state": encode(value.state_dict(), arrays, key)}
    raise TypeError(f"{key} is a {type(value).__name__}")


def decode(tree: Any, arrays: Arrays) -> Any:
    """The inverse of `encode`; an object with a state comes back as that state."""
    ((kind, content),) = ((kind, content) for kind, content in tree.items() if kind != "type")
    if kind == "text":
        return content[1:]
    if kind == "array":
        return arrays[content]
    if kind == "bytes":
        return arrays[content].tobytes()
    if kind == "tensor":
        from ...methods.convert import to_tensor

        return to_tensor(arrays[content])
    if kind in ("list", "tuple"):
        children = [decode(child, arrays) for child in content]
        return children if kind == "list" else tuple(children)
    if kind == "dict":
        return {decode(name, arrays): decode(child, arrays) for name, child in content}
    if kind == "arrayrecord":
        return ArrayRecord({name: Array(value) for name, value in decode(content, arrays).items()})
    if kind == "parameters":
        from flwr.common import Parameters

        return Parameters([tensor.tobytes() for tensor in decode(content, arrays)], tree["type"])
    return SavedState(decode(content, arrays)) if kind == "state" else content


def loaded(module: str, name: str) -> Any:
    """A class for isinstance, without importing it: where nobody has, nobody passes one of its instances either."""
    return getattr(sys.modules.get(module), name, ())


def is_stateful(value: Any) -> bool:
    """Whether the object can save itself, as Flower's privacy accountant can."""
    return hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def is_tensor(value: Any) -> bool:
    """Whether it is a torch tensor that numpy can hold; torch is not imported for the answer."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor) and value.dtype != torch.bfloat16


def fingerprint(value: Any) -> str | None:
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
