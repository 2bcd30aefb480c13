"""Parameters of any framework as named numpy arrays: by protocol, importing nothing that is not there."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from ..errors import FedhaltError

Patterns = str | Sequence[str] | None
Array = np.ndarray[Any, np.dtype[Any]]

BFLOAT16 = np.dtype([("bfloat16", np.uint16)])
"""numpy has no bfloat16: its bits travel under this tag, without a copy, until `widen` reads them."""

CHUNK = 1 << 16
"""Elements per pass: the buffers stay in the cache, and a float32 dot of this length loses nothing."""


def leaves(params: Any, include: Patterns = None, exclude: Patterns = None) -> dict[str, Any]:
    """The floating-point arrays of `params` by name, in order, not yet copied or converted.

    A torch module means its parameters; mappings and sequences may be nested (names joined by
    dots); patterns are shell-style globs on the names.
    """
    include, exclude = _patterns("include", include), _patterns("exclude", exclude)
    chosen: dict[str, Any] = {}
    seen: list[str] = []
    for name, leaf in named(params):
        seen.append(name)
        if not matches(name, include):
            continue
        if exclude is not None and any(fnmatchcase(name, pattern) for pattern in exclude):
            continue
        if not is_floating(name, leaf):
            continue
        if name in chosen:
            raise FedhaltError(f"two arrays are both called {name!r}; rename one")
        chosen[name] = leaf
    for pattern in include or ():
        if not any(fnmatchcase(name, pattern) for name in seen):
            raise FedhaltError(f"include pattern {pattern!r} matches no key; keys: {_some(seen)}")
    if not chosen:
        raise FedhaltError(
            f"nothing to watch: no floating-point array is selected from {_some(seen)} "
            f"(include={include!r}, exclude={exclude!r})"
        )
    return chosen


def matches(name: str, include: Patterns) -> bool:
    """Whether a name is chosen; without patterns every one is."""
    patterns = _patterns("include", include)
    return patterns is None or any(fnmatchcase(name, pattern) for pattern in patterns)


def shape(leaf: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in getattr(leaf, "shape", ()))


def dense(leaf: Any) -> Array:
    """A numpy view of one leaf, without a copy where the framework allows it."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(leaf, torch.Tensor):
        if leaf.layout != torch.strided or leaf.is_meta or leaf.is_quantized:
            raise FedhaltError(f"a {leaf.layout} tensor on {leaf.device} has no plain numbers; give a dense copy of it")
        tensor = leaf.detach().cpu()
        if tensor.dtype == torch.bfloat16:
            return np.asarray(tensor.view(torch.uint16).numpy()).view(BFLOAT16)
        if tensor.dtype not in (torch.float16, torch.float32, torch.float64):
            tensor = tensor.float()
        return np.asarray(tensor.numpy())
    if not hasattr(leaf, "__array__") and callable(getattr(leaf, "numpy", None)):
        leaf = leaf.numpy()  # Flower's Array
    array = np.asarray(leaf)
    if array.dtype.name == "bfloat16":
        return array.view(np.uint16).view(BFLOAT16)
    if array.dtype != BFLOAT16 and array.dtype.name not in ("float16", "float32", "float64"):
        with np.errstate(over="ignore", invalid="ignore"):
            array = array.astype(np.float64)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def copy(leaf: Any) -> Array:
    """A private, contiguous copy of one leaf in its own precision."""
    return np.array(dense(leaf), order="C", copy=True)


def chunks(array: Array) -> Iterator[Array]:
    """The array's elements in order, in flat pieces of at most CHUNK, as float32 or float64."""
    flat: Any = array.reshape(-1) if array.flags.c_contiguous else array.flat
    pieces = (flat[begin : begin + CHUNK] for begin in range(0, array.size, CHUNK))
    return pieces if array.dtype in (np.float32, np.float64) else map(widen, pieces)


def all_finite(params: Any) -> bool:
    """Whether every floating-point number of `params` is one."""
    return all(is_finite(leaf) for name, leaf in named(params) if is_floating(name, leaf))


def is_finite(leaf: Any) -> bool:
    """Whether every number of one floating-point leaf is finite."""
    return all(bool(np.isfinite(piece).all()) for piece in chunks(dense(leaf)))


def widen(piece: Array) -> Array:
    """float16 and bfloat16 as float32, exactly."""
    if piece.dtype == BFLOAT16:
        bits = piece["bfloat16"].astype(np.uint32)
        bits <<= 16
        return bits.view(np.float32)
    return piece.astype(np.float32)


def named(params: Any) -> Iterator[tuple[str, Any]]:
    """Every entry of `params` with its name, whatever it is."""
    if callable(getattr(params, "named_parameters", None)):
        yield from params.named_parameters()
    elif hasattr(params, "tensors") and hasattr(params, "tensor_type"):  # Flower's legacy Parameters
        for index, tensor in enumerate(params.tensors):
            try:
                yield str(index), np.load(io.BytesIO(tensor), allow_pickle=False)
            except (ValueError, EOFError, OSError) as error:
                raise FedhaltError(f"Parameters.tensors[{index}] is not a serialized numpy array: {error}") from None
    else:
        yield from _walk("", params)


def _walk(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(value, "dtype") or hasattr(value, "__array__") or isinstance(value, (str, bytes)):
        yield name or "array", value
    elif isinstance(value, Mapping):
        for key, child in value.items():
            yield from _walk(f"{name}.{key}" if name else str(key), child)
    elif isinstance(value, Iterable):
        for index, child in enumerate(value):
            yield from _walk(f"{name}.{index}" if name else str(index), child)
    else:
        yield name or "array", value


def is_floating(name: str, leaf: Any) -> bool:
    """Whether the leaf counts; integers (step counters) do not, and what is no array is refused."""
    if isinstance(leaf, float) or getattr(leaf, "dtype", None) is BFLOAT16:
        return True
    if isinstance(leaf, int):
        return False
    kind = getattr(leaf, "dtype", None)
    if kind is None:
        raise FedhaltError(
            f"{name!r} is not an array but {leaf!r:.60} ({type(leaf).__name__}); leave it out with exclude="
        )
    said = str(getattr(kind, "name", kind))
    if "complex" in said:
        raise FedhaltError(f"{name!r} is complex ({said}); give its real and imaginary parts as two arrays")
    if "object" in said:
        raise FedhaltError(f"{name!r} is an array of Python objects, not of numbers; leave it out with exclude=")
    return is_floating_type(kind)


def is_floating_type(kind: Any) -> bool:
    """Whether a type is floating-point: torch says so itself, numpy knows its own types and those of Flower's arrays.

    Only what numpy has no type for, such as bfloat16, goes by its name.
    """
    told = getattr(kind, "is_floating_point", None)
    if kind is None or isinstance(told, bool):
        return bool(told)
    try:
        if np.dtype(kind).kind != "V":
            return bool(np.dtype(kind).kind == "f")
    except TypeError:
        pass
    return str(getattr(kind, "name", kind)).rpartition(".")[2].startswith(("bfloat", "float"))


def _patterns(name: str, patterns: Patterns) -> list[str] | None:
    if patterns is None:
        return None
    if isinstance(patterns, str):
        return [patterns]
    if isinstance(patterns, Sequence) and all(isinstance(pattern, str) for pattern in patterns):
        return list(patterns)
    raise FedhaltError(f"{name} must be a pattern or a list of patterns such as '*.running_*', not {patterns!r}")


def _some(names: list[str]) -> str:
    """The first few names, for an error message."""
    more = f", … ({len(names)} in all)" if len(names) > 8 else ""
    return (", ".join(names[:8]) + more) if names else "an empty set of parameters"
