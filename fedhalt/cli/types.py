"""What options take: numbers with their range, names out of a list, comma lists; each error names the option."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from ..errors import FedhaltError, non_negative, parsed, positive, real, require_one_of, whole

if TYPE_CHECKING:
    Kind = click.ParamType[Any]
else:
    Kind = click.ParamType  # takes no parameter in earlier versions of click


class Integer(click.IntRange):
    """A whole number in a range."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        number = whole(option_name(param), number_or_text(value), least=int(self.min or 0))
        if self.max is not None and number > self.max:
            raise FedhaltError(f"{option_name(param)} must be at most {self.max}, not {value!r}")
        return number


class Real(Kind):
    """A finite number."""

    name = "float"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        return real(option_name(param), number_or_text(value))


class Float(click.FloatRange):
    """A finite number in a range that begins at zero."""

    name = "float"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        name, number = option_name(param), number_or_text(value)
        found = positive(name, number) if self.min_open else non_negative(name, number)
        if self.max is not None and (found >= self.max if self.max_open else found > self.max):
            raise FedhaltError(f"{name} must be {'below' if self.max_open else 'at most'} {self.max:g}, not {value!r}")
        return found


class OneOf(Kind):
    """One of some names; the error suggests the nearest. `others` says whether any other text is taken as well."""

    def __init__(self, name: str, choices: Iterable[str], others: bool = False) -> None:
        self.name, self.choices, self.others = name, list(choices), others

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value) if self.others else require_one_of(option_name(param), value, self.choices)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str | None:
        listed = f"[{'|'.join(self.choices)}]"
        return None if self.others or len(listed) > SHORT else listed

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(name) for name in self.choices if name.startswith(incomplete)]


class ListOf(Kind):
    """One or more values of another type with commas between them; a tuple of them."""

    def __init__(self, each: Kind) -> None:
        self.each, self.name = each, f"{each.name},…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(parts):
            raise FedhaltError(f"{option_name(param)} takes values with commas between them, not {value!r}")
        return tuple(self.each.convert(part, param, ctx) for part in parts)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        before, comma, last = incomplete.rpartition(",")
        return [CompletionItem(before + comma + item.value) for item in self.each.shell_complete(ctx, param, last)]


SHORT = 24
"""Characters of a list of names that help shows in the place of the type; a longer one is in the option's text."""
COUNT = Integer(min=1)
POSITIVE = Float(min=0, min_open=True)


def option_name(param: click.Parameter | None) -> str:
    """What an error calls the option."""
    return "the value" if param is None else param.opts[0]


def number_or_text(value: Any) -> Any:
    """The number that a text is; anything else as it is."""
    number = parsed(value) if isinstance(value, str) else None
    if isinstance(number, float) and not math.isfinite(number):
        return value  # repeated as it was typed
    return value if number is None else number


def flat(values: Iterable[Iterable[Any]] | None) -> list[Any]:
    """The values of an option that was given several times, each time with one or several."""
    return [value for given in values or () for value in given]
