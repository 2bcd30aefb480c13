"""Storage URLs hold passwords: what may be shown of one, and of what a driver says about it."""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_plus

HIDDEN = "…"
SCHEME = r"[A-Za-z][\w+.-]*"
HOST = r"(?:\[[\da-fA-F:.]+\]|[\w.-]*)(?::\d+)?"
PATH = r"[^?@:=;&#]*"
HARMLESS = re.compile(rf"{SCHEME}://{HOST}(?:/{PATH})?|(?:[A-Za-z]:)?{PATH}")
"""A scheme, a host with its port and a path, or a path alone: nothing in which a password could be."""

SETTING = re.compile(r"(\w+)=(.*?)(?=[?&;\s]+\w+=|$)", re.DOTALL)
SECRET = re.compile(r"pass|pw|secret|token|key|auth|cred", re.IGNORECASE)
SEPARATORS = re.compile(r"[\s:/@?&=#;,'\"]+")


def redact_url(url: str) -> str:
    """The URL if it cannot hold a password, else no more than its scheme.

    >>> redact_url("sqlite:///runs/study.db")
    'sqlite:///runs/study.db'
    >>> redact_url("postgresql://me:secret@host/base")
    'postgresql://…'
    """
    if HARMLESS.fullmatch(url):
        return url
    return _scheme(url) + HIDDEN


def redact_message(message: str, url: str) -> str:
    """What a driver said about that URL, unless any part of the password is in it.

    >>> redact_message("could not find the host cret@host", "postgresql://me:se@cret@host/base")
    '(its message is not shown, since it may hold a password)'
    """
    said = message.lower()
    if any(part.lower() in said for part in _secret_parts(url)):
        return "(its message is not shown, since it may hold a password)"
    return message


def _scheme(url: str) -> str:
    """What precedes the host, such as `postgresql://`; empty if it is missing."""
    found = re.match(f"{SCHEME}://", url)
    return found.group() if found else ""


def _secret_parts(url: str) -> set[str]:
    """The pieces of all that may be a password in the URL, as they are written and as they are meant."""
    if HARMLESS.fullmatch(url):
        return set()
    rest = url.removeprefix(_scheme(url))
    # A password may hold an @ itself, so it ends at the last one; without one the user may have left out the host.
    credentials, at, _ = rest.rpartition("@")
    host = re.split(r"[/?]", rest, maxsplit=1)[0]
    if not at and not re.fullmatch(HOST, host):
        credentials = rest
    secrets = [credentials.partition(":")[2]]
    secrets += [value for name, value in SETTING.findall(rest) if SECRET.search(name)]
    spelled = {decode(secret) for secret in secrets for decode in (str, unquote, unquote_plus)}
    return {url} | {part for secret in spelled for part in SEPARATORS.split(secret) if part}
