"""Optuna's storages by URL; what goes wrong with one ends as a sentence without the password."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import optuna
from optuna.storages.journal import JournalFileBackend
from sqlalchemy.exc import SQLAlchemyError

from ...errors import FedhaltError, require_one_of
from ..redaction import redact_message, redact_url

SCHEMES = ("sqlite", "journal", "postgresql", "mysql")
DRIVERS = {"psycopg": "'psycopg[binary]'", "psycopg2": "psycopg2-binary", "MySQLdb": "mysqlclient"}
"""Modules that SQLAlchemy asks for, which one depends on its release, and the packages that bring them."""

FAILURES = (optuna.exceptions.OptunaError, SQLAlchemyError)
"""What a storage that was opened may raise later."""


def open_storage(url: str) -> optuna.storages.BaseStorage:
    """The storage behind a URL: sqlite:///study.db, journal:///study.log, postgresql://user:password@host/base."""
    shown = redact_url(url)
    scheme, found, place = url.partition("://")
    if not found or not shown.startswith(f"{scheme}://"):
        raise FedhaltError(f"a storage is a URL such as sqlite:///study.db, not {shown!r}")
    require_one_of("storage", scheme.partition("+")[0], SCHEMES)
    with storage_errors(url, (Exception,)):  # each driver has its own
        if scheme in ("sqlite", "journal"):
            _check_folder(url, place)
        if scheme == "journal":
            return optuna.storages.JournalStorage(JournalFileBackend(place.removeprefix("/")))
        return optuna.storages.RDBStorage(url)


def _check_folder(url: str, place: str) -> None:
    folder = Path(place.removeprefix("/")).absolute().parent
    if not folder.is_dir():
        named = f"the folder {folder}" if redact_url(url) == url else "the folder of its file"
        raise FedhaltError(f"the storage {redact_url(url)} is not there: {named} does not exist")


@contextlib.contextmanager
def storage_errors(url: str, kinds: tuple[type[Exception], ...]) -> Iterator[None]:
    """Turns such errors of a storage or its driver into a sentence."""
    try:
        yield
    except FedhaltError:
        raise
    except ImportError as error:
        module = getattr(error.__cause__ or error.__context__ or error, "name", None) or "the driver"
        needs = f"needs {module}, which is not installed: pip install {DRIVERS.get(module, module)}"
        raise FedhaltError(f"the storage {redact_url(url)} {redact_message(needs, url)}") from None
    except kinds as error:  # no server, no permission, no such base
        cause = error.__cause__ or error
        first = (str(cause).strip().splitlines() or [""])[0]
        words = f"{type(cause).__name__}: {redact_message(first, url)}"
        raise FedhaltError(f"the storage {redact_url(url)} cannot be used: {words}") from None
