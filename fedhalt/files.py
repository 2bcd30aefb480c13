"""Files that survive a kill: atomic writes, strict JSON, safetensors; nothing is ever unpickled."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import safetensors
from safetensors.numpy import save

from .arrays import BFLOAT16, Array, widen
from .check import FedhaltError

NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""JSON has no such numbers: they are written as these strings, which every reader accepts."""


class InUse(FedhaltError):
    """Another process holds the folder; whoever shares work leaves it to that one."""


def write(path: Path, data: bytes, durable: bool = True) -> None:
    """The whole file or the old one: written beside it and moved into place.

    A killed process never leaves half a file; with `durable` a power cut does not either.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(beside, "wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def lock(folder: Path, wait: bool = False) -> IO[str]:
    """Holds the folder for this process until the returned file is closed or the process ends."""
    file = open(folder / ".lock", "w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        file.close()
        raise InUse(f"{folder} is in use by another process") from None
    return file


def to_json(value: Any) -> str:
    """One line of strict JSON; numpy scalars and arrays become numbers and lists."""
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)


def from_json(text: str) -> Any:
    """The inverse of `to_json`; raises ValueError on anything else."""
    special = '"NaN"' in text or 'Infinity"' in text  # looking is cheaper than walking every object
    try:
        return _revive(json.loads(text)) if special else json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def from_arrays(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    """Named arrays in the safetensors format; bfloat16 is widened to float32, exactly."""
    plain = {name: widen(array) if array.dtype == BFLOAT16 else array for name, array in arrays.items()}
    return save(plain, dict(metadata))


def to_arrays(data: bytes, path: Path) -> dict[str, Array]:
    """The arrays of a safetensors file, bfloat16 under its tag; integer entries are left out."""
    kinds = {"F16": np.dtype("<f2"), "BF16": BFLOAT16, "F32": np.dtype("<f4"), "F64": np.dtype("<f8")}
    try:
        entries = safetensors.deserialize(data)  # type: ignore[no-untyped-call]
    except safetensors.SafetensorError as error:
        raise FedhaltError(f"{path} is not a whole safetensors file: {error}") from None
    for name, entry in entries:
        if entry["dtype"].startswith("F8"):
            raise FedhaltError(f"{path}: {name!r} is an 8-bit float ({entry['dtype']}), which is not supported")
    return {
        name: np.frombuffer(entry["data"], dtype=kinds[entry["dtype"]]).reshape(entry["shape"])
        for name, entry in entries
        if entry["dtype"] in kinds
    }


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        number = float(value)
        return number if math.isfinite(number) else "NaN" if number != number else f"{'-' * (number < 0)}Infinity"
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(child) for child in value]
    if callable(getattr(value, "tolist", None)):  # numpy and torch
        return _plain(value.tolist())
    raise FedhaltError(f"cannot be recorded: {value!r} ({type(value).__name__}); give numbers, text or lists of them")


def _revive(value: Any) -> Any:
    if isinstance(value, str):
        return NON_FINITE.get(value, value)
    if isinstance(value, dict):
        return {key: _revive(child) for key, child in value.items()}
    return [_revive(child) for child in value] if isinstance(value, list) else value


def checkout(needed: str) -> Path:
    """The checkout of the repository that this package, or the working directory, is in: what is not in the wheel."""
    for root in (Path(__file__).parent.parent, Path.cwd()):
        if (root / needed).is_dir():
            return root
    raise FedhaltError(f"no {needed} here: this runs in a checkout of the repository, not elsewhere")
