"""A trajectory that may still be growing: reads what was added since the last look."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import FedhaltError
from ..rules import motion
from ..rules.base import next_round
from . import lines


class TrajectoryTail:
    """A record that may still be growing: its last complete row, and what the model does there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._begin()

    def _begin(self) -> None:
        self.place, self.version = 0, lines.VERSION
        self.row: dict[str, Any] = {}
        self.state, self.motion = motion.begin(), motion.Motion()

    def poll(self) -> dict[str, Any]:
        """The last whole row; empty if there is none."""
        try:
            with open(self.path, "rb") as file:
                if file.seek(0, 2) < self.place:  # cut back, to be trained again
                    self._begin()
                file.seek(self.place)
                whole = file.read().split(b"\n")[:-1]
            for line in whole:
                if self.place == 0:
                    _, self.version = lines.from_header(self.path, line)
                else:
                    self._step(lines.to_entry(line, self.version))
                self.place += len(line) + 1
        except (OSError, ValueError, FedhaltError):
            self._begin()
        return self.row

    def _step(self, row: dict[str, Any]) -> None:
        row.pop(lines.COMMIT, None)
        r = next_round({"round": self.row.get("round", 0)}, row)
        self.row = {**row, "round": r}
        self.state, self.motion = motion.step(self.state, r, row)
