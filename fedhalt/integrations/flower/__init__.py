"""Flower: early stopping for any strategy in one line, and fedhalt's methods in a real federation."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..seam import require

OLDEST = "1.22"
"""The oldest supported release of flwr. `make test-flower` tests both."""
NEWEST = "1.42"
"""The newest release of flwr that was tested; a newer one gets a warning."""

require("flwr", "flower", OLDEST, NEWEST)

from .stopping import EarlyStopping, attach  # noqa: E402
from .wrapper import StoppingStrategy  # noqa: E402

if TYPE_CHECKING:
    from .client import client_app
    from .method import FedMethod
    from .task import ModuleTask

__all__ = ["NEWEST", "OLDEST", "EarlyStopping", "FedMethod", "ModuleTask", "StoppingStrategy", "attach", "client_app"]


_NEEDS_TORCH = {"FedMethod": "method", "ModuleTask": "task", "client_app": "client"}


def __getattr__(name: str) -> Any:
    """Imports what needs torch when it is first used; the stopper does not need it."""
    if name in _NEEDS_TORCH:
        return getattr(import_module(f".{_NEEDS_TORCH[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
