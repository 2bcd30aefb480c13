"""The threads of a run: one single-thread worker per core, or the GPU if there is one."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from ..errors import FedhaltError, whole
from .heap import kept_heap

PIECE = 4
"""Visits that a worker makes before it hands over, if there are many: more would only keep more replies waiting."""


@contextlib.contextmanager
def started_workers(number: int | None, device: str | None) -> Iterator[tuple[Callable[..., Any], str]]:
    """A `map` by that many workers, and the device."""
    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:
        raise FedhaltError(
            f"device {place!r} cannot be used here ({str(error).splitlines()[0]:.100}); try cpu"
        ) from None
    number = whole("workers", number) if number is not None else _default_workers(place)
    threads, flushing = torch.get_num_threads(), float(torch.tensor(1e-40) * 1) == 0
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # a fitted head has gradients below 1e-38, with which a core is ten times slower
    try:
        with kept_heap():
            if number == 1:
                yield map, place
            else:
                with ThreadPoolExecutor(number, initializer=torch.set_flush_denormal, initargs=(True,)) as pool:
                    yield in_pieces(pool, number), place
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushing)


def _default_workers(place: str) -> int:
    return os.cpu_count() or 1 if place == "cpu" else 1


def in_pieces(pool: ThreadPoolExecutor, number: int) -> Callable[..., Iterator[Any]]:
    """The pool's `map`, several items at a time where there are many: all threads need Python's lock, and whoever takes
    a result makes the others wait for it."""

    def each(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        items = list(items)
        size = max(1, min(PIECE, len(items) // (4 * number)))
        pieces = [items[begin : begin + size] for begin in range(0, len(items), size)]
        return itertools.chain.from_iterable(pool.map(lambda piece: list(map(function, piece)), pieces))

    return each
