"""Checks of settings where they are given. An error repeats the value and names the alternative."""

from __future__ import annotations

import contextlib
import difflib
import math
import numbers
from collections.abc import Iterable, Iterator

LONGEST = 800
"""Letters of a message: of a longer one, which repeats what it refuses, the middle is left out."""


class FedhaltError(ValueError):
    """A value, a file or a record that fedhalt cannot accept. The message is one readable sentence.

    Text from others is kept to one line, and characters that no terminal should receive are escaped.

    Args:
        message: The sentence.

    Examples:
        >>> import fedhalt
        >>> fedhalt.GrowthRate(threshold=-1)
        Traceback (most recent call last):
        fedhalt.errors.FedhaltError: threshold must be a finite number above 0, not -1
    """

    def __init__(self, message: str = "") -> None:
        if not message.isprintable():
            message = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in message)
        if len(message) > LONGEST:
            message = f"{message[: LONGEST - 250]} […] {message[-200:]}"
        super().__init__(message)


class MissingExtra(FedhaltError, ImportError):
    """An optional dependency is not installed. The message contains the pip command.

    It is both a `FedhaltError` and an `ImportError`.

    Args:
        what: The part of fedhalt that needs the package.
        package: The missing package.
        extra: The extra of fedhalt that installs it.

    Examples:
        >>> import fedhalt
        >>> issubclass(fedhalt.MissingExtra, ImportError)
        True
    """

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs {package}, which is not installed: run pip install '.[{extra}]' in a clone of fedhalt"
        )


def brief(value: object) -> str:
    """A value as a message repeats it: of a long one the beginning and the end.

    >>> brief("x"), len(brief("x" * 10_000)), brief(1 << 100_000)
    ("'x'", 351, 'a number of 100001 bits')
    """
    try:
        text = repr(value)
    except ValueError:  # Python writes out no such number
        return f"a number of {value.bit_length()} bits" if isinstance(value, int) else f"a {type(value).__name__}"
    return text if len(text) <= 450 else f"{text[:300]}…{text[-50:]}"


@contextlib.contextmanager
def about(place: object) -> Iterator[None]:
    """Errors within the block name this file, if there is one and they do not yet."""
    try:
        yield
    except FedhaltError as error:
        if place is None or str(place) in str(error):
            raise
        raise FedhaltError(f"{place}: {error}") from None


def positive(name: str, value: object) -> float:
    """A finite number above zero, as a float."""
    number = real(name, value, "a finite number above 0")
    if not number > 0:
        raise FedhaltError(f"{name} must be a finite number above 0, not {brief(value)}")
    return number


def non_negative(name: str, value: object) -> float:
    """A finite number, zero or above, as a float."""
    number = real(name, value, "a finite number, 0 or above")
    if number < 0:
        raise FedhaltError(f"{name} must be a finite number, 0 or above, not {brief(value)}")
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
    raise FedhaltError(f"{name} must be {expected}, not {brief(value)}")


def whole(name: str, value: object, least: int = 1) -> int:
    """A whole number of at least `least` and at most 64 bits, as an int."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or int(value) < least:
        raise FedhaltError(f"{name} must be a whole number of at least {least}, not {brief(value)}")
    if int(value).bit_length() > 64:
        raise FedhaltError(f"{name} must be a whole number of at most 64 bits, not {brief(value)}")
    return int(value)


def fraction(name: str, value: object, below: bool = False) -> float:
    """A number from 0 to 1, or strictly below 1, as a float."""
    expected = "0 or above and below 1" if below else "from 0 to 1"
    number = real(name, value, f"a number {expected}")
    if not 0 <= number <= 1 or (below and number == 1):
        raise FedhaltError(f"{name} must be a number {expected}, not {brief(value)}")
    return number


def flag(name: str, value: object) -> bool:
    """True or False; nothing else is accepted."""
    if not isinstance(value, bool):
        raise FedhaltError(f"{name} must be True or False, not {brief(value)}")
    return value


def text(name: str, value: object) -> str:
    """Text, which may become the name of a file: without control characters."""
    if not isinstance(value, str):
        raise FedhaltError(f"{name} must be text, not {brief(value)}")
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in value):
        raise FedhaltError(f"{name} must be text without control characters, not {brief(value)}")
    return value


def names_in(setting: str, value: object) -> list[str]:
    """The names in a list. A single name stands for a list of one."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise FedhaltError(f"{setting} must be a name or a list of names, not {brief(value)}")
    return names


def parsed(text: str) -> int | float | None:
    """The number that a text is, or None."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return None


def require_one_of(kind: str, name: object, names: Iterable[str]) -> str:
    """`name` if it is one of `names`; otherwise an error with the nearest match and the list."""
    names = list(names)
    if isinstance(name, str) and name in names:
        return name
    near = difflib.get_close_matches(brief(name).strip("'")[:100].lower(), names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise FedhaltError(f"{kind} must be one of {', '.join(names) or 'none'}, not {brief(name)}{hint}")
