"""Files that survive a kill: atomic writes, locks, digests, strict JSON; nothing is ever unpickled."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import stat
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import filelock

from .errors import FedhaltError

NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""JSON has no such numbers: they are written as these strings, which every reader accepts."""

DEEPEST = 100
"""Levels of JSON within JSON that are read; nothing of ours has ten."""

NO_FILES = {
    stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}  # fmt: skip


class InUse(FedhaltError):
    """Another process holds the folder. When work is shared, it is left to that process."""


class NoLock(FedhaltError):
    """The system gave no lock: no space, no rights, a file system without locks. Later it may."""


def write(path: Path, data: bytes, durable: bool = True, private: bool = False) -> None:
    """The whole file or the old one: written beside it and moved into place.

    A killed process never leaves half a file; with `durable` a power cut does not either. A symbolic link is
    followed, a file keeps its mode, a pipe or a device is written into. A new `private` file is its owner's alone.
    """
    try:
        if path.is_dir():  # some have no name that something could be written beside
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if _is_stream(path):
            with open(path, "wb") as stream:
                stream.write(data)
        else:
            _replace(Path(os.path.realpath(path)) if path.is_symlink() else path, data, durable, private)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None


def sync(path: Path) -> None:
    """Returns once a file, or which names a folder holds, would outlast a power cut."""
    folder = path.is_dir()
    if folder and os.name == "nt":
        return  # Windows cannot be asked
    try:
        place = os.open(path, os.O_RDONLY if folder else os.O_RDWR)
        try:
            os.fsync(place)
        finally:
            os.close(place)
    except OSError as error:
        # a folder that may not be listed, and folders on some network file systems, cannot be asked either
        if not folder or error.errno not in (errno.EACCES, errno.EINVAL):
            raise OSError(error.errno, error.strerror, os.fspath(path)) from None


def make_folder(path: Path, private: bool = False) -> None:
    """Makes a folder, and those above it, that would outlast a power cut; one that is there is left as it is."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(0o700 if private else 0o777, exist_ok=True)
        sync(path.parent)


def clear_leftovers(folder: Path, name: str = "") -> None:
    """Removes unfinished files of `write` from processes that were killed, of files whose name begins with `name`.

    What only looks alike stays: other programs have hidden files that end in `.part` too.
    """
    for left in folder.glob(".*.part"):
        ours = re.fullmatch(r"[.](.+)[.]([0-9]+)[.]part", left.name, re.DOTALL)
        if ours and ours[1].startswith(name) and _is_abandoned(left, int(ours[2])):
            left.unlink(missing_ok=True)


def digest(data: bytes, size: int = 16) -> str:
    return hashlib.blake2b(data, digest_size=size).hexdigest()


class Lock:
    """Holds a folder for this process until it is closed or the process ends; `wait`s for another to let go."""

    def __init__(self, folder: Path, wait: bool = False, name: str = ".lock") -> None:
        self.folder, self.path = folder, folder / name
        self._lock = filelock.FileLock(self.path, timeout=-1 if wait else 0, thread_local=False, fallback_to_soft=False)
        try:
            self._lock.acquire()
            self._held = self._identity()
        except filelock.Timeout:
            raise InUse(f"{folder} is in use by another process") from None
        except OSError as error:
            raise NoLock(
                f"{folder} cannot be locked ({error.strerror}): it must be writable, on a file system that has locks"
            ) from None

    def check(self) -> None:
        """Refuses to continue if the folder was removed meanwhile, and perhaps created again by another process."""
        try:
            same = self._identity() == self._held
        except FileNotFoundError:
            same = False
        if not same:
            raise FedhaltError(f"{self.folder} was removed or replaced while this process used it; nothing was written")

    def close(self) -> None:
        self._lock.release()

    def __enter__(self) -> Lock:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _identity(self) -> tuple[int, int]:
        """A file's number is not given to another while it is open."""
        found = os.stat(self.path)
        return found.st_dev, found.st_ino


def read(path: Path) -> bytes:
    """The content of a plain file; anything else is refused."""
    require_regular(path)
    return read_any(path)


def read_any(path: Path) -> bytes:
    """The content of a file or a pipe."""
    with fits_into_memory(path):
        return path.read_bytes()


@contextlib.contextmanager
def fits_into_memory(path: Path) -> Iterator[None]:
    """Names the file that does not."""
    try:
        yield
    except MemoryError:
        raise FedhaltError(f"{path} is too large: it does not fit into the memory of this process") from None


def require_regular(path: Path) -> None:
    """Refuses a pipe, which would be waited for, a device, which may never end, and whatever else is no plain file."""
    kind = stat.S_IFMT(os.stat(path).st_mode)
    if kind != stat.S_IFREG:
        raise FedhaltError(f"{path} is {NO_FILES.get(kind, 'something else')}, not a file")


