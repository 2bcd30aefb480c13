"""The recorded runs under some paths: which there are, what they are called, and each read in spite of its state."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from .. import files
from ..records.opening import recorded
from ..records.trajectory import Trajectory
from .words import printable

RECORD = "trajectory.jsonl"


def find_records(paths: Iterable[Path]) -> dict[str, str]:
    """The recorded files under these paths by a short name that can be shown and that no other has.

    Files are given as text, because making thousands of Paths takes longer than finding them.
    """
    found = dict.fromkeys(file for path in paths for file in _files(os.fspath(path)))
    short = [printable(_short_name(file)) for file in found]
    times = Counter(short)
    named: dict[str, str] = {}
    for file, name in zip(found, short, strict=True):
        unique = name if name and times[name] == 1 else printable(file)
        while unique in named:  # two names that differ only in what cannot be shown
            unique += "'"
        named[unique] = file
    return named


def read_record(file: Path) -> Trajectory:
    """The record as far as it is written; what is no regular file is refused, because a pipe would be waited for."""
    files.require_regular(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a line that is being written is no news here
        return recorded(file)


def _files(path: str) -> Iterator[str]:
    """The file itself, or the record of every run folder below a folder; what lies below a run folder is its own."""
    if not os.path.isdir(path):
        yield path
        return
    folders = [path]
    while folders:
        folder = folders.pop()
        record = os.path.join(folder, RECORD)
        if os.path.lexists(record):
            yield record
            continue
        try:
            with os.scandir(folder) as entries:
                inside = list(entries)
        except FileNotFoundError:
            continue
        except OSError:
            yield record  # whoever reads it says what is wrong
            continue
        folders += sorted((entry.path for entry in inside if entry.is_dir(follow_symlinks=False)), reverse=True)


def _short_name(file: str) -> str:
    folder, name = os.path.split(file)
    return os.path.basename(folder) if name == RECORD else name
