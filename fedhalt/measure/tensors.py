"""Named arrays as safetensors, bfloat16 included: what the stopper, Flower's state and the feature cache keep."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
from safetensors.numpy import save

from .. import files
from ..errors import FedhaltError
from .arrays import BFLOAT16, Array, widen


def from_arrays(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    """Named arrays in the safetensors format; bfloat16 is widened to float32, exactly."""
    plain = {name: widen(array) if array.dtype == BFLOAT16 else array for name, array in arrays.items()}
    return ordered(save(plain, dict(metadata)))


def ordered(data: bytes) -> bytes:
    """The same safetensors file with its metadata in order: the library writes it in any."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    if "__metadata__" in header:
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


FLOATING: dict[str, np.dtype[Any]] = {
    "F16": np.dtype("<f2"), "BF16": BFLOAT16, "F32": np.dtype("<f4"), "F64": np.dtype("<f8"),
}  # fmt: skip
OTHERS: dict[str, np.dtype[Any]] = {
    "I8": np.dtype("i1"), "I16": np.dtype("<i2"), "I32": np.dtype("<i4"), "I64": np.dtype("<i8"), "U8": np.dtype("u1"),
    "U16": np.dtype("<u2"), "U32": np.dtype("<u4"), "U64": np.dtype("<u8"), "BOOL": np.dtype("?"),
}  # fmt: skip


def pack(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    """Named arrays as a safetensors file that keeps their types, bfloat16 too, which numpy has not."""
    names = {dtype: name for name, dtype in (FLOATING | OTHERS).items()}
    header: dict[str, object] = {"__metadata__": dict(sorted(metadata.items()))}
    content = b""
    for name, array in arrays.items():
        data = np.ascontiguousarray(array).tobytes()
        kind = names[array.dtype.newbyteorder("=") if array.dtype != BFLOAT16 else BFLOAT16]
        header[name] = {"dtype": kind, "shape": array.shape, "data_offsets": [len(content), len(content) + len(data)]}
        content += data
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + content


def to_arrays(data: bytes, path: Path, others: bool = False) -> dict[str, Array]:
    """The arrays of a safetensors file, bfloat16 under its tag; those that are not floating only if asked for."""
    kinds = FLOATING | OTHERS if others else FLOATING
    try:
        # the library gives them in any order, on which the last bit of a sum over them would depend
        entries = sorted(safetensors.deserialize(data), key=lambda entry: entry[0])  # type: ignore[no-untyped-call]
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


def write(folder: Path, kind: str, arrays: Mapping[str, Array]) -> str:
    """Writes named arrays into a file whose name holds its digest; the name."""
    data = from_arrays(arrays, {"fedhalt": f"stopper {kind}"})
    name = f"{kind}-{files.digest(data)}.safetensors"
    files.write(folder / name, data, private=True)
    return name


def read(path: Path) -> dict[str, Array]:
    """What `write` wrote; a file that has changed since is refused."""
    if not path.exists():
        raise FedhaltError(f"{path} is missing: the stopper's folder is not complete")
    data = files.read(path)
    if files.digest(data) not in path.name:
        raise FedhaltError(f"{path} is damaged: its digest does not match its content")
    return to_arrays(data, path)
