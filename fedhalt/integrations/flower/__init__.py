"""Flower: early stopping for any strategy in one line, and fedhalt's methods in a real federation."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from ...check import FedhaltError, MissingExtra

OLDEST, NEWEST = "1.22", "1.41"
"""The releases of flwr this works with; both are tested (`make test-flower`)."""

try:
    _installed = version("flwr")
except PackageNotFoundError:
    raise MissingExtra("fedhalt.integrations.flower", "flwr", "flower") from None
try:
    from flwr.serverapp import strategy as _strategies  # noqa: F401
except ImportError:
    raise FedhaltError(f"flwr {_installed} is not supported: fedhalt works with flwr {OLDEST} to {NEWEST}") from None

from .stopping import EarlyStopping, attach  # noqa: E402

if TYPE_CHECKING:
    from .client import ModuleTask, client_app
    from .method import FedMethod

__all__ = ["NEWEST", "OLDEST", "EarlyStopping", "FedMethod", "ModuleTask", "attach", "client_app"]


def __getattr__(name: str) -> Any:
    """The methods need torch, which the stopper does not: they are imported when they are asked for."""
    if name == "FedMethod":
        from .method import FedMethod

        return FedMethod
    if name in ("ModuleTask", "client_app"):
        from . import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
