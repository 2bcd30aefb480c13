"""What a power cut may leave: recorded operations, of which those that were not synced may be lost.

The strictest reading of POSIX: `fsync` of a file keeps its content, `fsync` of a folder keeps which names are in it,
and nothing else is sure. A name may be there before its content is (an empty file, or one full of zeros), a later
change without an earlier one.
"""

import os
import random
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class File:
    """A file's content as processes see it, and as it was when it was last synced."""

    content: bytearray = field(default_factory=bytearray)
    synced: bytes | None = None


@dataclass
class Folder:
    """The names in a folder, those that are sure, and the changes since."""

    names: dict[str, Any] = field(default_factory=dict)
    synced: dict[str, Any] = field(default_factory=dict)
    changes: list[Any] = field(default_factory=list)
    """Each a mapping of names to what they mean from then on, None for nothing."""


def read_journal(path, under):
    """The operations that the shim recorded: (letter, path, other path, offset, data), paths relative to the folder."""
    data, place = Path(path).read_bytes(), 0
    while place < len(data):
        letter = chr(data[place])
        first, second, offset, size = struct.unpack("<IIqQ", data[place + 1 : place + 25])
        place += 25
        name, other = data[place : place + first].decode(), data[place + first : place + first + second].decode()
        place += first + second
        content = data[place : place + size]
        place += size
        if letter == "M":
            yield letter, name, "", 0, b""
        else:
            yield letter, os.path.relpath(name, under), other and os.path.relpath(other, under), offset, content


def contents(folder):
    """Every file below a folder, by its path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Disk:
    """Plays recorded operations, and makes folders as a power cut after the last of them may leave them."""

    def __init__(self):
        self.folders = {".": Folder()}
        self.marks = []

    def play(self, letter, path, other, offset, data):
        parent, name = os.path.split(path)
        folder = self.folders[parent or "."] if letter not in "Ms" else None
        if letter == "M":
            self.marks.append(path)
        elif letter == "s":
            self._sync(path)
        elif letter in "om":
            made = File() if letter == "o" else path
            if letter == "m":
                self.folders[path] = Folder()
            self._change(folder, {name: made})
        elif letter == "w":
            file = folder.names[name].content
            file.extend(bytes(max(0, offset - len(file))))
            file[offset : offset + len(data)] = data
        elif letter == "t":
            del folder.names[name].content[offset:]
        elif letter in "ud":
            self._change(folder, {name: None})
        elif letter == "r":
            assert os.path.split(other)[0] == parent, "files are moved within their folder"
            self._change(folder, {os.path.split(other)[1]: folder.names[name], name: None})

    def _change(self, folder, change):
        _apply(folder.names, change)
        folder.changes.append(change)

    def _sync(self, path):
        if path in self.folders:
            folder = self.folders[path]
            folder.synced, folder.changes = dict(folder.names), []
        else:
            parent, name = os.path.split(path)
            file = self.folders[parent or "."].names[name]
            file.synced = bytes(file.content)

    def leave(self, target, how, seed=0):
        """Makes the folder as the cut leaves it: `how` is nothing, empty, zeros, everything or any."""
        self._leave(".", Path(target), how, random.Random(seed))

    def _leave(self, path, target, how, draw):
        target.mkdir(exist_ok=True)
        folder = self.folders[path]
        names = dict(folder.synced)
        for change in folder.changes:
            if how in ("empty", "zeros", "everything") or (how == "any" and draw.random() < 0.5):
                _apply(names, change)
        for name, what in names.items():
            if isinstance(what, str):
                self._leave(what, target / name, how, draw)
            else:
                (target / name).write_bytes(_content(what, how, draw))


def _apply(names, change):
    for name, what in change.items():
        if what is None:
            names.pop(name, None)
        else:
            names[name] = what


def _content(file, how, draw):
    sure, now = file.synced or b"", bytes(file.content)
    if how == "everything" or sure == now:
        return now
    choice = {"nothing": 0, "empty": 0, "zeros": 1}.get(how)
    if choice is None:
        choice = draw.randrange(4)
    if choice == 0:
        return sure
    if choice == 1:
        return sure[: len(now)] + bytes(max(0, len(now) - len(sure)))
    if choice == 2 and now.startswith(sure):
        return now[: draw.randint(len(sure), len(now))]
    return now
