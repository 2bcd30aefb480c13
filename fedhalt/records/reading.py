"""Reads a trajectory file: many lines at a time, up to the first one that is not whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import files
from ..errors import FedhaltError
from . import lines
from .table import ColumnBlock, Table

CHUNK = 2**18
"""Bytes of a file that are read at a time."""


@dataclass
class Found:
    """What a file holds."""

    header: dict[str, Any]
    version: int
    table: Table = field(default_factory=Table)
    """The rounds before the first line that is not whole."""
    commits: dict[int, dict[str, Any]] = field(default_factory=dict)
    """By round, what was appended as its `commit`."""
    lines: int = 1
    """How many lines are whole."""
    half: bool = False
    """Whether the file ends with an incomplete line."""
    problem: str = ""
    """What is wrong with the first line that is not whole, if one is not."""

    def add(self, batch: Sequence[bytes]) -> None:
        """Adds the rounds of these lines; raises ValueError or FedhaltError at one that is not whole."""
        if self._add_at_once(batch):
            return
        for line in batch:
            entry = lines.to_entry(line, self.version)
            commit = entry.pop(lines.COMMIT, None)
            entry = self.table.checked(entry)
            if commit is not None:
                self.commits[entry["round"]] = dict(commit)
            self.table.append(entry)
            self.lines += 1

    def _add_at_once(self, batch: Sequence[bytes]) -> bool:
        """Adds all of the rounds, or none if one of the lines has to be looked at by itself."""
        entries = lines.to_entries(batch, self.version)
        block = ColumnBlock.of(entries) if entries else None
        if block is None:
            return False
        commits = block.columns.pop(lines.COMMIT, None)
        if not block.follows(self.table.last) or (commits and set(map(type, commits)) != {dict}):
            return False
        self.table.extend(block)
        if commits:
            self.commits |= zip(block.columns["round"], commits, strict=True)
        self.lines += len(batch)
        return True


def read(path: Path) -> Found:
    """What a file holds; raises FedhaltError if it does not begin as a trajectory does."""
    with files.fits_into_memory(path), open(path, "rb") as file:
        first = file.readline()
        found = Found(*lines.from_header(path, first.removesuffix(b"\n"), finished=first.endswith(b"\n")))
        while chunk := file.read(CHUNK) + file.readline():
            batch = chunk.split(b"\n")
            last = batch.pop()  # empty, unless the last line was not finished
            try:
                found.add(batch)
            except (ValueError, FedhaltError) as error:
                found.problem = f"{path}, line {found.lines + 1}: {error}"
                break
            try:
                if last:
                    found.add([last])  # nothing but its end may be missing
            except (ValueError, FedhaltError):
                found.half = True
    return found
