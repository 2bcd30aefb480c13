"""Runs that are still growing: what changed under some paths since the last request."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from .recorded import find_records

PAUSE = 0.5
"""Seconds for which one look at the files answers all requests."""

DIGITS = 18
"""Of the number of a version: whoever asks may write anything, and a long number takes long to read."""


class Entry(NamedTuple):
    """A run as it was read, what its files looked like then, and when that was."""

    seen: tuple[Any, ...]
    version: int
    read: dict[str, Any]


class LiveRuns:
    """The recorded runs under some paths, read again when their files change; runs may come, go and be replaced."""

    def __init__(self, paths: Iterable[Path], read: Callable[[Path, str], dict[str, Any]]) -> None:
        self.paths, self._read = list(paths), read
        self._server = secrets.token_hex(4)  # a page that another server told something begins anew
        self._version = 0
        self._entries: dict[str, Entry] = {}
        self._gone: dict[str, int] = {}
        self._looked = -PAUSE
        self._lock = threading.Lock()

    def since(self, version: str) -> dict[str, Any]:
        """Runs that changed after that version, all of them if it is not one of this server's."""
        with self._lock:
            if time.monotonic() - self._looked >= PAUSE:
                self._look()
                self._looked = time.monotonic()
            server, _, number = version.partition("-")
            known = server == self._server and number.isdecimal() and len(number) <= DIGITS
            last = int(number) if known else 0
            return {
                "version": f"{self._server}-{self._version}",
                "all": not known,
                "runs": [entry.read for entry in self._entries.values() if entry.version > last],
                "gone": [name for name, when in self._gone.items() if when > last] if known else [],
                "quiet": self._quiet(),
            }

    def _look(self) -> None:
        found = find_records(self.paths)
        for name in [name for name in self._entries if name not in found]:
            self._version += 1
            del self._entries[name]
            self._gone[name] = self._version
        for name, file in found.items():
            seen = (file, _state(file), _state(os.path.join(os.path.dirname(file), "summary.json")))
            if name not in self._entries or self._entries[name].seen != seen:
                self._version += 1
                self._entries[name] = Entry(seen, self._version, self._read(Path(file), name))
                self._gone.pop(name, None)

    def _quiet(self) -> float | None:
        """Seconds since anything was recorded."""
        times = [entry.seen[1][0] for entry in self._entries.values() if entry.seen[1]]
        return max(0.0, time.time() - max(times) / 1e9) if times else None


def _state(file: str) -> tuple[int, int, int] | None:
    """What tells a file from its earlier and later states; None if it is not there."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
