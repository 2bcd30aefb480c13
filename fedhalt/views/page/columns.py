"""Numbers for the page: small enough to send, exact where a rule decides by them."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import FedhaltError
from ...rules.base import number
from ...rules.columns import are_floats

STEPS = 2**16 - 1
"""Places between the least and the largest number of a column that is only drawn."""

Packed = dict[str, Any]


def pack_exact(values: Sequence[Any]) -> Packed:
    """Every number to the last bit."""
    return _pack(values, lambda numbers: ("f8", np.array(numbers, dtype="<f8"), {}))


def pack_single(values: Sequence[Any]) -> Packed:
    """Every number in single precision."""
    return _pack(values, lambda numbers: ("f4", np.array(numbers, dtype="<f4"), {}))


def pack_drawn(values: Sequence[Any]) -> Packed | None:
    """As exactly as a picture or a table shows them; None if there is no number at all."""
    made = _pack(values, _drawn)
    return made if made["data"] or "bad" in made else None


def pack_codes(codes: Sequence[int]) -> Packed:
    """Small whole numbers, one for each round."""
    return {"kind": "u1", "data": _text(np.array(codes, dtype="u1"))}


def _pack(values: Sequence[Any], encode: Any) -> Packed:
    """A column's numbers, and if some rounds have none, where they begin or the places of all."""
    first = next((index for index, value in enumerate(values) if value is not None), len(values))
    numbers = values[first:] if first else values
    if are_floats(numbers):
        made = _packed(numbers, encode)
        return {**made, "from": first} if first else made
    places = [index for index, value in enumerate(values) if value is not None]
    numbers, ended = _numbers([values[index] for index in places])
    made = _packed(numbers, encode)
    if ended is not None:
        made["bad"] = places[ended]  # where the column stops being numbers
        places = places[:ended]
    if len(places) < len(values):
        made["at"] = places
    return made


def _packed(numbers: Sequence[float], encode: Any) -> Packed:
    kind, array, more = encode(numbers)
    return {"kind": kind, "data": _text(array), **more}


def _numbers(values: list[Any]) -> tuple[list[float], int | None]:
    """The values as numbers, up to the place of the first that is none."""
    numbers: list[float] = []
    for place, value in enumerate(values):
        try:
            numbers.append(number({"it": value}, "it", 0))
        except FedhaltError:
            return numbers, place
    return numbers, None


def _drawn(numbers: Sequence[float]) -> tuple[str, NDArray[Any], dict[str, float]]:
    """Even steps between the ends; single precision where there are no ends."""
    exact = np.array(numbers, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = (float(exact.min()), float(exact.max())) if len(exact) else (0.0, 0.0)
        if not np.isfinite(high - low):
            return "f4", exact.astype("<f4"), {}
    step = (high - low) / STEPS
    scaled = np.rint((exact - low) / step) if step else np.zeros(len(exact))
    return "u2", scaled.astype("<u2"), {"low": low, "step": step}


def _text(array: NDArray[Any]) -> str:
    """First bytes first, then second bytes, and so on: exponents, which repeat, stand together and compress."""
    planes = array.view(np.uint8).reshape(len(array), array.itemsize).T
    return base64.b64encode(np.ascontiguousarray(planes).tobytes()).decode()
