"""Averaged numbers back in the structure and types that a model came in: module, state dict, list, ArrayRecord."""

from __future__ import annotations

import copy
import io
import sys
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

import numpy as np

from ..errors import FedhaltError
from .arrays import BFLOAT16, Array, dense, is_finite, is_floating, named, shape, widen


def floating_arrays(params: Any) -> dict[str, Any]:
    """Every floating-point array by name, not copied; of a torch module its buffers too."""
    return {name: leaf for name, leaf in _entries(params) if is_floating(name, leaf)}


def rebuild(like: Any, arrays: Mapping[str, Array]) -> Any:
    """A copy of `like` with these numbers in it; what has none (step counters) is as it is in `like`."""
    if callable(getattr(like, "named_parameters", None)):
        return _module(like, arrays)
    if hasattr(like, "tensors") and hasattr(like, "tensor_type"):
        return _legacy(like, arrays)
    return _walked("", like, arrays)


def require_alike(like: Any, arrays: Mapping[str, Array]) -> None:
    """Refuses a `like` of somebody's own that does not hold what these arrays are: it would be filled in part."""
    there, instead = floating_arrays(like), "give a model in the structure that update() was given"
    for name, array in arrays.items():
        if name not in there:
            raise FedhaltError(f"like= has no {name!r}, which is in the model to ship: {instead}")
        if shape(there[name]) != array.shape:
            raise FedhaltError(f"like= has {name!r} of shape {shape(there[name])}, not {array.shape}: {instead}")
    for name, leaf in there.items():
        if name not in arrays and is_finite(leaf):
            raise FedhaltError(f"like= has {name!r}, which is not in the model to ship: {instead}")


def _entries(params: Any) -> Iterator[tuple[str, Any]]:
    yield from named(params)
    if callable(getattr(params, "named_parameters", None)) and callable(getattr(params, "named_buffers", None)):
        yield from params.named_buffers()


def _module(like: Any, arrays: Mapping[str, Array]) -> Any:
    made = copy.deepcopy(like)  # shared weights stay shared
    for name, tensor in _entries(made):
        if name in arrays:
            tensor.data.copy_(_tensor(arrays[name]))
    return made


def _legacy(like: Any, arrays: Mapping[str, Array]) -> Any:
    """Flower's Parameters: numpy files in bytes."""
    tensors = []
    for name, leaf in named(like):
        file = io.BytesIO()
        np.save(file, _leaf(leaf, arrays[name]) if name in arrays else leaf, allow_pickle=False)
        tensors.append(file.getvalue())
    return type(like)(tensors=tensors, tensor_type=like.tensor_type)


def _walked(name: str, like: Any, arrays: Mapping[str, Array]) -> Any:
    """The same walk as in `arrays.named`."""
    if hasattr(like, "dtype") or hasattr(like, "__array__") or not isinstance(like, Iterable):
        own = name or "array"
        return _leaf(like, arrays[own]) if own in arrays else copy.deepcopy(like)
    if isinstance(like, Mapping):
        return _mapping(like, {key: _walked(_joined(name, key), child, arrays) for key, child in like.items()})
    children = [_walked(_joined(name, index), child, arrays) for index, child in enumerate(like)]
    if hasattr(like, "_fields"):
        return type(like)(*children)
    return type(like)(children) if isinstance(like, (list, tuple)) else children


def _joined(name: str, key: Any) -> str:
    return f"{name}.{key}" if name else str(key)


def _mapping(like: Mapping[Any, Any], content: dict[Any, Any]) -> Any:
    """A mapping of the same type; one whose type takes other arguments, as a defaultdict, is a copy filled anew."""
    try:
        return type(like)(content)  # type: ignore[call-arg]
    except TypeError:
        made = copy.copy(like) if isinstance(like, MutableMapping) else {}
        made.update(content)
        return made


def _leaf(like: Any, array: Array) -> Any:
    """The numbers as an array of the same kind, type and place."""
    torch, jax = sys.modules.get("torch"), sys.modules.get("jax")
    if torch is not None and isinstance(like, torch.Tensor):
        tensor = _tensor(array).to(like.device, like.dtype)
        return torch.nn.Parameter(tensor, like.requires_grad) if isinstance(like, torch.nn.Parameter) else tensor
    if isinstance(like, float) and not isinstance(like, np.generic):
        return float(array)
    if jax is not None and isinstance(like, jax.Array):
        return jax.numpy.asarray(_plain(array), like.dtype)
    if not hasattr(like, "__array__") and callable(getattr(like, "numpy", None)):
        return type(like)(_leaf(like.numpy(), array))  # Flower's Array
    if like.dtype == BFLOAT16:
        return _narrow(_plain(array))
    made = np.asarray(_plain(array)).astype(like.dtype)
    return made[()] if isinstance(like, np.generic) else made


def _tensor(array: Array) -> Any:
    return sys.modules["torch"].from_numpy(np.array(_plain(array)))


def _plain(array: Array) -> Array:
    return widen(dense(array)) if array.dtype == BFLOAT16 else array


def _narrow(array: Array) -> Array:
    """float32 as bfloat16 under its tag, rounded to the nearest, ties to even."""
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    rounded = (bits + (0x7FFF + ((bits >> 16) & 1)).astype(np.uint32)) >> 16
    return rounded.astype(np.uint16).view(BFLOAT16)
