"""Fourteen federated methods, one file each. `METHODS` lists them by name."""

from __future__ import annotations

import dataclasses
from typing import Any

from ..errors import FedhaltError, MissingExtra, require_one_of

try:
    import torch  # noqa: F401
except ImportError:
    raise MissingExtra("fedhalt.methods", "torch", "sim") from None

from .authors import AUTHORS, Setting
from .base import Facts, Method
from .fedadam import FedAdam
from .fedavg import FedAvg
from .fedavgm import FedAvgM
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
    "FedAvgM",
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
    "fedavgm": FedAvgM,
}
"""The methods by name. To add a method, add one line here."""


def create(name: str, *, compat: str | None = None, setting: Setting | None = None, **settings: Any) -> Method:
    """Creates a method from its name.

    Args:
        name: The name, such as "fedprox".
        compat: "authors" computes what the paper authors' code computes instead.
        setting: What the authors' code takes from outside the method; needed with `compat="authors"`.
        **settings: The hyperparameters, such as `lam=0.01`.

    Returns:
        The method.

    Raises:
        FedhaltError: If the name or a hyperparameter is unknown, or a hyperparameter is out of range.

    Examples:
        >>> from fedhalt.methods import create
        >>> create("fedprox", lam=0.01)
        FedProx(server_lr=1.0, lam=0.01)
    """
    cls = METHODS[require_one_of("method", name, METHODS)]
    for hyperparameter in settings:
        require_one_of(f"hyperparameter of {name}", hyperparameter, hyperparameters(name))
    if compat is None:
        return cls(**settings)
    require_one_of("compat", compat, ("authors",))
    if name not in AUTHORS:
        return cls(**settings)
    if setting is None:
        raise FedhaltError(f"compat='authors' of {name} needs setting=Setting(local_iteration=…, sizes=…)")
    return AUTHORS[name](**settings, setting=setting)  # type: ignore[call-arg]


def hyperparameters(name: str) -> dict[str, Any]:
    """The hyperparameters of a method.

    Args:
        name: The name of the method.

    Returns:
        The hyperparameters with their defaults.

    Raises:
        FedhaltError: If there is no such method.

    Examples:
        >>> from fedhalt.methods import hyperparameters
        >>> hyperparameters("fedprox")
        {'server_lr': 1.0, 'lam': 0.001}
    """
    return {field.name: field.default for field in dataclasses.fields(METHODS[require_one_of("method", name, METHODS)])}
