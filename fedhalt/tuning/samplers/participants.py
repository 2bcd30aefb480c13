"""The processes that take part in one search: who is alive is known by locks in OUT/.sweep.

The system lets go of a lock when its process ends, however it ends, so nobody has to say that it is still there.
"""

from __future__ import annotations

import re
import uuid
from pathlib import Path

from ... import files
from ...errors import FedhaltError
from ...records import lines


class Participants:
    """This process among those that share a folder `out`."""

    def __init__(self, out: Path) -> None:
        self.folder = out / ".sweep"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.me = uuid.uuid4().hex
        with self.alone():  # who looks for the dead must not take a lock that is just being made for that of one
            self._lock = files.Lock(self.folder, name=self.me)
            self.search = self._search()
            """What all of them have in common, and processes with another `out` have not."""

    def alone(self) -> files.Lock:
        """One process at a time: no other counts, takes over or asks in between."""
        return files.Lock(self.folder, wait=True, name="lock")

    def is_alive(self, name: str) -> bool:
        """Whether the process of that name holds its lock."""
        if name == self.me:
            return True
        if not _is_name(name) or not (self.folder / name).exists():
            return False
        try:
            files.Lock(self.folder, name=name).close()
        except files.InUse:
            return True
        return False

    def forget_gone(self) -> None:
        """Removes the locks of processes that ended without doing it themselves."""
        for path in self.folder.iterdir():
            if _is_name(path.name) and not self.is_alive(path.name):
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """This process takes no more part: what it has not finished is anybody's."""
        self._lock.close()
        (self.folder / self.me).unlink(missing_ok=True)

    def _search(self) -> str:
        path = self.folder / "search"
        if not path.exists():
            files.write(path, lines.to_line({"search": uuid.uuid4().hex}))
        content = files.read(path)
        try:
            return str(lines.from_line(content.removesuffix(b"\n"))["search"])
        except (ValueError, KeyError) as error:
            raise FedhaltError(f"{path}: {error}; remove it, and only trials with a run folder are resumed") from None


def _is_name(text: str) -> bool:
    return bool(re.fullmatch("[0-9a-f]{32}", text))
