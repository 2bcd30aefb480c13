"""Thirteen federated methods, one file each; `METHODS` is the one registry."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..check import FedhaltError, MissingExtra, known

try:
    import torch  # noqa: F401
except ImportError:
    raise MissingExtra("fedhalt.methods", "torch", "sim") from None

from .authors import AUTHORS, Setting
from .base import Facts, Method
from .fedadam import FedAdam
from .fedavg import FedAvg
from .fedcm import FedCM
from .feddyn import FedDyn
from .fedgamma import FedGamma
from .fedlesam import FedLESAM
from .fedprox import FedProx
from .fedsam import FedSAM
from .fedsmoo import FedSMOO
from .fedspeed import FedSpeed
from .fedwmsam import FedWMSAM
from .mofedsam import MoFedSAM
from .scaffold import Scaffold

__all__ = [
    "METHODS",
    "Facts",
    "FedAdam",
    "FedAvg",
    "FedCM",
    "FedDyn",
    "FedGamma",
    "FedLESAM",
    "FedProx",
    "FedSAM",
    "FedSMOO",
    "FedSpeed",
    "FedWMSAM",
    "Method",
    "MoFedSAM",
    "Scaffold",
    "Setting",
    "create",
    "hyperparameters",
]

METHODS: dict[str, type[FedAvg]] = {
    "fedavg": FedAvg,
    "fedprox": FedProx,
    "feddyn": FedDyn,
    "scaffold": Scaffold,
    "fedsam": FedSAM,
    "fedspeed": FedSpeed,
    "fedsmoo": FedSMOO,
    "fedgamma": FedGamma,
    "fedlesam": FedLESAM,
    "fedwmsam": FedWMSAM,
    "fedcm": FedCM,
    "mofedsam": MoFedSAM,
    "fedadam": FedAdam,
}


def create(name: str, *, compat: str | None = None, setting: Setting | None = None, **settings: Any) -> Method:
    """The method of that name: `create("fedprox", lam=0.01)`.

    `compat="authors"` gives what the paper authors' code computes instead; it needs their `setting`.
    """
    cls = METHODS[known("method", name, METHODS)]
    for hyperparameter in settings:
        known(f"hyperparameter of {name}", hyperparameter, hyperparameters(name))
    if compat is None:
        return cls(**settings)
    known("compat", compat, ("authors",))
    if name not in AUTHORS:
        return cls(**settings)
    if setting is None:
        raise FedhaltError(f"compat='authors' of {name} needs setting=Setting(local_iteration=…, sizes=…)")
    return AUTHORS[name](**settings, setting=setting)  # type: ignore[call-arg]


def hyperparameters(name: str) -> dict[str, Any]:
    """The hyperparameters of a method with their defaults."""
    return {field.name: field.default for field in dataclasses.fields(METHODS[name])}
