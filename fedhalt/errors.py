"""Settings are checked where they are given: the error repeats the value and names the alternative."""

from __future__ import annotations

import difflib
import math
import numbers
from collections.abc import Iterable


class FedhaltError(ValueError):
    """A value, a file or a record that fedhalt cannot accept; the message is one readable sentence."""


class MissingExtra(FedhaltError, ImportError):
    """An optional part is not installed; the message states the pip command."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f"{what} needs {package}, which is not installed: pip install 'fedhalt[{extra}]'")


def positive(name: str, value: object) -> float:
    """A finite number above zero, as a float."""
    number = real(name, value, "a finite number above 0")
    if not number > 0:
        raise FedhaltError(f"{name} must be a finite number above 0, not {value!r}")
    return number


def non_negative(name: str, value: object) -> float:
    """A finite number, zero or above, as a float."""
    number = real(name, value, "a finite number, 0 or above")
    if number < 0:
        raise FedhaltError(f"{name} must be a finite number, 0 or above, not {value!r}")
    return number


def real(name: str, value: object, expected: str = "a finite number") -> float:
    """A finite number, as a float."""
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise FedhaltError(f"{name} must be {expected}, not {value!r}")


def whole(name: str, value: object, least: int = 1) -> int:
    """A whole number of at least `least`, as an int."""
    if isinstance(value, numbers.Integral) and not isinstance(value, bool) and int(value) >= least:
        return int(value)
    raise FedhaltError(f"{name} must be a whole number of at least {least}, not {value!r}")


def fraction(name: str, value: object, below: bool = False) -> float:
    """A number from 0 to 1, or strictly below 1, as a float."""
    expected = "0 or above and below 1" if below else "from 0 to 1"
    number = real(name, value, f"a number {expected}")
    if not 0 <= number <= 1 or (below and number == 1):
        raise FedhaltError(f"{name} must be a number {expected}, not {value!r}")
    return number


def flag(name: str, value: object) -> bool:
    """True or False, and nothing that merely looks like it."""
    if not isinstance(value, bool):
        raise FedhaltError(f"{name} must be True or False, not {value!r}")
    return value


def parsed(text: str) -> int | float | None:
    """The number that a text is, or None."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return None


def known(kind: str, name: object, names: Iterable[str]) -> str:
    """`name` if it is one of `names`; otherwise an error with the nearest match and the list."""
    names = list(names)
    if isinstance(name, str) and name in names:
        return name
    near = difflib.get_close_matches(str(name).lower(), names, n=1)
    hint = f", did you mean {near[0]!r}?" if near else ";"
    raise FedhaltError(f"{name!r} is no {kind}{hint} known: {', '.join(names) or 'none'}")
