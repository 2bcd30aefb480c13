"""The page: one HTML file that holds its style, its script and its data, and may ask nobody for more."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import re
from importlib import resources
from typing import Any

from ... import __version__, files
from ..words import printable
from .glossary import words
from .signals import listed_rules

STYLES = ("page", "parts", "charts")
SCRIPTS = (
    "rules", "words", "data", "charts", "tips", "state", "explorer", "overview", "scatter", "table", "story", "detail",
    "live", "page",
)  # fmt: skip


def page(title: str, data: dict[str, Any], connect: str = "'none'") -> str:
    """The document; `connect` is where its script may connect to, nowhere unless it is live."""
    return page_of_json(title, files.to_json(data), connect)


def page_of_json(title: str, data: str, connect: str = "'none'") -> str:
    """The document about data that is JSON already."""
    style = "\n".join(_static(f"{name}.css") for name in STYLES)
    script = "\n".join(_static(f"{name}.js") for name in SCRIPTS)
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": html.escape(policy),
        "title": html.escape(printable(title)),
        "version": __version__,
        "style": style,
        "script": script,
        "known": _inert(files.to_json({"rules": listed_rules(), "words": words()})),
        "data": _compressed(data),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _static("page.html"))


def _static(name: str) -> str:
    return resources.files(__package__).joinpath("static", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """How a content security policy names the one inline script that may run."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _compressed(text: str) -> str:
    """As base64, which can close no element either; the time of day is left out, so equal runs give equal pages."""
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def _inert(text: str) -> str:
    """JSON in which no name can close the element it stands in."""
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
