"""The lines of a trajectory file: one JSON object each, its checksum in the last place.

    {"fedhalt": "trajectory", "version": 2, …, "_check": "0f1e…"}
    {"round": 1, "distance": 0.31, …, "_commit": {…}, "_check": "77aa…"}

`_check` is the BLAKE2b digest of the line up to there, `_commit` what the keeper of a run folder needs to know of the
round. Readers of other tools may leave both out; ours do not show them. Version 1 had neither.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import files
from ..errors import FedhaltError, brief

FORMAT, VERSION = "trajectory", 2
COMMIT = "_commit"
RESERVED = frozenset({COMMIT, "_check"})
CHECK = b', "_check": "'
BEHIND = len(CHECK) + 16 + len(b'"}')
"""What follows the content of a line: the key, the checksum and the end of the object."""


def to_line(entry: Mapping[str, Any]) -> bytes:
    content = files.to_json(entry).encode()[:-1]
    return b'%s%s%s"}\n' % (content, CHECK, _checksum(content))


def from_line(line: bytes, version: int = VERSION) -> dict[str, Any]:
    """The object without its checksum; raises ValueError with a reason on anything but a whole line."""
    if version > 1:
        content, behind = line[:-BEHIND], line[-BEHIND:]
        if behind[-2:] != b'"}' or behind[:-18] != CHECK or behind[-18:-2] != _checksum(content):
            raise ValueError(f"damaged, its checksum does not match: {excerpt(line)}")
        line = content + b"}"
    try:
        entry = files.from_json(line.decode())
    except ValueError:
        entry = None
    if not isinstance(entry, dict):
        raise ValueError(f"not a JSON object: {excerpt(line)}")
    return entry


def to_entry(line: bytes, version: int) -> dict[str, Any]:
    """The row that a line holds; a second header, as of a file that was appended to itself, is none."""
    entry = from_line(line, version)
    if version > 1 and "round" not in entry:
        raise ValueError(f"not a round: {excerpt(line)}")
    return entry


def to_entries(found: Sequence[bytes], version: int) -> list[dict[str, Any]] | None:
    """The objects of many lines at once; None if one of them is not whole, which `to_entry` says of each line."""
    if version > 1:
        contents = [line[:-BEHIND] for line in found]
        behind = b"".join([line[-BEHIND:] for line in found])
        if behind != b'%s%s"}' % (CHECK, (b'"}' + CHECK).join(map(_checksum, contents))):
            return None
        found = [content + b"}" for content in contents]
    return files.from_json_objects(found)


def to_header(header: Mapping[str, Any]) -> bytes:
    return to_line({"fedhalt": FORMAT, "version": VERSION, **header})


def from_header(path: Path, line: bytes, finished: bool = True) -> tuple[dict[str, Any], int]:
    """What the first line says, and the version of the lines that follow."""
    try:
        header = from_line(line, version=1)
    except ValueError:
        if not finished:
            raise FedhaltError(f"{path} is not a fedhalt trajectory: it has no finished line") from None
        header = {}
    if header.pop("fedhalt", None) != FORMAT:
        raise FedhaltError(f"{path} is not a fedhalt trajectory: line 1 is {excerpt(line)}")
    version = header.pop("version", None)
    if version not in (1, VERSION):
        raise FedhaltError(f"{path} is a trajectory of version {brief(version)}; this fedhalt reads 1 and {VERSION}")
    if version > 1 or CHECK in line:
        try:
            from_line(line)
        except ValueError as error:
            raise FedhaltError(f"{path}, line 1: {error}") from None
        del header["_check"]
    return header, version


def append(path: Path, line: bytes) -> None:
    """Appends the whole line or, on a full disk, nothing. A deleted file is not created again without its header."""
    try:
        place = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0))
        try:
            _write_whole(place, line)
        finally:
            os.close(place)
    except FileNotFoundError:
        raise FedhaltError(f"{path} is gone: it was removed while this process recorded in it") from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


def _write_whole(place: int, line: bytes) -> None:
    end = os.fstat(place).st_size
    try:
        if os.write(place, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        os.ftruncate(place, end)
        raise


def excerpt(line: bytes) -> str:
    return repr(line[:60].decode(errors="replace")) + ("…" if len(line) > 60 else "")


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=8).hexdigest().encode()