def to_json(value: Any) -> str:
    """One line of strict JSON, valid UTF-8 too; numpy scalars and arrays become numbers and lists."""
    text = json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)
    # half a character, which JSON may hold and UTF-8 may not, becomes the escape that stands for it in JSON
    return text.encode("utf-8", "backslashreplace").decode()


def from_json(text: str) -> Any:
    """The inverse of `to_json`; raises ValueError on anything else."""
    special = '"NaN"' in text or 'Infinity"' in text  # looking is cheaper than walking every object
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if text.count("[") + text.count("{") > DEEPEST:
        _check_depth(value)
    return _revive(value) if special else value


def from_json_objects(texts: Sequence[bytes]) -> list[dict[str, Any]] | None:
    """Many objects at once, one in each text, without a line break, as `from_json` reads it.

    None if one of them is anything else: `from_json` says what it is.
    """
    joined = b"\n".join([*texts, b""])
    if joined.count(b"[") + joined.count(b"{") >= DEEPEST + len(texts):
        if any(text.count(b"[") + text.count(b"{") > DEEPEST for text in texts):
            return None
    try:
        whole = joined.decode()
        values = _flat_objects(texts, joined) or _objects(len(texts), whole)
    except (ValueError, StopIteration, RecursionError):
        return None
    special = '"NaN"' in whole or 'Infinity"' in whole
    return [_revive(value) for value in values] if values and special else values


@contextlib.contextmanager
def taken_from(path: Path) -> Iterator[None]:
    """Within the block the content of a file is taken apart: one that is whole may still be none of ours."""
    try:
        yield
    except FedhaltError:
        raise
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise FedhaltError(f"{path} does not hold what fedhalt writes there: {error!r}") from None


def _flat_objects(texts: Sequence[bytes], joined: bytes) -> list[dict[str, Any]] | None:
    """Objects without objects in them, in one call: each text begins and ends one, and holds no other bracket."""
    if not joined.count(b"{") == joined.count(b"}") == len(texts):
        return None
    if {text[:1] for text in texts} != {b"{"} or {text[-1:] for text in texts} != {b"}"}:
        return None
    values: list[dict[str, Any]] = json.loads(f"[{b','.join(texts).decode()}]")
    return values if len(values) == len(texts) else None


_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]


def _objects(count: int, whole: str) -> list[dict[str, Any]] | None:
    """Each ends where a line does, and there are as many as lines: none goes on in the next line."""
    values, at = [], 0
    for _ in range(count):
        value, at = _scan(whole, at)
        if whole[at] != "\n" or type(value) is not dict:
            return None
        values.append(value)
        at += 1
    return values


def _check_depth(value: Any) -> None:
    """Raises ValueError if the value is nested so deeply that walking through it might exhaust the stack."""
    level = [value]
    for _ in range(DEEPEST):
        level = [child for one in level for child in _children(one)]
        if not level:
            return
    raise ValueError("nested too deeply")


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _is_stream(path: Path) -> bool:
    """Whether no file can be put in its place: a pipe, a device, or what a process has open (`/dev/stdout`)."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    target = path.parent / os.readlink(path) if path.is_symlink() else path
    opened = any(os.path.realpath(place.parent).startswith("/proc/") for place in (path, target))
    return opened or not stat.S_ISREG(mode)


def _replace(path: Path, data: bytes, durable: bool, private: bool) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except FileNotFoundError:
        mode = None
    try:
        with open(beside, "wb", opener=_open_private if private else None) as file:
            if mode is not None:
                os.chmod(beside, mode)
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(beside, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()
    if durable:
        sync(path.parent)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _is_abandoned(part: Path, owner: int) -> bool:
    """Whether the process in the file's name lives no more; where that cannot be asked, whether a day has passed."""
    if os.name == "nt":
        return time.time() - part.stat().st_mtime > 24 * 3600
    try:
        os.kill(owner, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        pass
    return False


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        number = float(value)
        return number if math.isfinite(number) else "NaN" if number != number else f"{'-' * (number < 0)}Infinity"
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(child) for child in value]
    if callable(getattr(value, "tolist", None)):  # numpy and torch
        return _plain(value.tolist())
    raise FedhaltError(f"cannot be recorded: {value!r} ({type(value).__name__}); give numbers, text or lists of them")


def _revive(value: Any) -> Any:
    if isinstance(value, str):
        return NON_FINITE.get(value, value)
    if isinstance(value, dict):
        return {key: _revive(child) for key, child in value.items()}
    return [_revive(child) for child in value] if isinstance(value, list) else value


def read_toml(path: Path) -> dict[str, Any]:
    """The settings in a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise FedhaltError(f"{path} is not a TOML file of settings: it is nested too deeply") from None
    except ValueError as error:  # not TOML, not UTF-8, or a number of more digits than Python reads
        raise FedhaltError(f"{path} is not a TOML file: {str(error).partition(';')[0]}") from None
