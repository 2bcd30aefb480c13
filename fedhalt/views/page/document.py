"""The page: one HTML file that holds its style, its script and its data, and may ask nobody for more."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from importlib import resources
from typing import Any

from .. import __version__, files

STYLES = ("page", "parts", "charts")
SCRIPTS = ("rules", "motion", "data", "charts", "state", "explorer", "scatter", "table", "detail", "live", "page")


def page(title: str, data: dict[str, Any], connect: str = "'none'") -> str:
    """The document; `connect` is where its script may connect to, nowhere unless it is live."""
    style = "\n".join(_static(f"{name}.css") for name in STYLES)
    script = "\n".join(_static(f"{name}.js") for name in SCRIPTS)
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; img-src data:; "
        f"connect-src {connect}; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": html.escape(policy),
        "title": html.escape(title),
        "version": __version__,
        "style": style,
        "script": script,
        "data": _inert(files.to_json(data)),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], _static("page.html"))


def _static(name: str) -> str:
    return resources.files(__package__).joinpath("static", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """How a content security policy names the one inline script that may run."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _inert(text: str) -> str:
    """JSON in which no name can close the element it stands in."""
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
