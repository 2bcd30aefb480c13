"""Observers of trials: each receives every round of a trial, in the process that trains it.

Nothing is ever unpickled, so a worker gets an observer by its name: an observer is a dataclass in a module that the
worker can import, with settings that JSON can hold.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from ..errors import FedhaltError
from ..rules import NamedRule


class Observer(Protocol):
    """Watches one run: `with observer(folder, rules, config) as told: told(row)` after every round.

    `folder` is the run's, `rules` are those that may end it, `config` is its specification.
    """

    def __call__(
        self, folder: Path, rules: Sequence[NamedRule], config: Mapping[str, Any]
    ) -> AbstractContextManager[Callable[[Mapping[str, Any]], None]]: ...


def to_json(observer: Observer) -> dict[str, Any]:
    """The name and the settings of an observer."""
    kind = type(observer)
    if not dataclasses.is_dataclass(observer) or "<locals>" in kind.__qualname__ or kind.__module__ == "__main__":
        raise FedhaltError(
            f"a worker cannot import the observer {kind.__module__}.{kind.__qualname__}: it must be a dataclass of a "
            "module; or run the trials one at a time in this process (parallel = 1)"
        )
    return {"module": kind.__module__, "name": kind.__qualname__, "settings": dataclasses.asdict(observer)}


def from_json(data: Mapping[str, Any]) -> Observer:
    """The observer that `to_json` named."""
    made: Observer = getattr(importlib.import_module(data["module"]), data["name"])(**data["settings"])
    return made
