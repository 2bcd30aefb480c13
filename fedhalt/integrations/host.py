"""What surrounds a run under an adapter: the framework and its version, its log, and the folder of the run's state."""

from __future__ import annotations

import logging
import os
import re
import weakref
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .. import files
from ..errors import FedhaltError, MissingExtra
from ..records.stored import named
from ..rules import Rule, Status
from ..stopper import STATE, EarlyStopper
from ..views.words import SIGNALS, describe_model, format_stop

LOG = logging.getLogger("fedhalt")
"""The one logger of all adapters."""


class StateFolder:
    """The folder of one run, held by one process at a time. A round counts once the stopper is saved."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()
        try:
            files.make_folder(self.path, private=True)
        except OSError as error:
            raise FedhaltError(f"state={os.fspath(path)!r} cannot be a folder: {error.strerror}") from None
        self.lock = files.Lock(self.path)
        self.close = weakref.finalize(self, self.lock.close)
        """Lets go of the folder, at the latest with this object: not every framework says when a run ends."""

    @property
    def saved(self) -> bool:
        return (self.path / STATE).exists()

    def save(self, stopper: EarlyStopper, **beside: Any) -> None:
        """Makes the stopper's round count; `beside` is what an adapter saves with it."""
        try:
            self.lock.check()
            self.write(stopper, **beside)
        except OSError as error:
            raise FedhaltError(
                f"round {stopper.round} cannot be saved in {self.path}: {error.strerror} ({error.filename}); "
                "what was saved before it is still there"
            ) from error

    def write(self, stopper: EarlyStopper, **beside: Any) -> None:
        stopper.save(self.path)


def require(package: str, extra: str, oldest: str, newest: str) -> str:
    """Checks the installed version of a framework.

    Args:
        package: The framework's name on PyPI.
        extra: The extra of fedhalt that installs it, which is also the adapter's name.
        oldest: The oldest supported release.
        newest: The newest release that was tested. A newer one gets a warning.

    Returns:
        The installed version.

    Raises:
        MissingExtra: If it is not installed.
        FedhaltError: If it is too old. The message contains the pip command.

    Examples:
        >>> from fedhalt.integrations.seam import require
        >>> require("numpy", "sim", "99.0", "99.1")
        Traceback (most recent call last):
        fedhalt.errors.FedhaltError: numpy ... is too old: ... run pip install 'numpy>=99.0'
    """
    try:
        installed = version(package)
    except PackageNotFoundError:
        raise MissingExtra(f"fedhalt.integrations.{extra}", package, extra) from None
    if _release(installed) < _release(oldest):
        raise FedhaltError(
            f"{package} {installed} is too old: fedhalt works with {oldest} and later, tested up to {newest}; "
            f"run pip install '{package}>={oldest}'"
        )
    if _release(installed)[: len(_release(newest))] > _release(newest):
        LOG.warning("fedhalt: %s %s is newer than the releases tested, %s to %s", package, installed, oldest, newest)
    return installed


def show_lines(framework: str) -> None:
    """Makes our lines visible beside the framework's; an app that has set up logging for itself is left alone."""
    if LOG.level == logging.NOTSET:
        LOG.setLevel(logging.INFO)
    if not LOG.hasHandlers():
        theirs = logging.getLogger(framework).handlers if framework else []
        for handler in theirs or [logging.StreamHandler()]:
            LOG.addHandler(handler)


def _release(text: str) -> tuple[int, ...]:
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, found.group().split("."))) if found else ()


def format_status(status: Status, rule: Rule, drift: float | None) -> str:
    """A verdict as it is logged."""
    parts = [f"round {status.round}"]
    if status.value is not None:
        parts.append(f"{next(iter(rule.reads), 'value')} {status.value:.6g}")
    name = named(rule).name
    if status.signal is not None:
        parts.append(f"{SIGNALS.get(name, 'signal')} {status.signal:.3g}")
    if status.stop:
        rounds = describe_model(None, "", drift=drift)
        stop = f"stop ({format_stop(status.reason, status.motion, name)}{f'; {rounds}' if rounds else ''})"
        return f"{', '.join(parts)}: {stop}"
    moved = describe_model(status.exponent, status.motion, status.round, drift)
    return ", ".join([*parts, *([moved] if moved else []), f"streak {status.streak}"])
