"""What the paper authors' published code does differently, so that their numbers can be shown beside ours.

Nothing here is a recommendation: every entry is a defect named in `docs/authors.md`. It stands apart from the
clean methods and is reached only by `create(name, compat="authors", setting=Setting(...))`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from .fedavg import FedAvg
from .fedcm import FedCM
from .feddyn import FedDyn
from .fedgamma import FedGamma
from .fedlesam import FedLESAM
from .fedprox import FedProx
from .fedsmoo import FedSMOO
from .fedspeed import FedSpeed
from .fedwmsam import FedWMSAM
from .local import Local
from .mofedsam import MoFedSAM
from .replies import Replies
from .scaffold import Scaffold
from .vector import Gradient, Vectors


@dataclass(frozen=True)
class Setting:
    """What the authors' code takes from outside the method.

    Args:
        local_iteration: Client 0's steps, epochs * n_0 / batch, not rounded up. The code normalizes every client with
            it.
        sizes: The lengths of the model's tensors in the flat vector.
        lr_decay: The decay of the learning rate per round.

    Examples:
        >>> from fedhalt import methods
        >>> setting = methods.Setting(local_iteration=2.3, sizes=(100, 10))
        >>> methods.create("scaffold", compat="authors", setting=setting).setting.local_iteration
        2.3
    """

    local_iteration: float
    """Client 0's steps, epochs * n_0 / batch, not rounded up. The code normalizes every client with it."""
    sizes: tuple[int, ...]
    """The lengths of the model's tensors in the flat vector."""
    lr_decay: float = 0.998


def scalar_indexed(v: Tensor, rho: float, setting: Setting) -> Tensor:
    """The flat vector indexed by the tensor's number: v[j], one scalar, is spread over the whole j-th tensor."""
    picked = v[: len(setting.sizes)]
    scaled = rho * picked / (picked.abs().sum() + 1e-7)
    # the size of the result is told, and the repeats lie on the device: a GPU is not waited for
    return torch.repeat_interleave(scaled, _repeats(setting.sizes, v.device), output_size=sum(setting.sizes))


@functools.lru_cache(maxsize=8)
def _repeats(sizes: tuple[int, ...], device: torch.device) -> Tensor:
    return torch.tensor(sizes, device=device)


@dataclass(frozen=True)
class ClientZero:
    """Normalizes every client's update by client 0's step count, as if there were no momentum."""

    setting: Setting = field(kw_only=True)

    def client(self, local: Local, *args: Any, **vectors: Any) -> tuple[Vectors, Vectors]:
        half: tuple[Vectors, Vectors] = super().client(  # type: ignore[misc]
            local.deviating(normaliser=self.setting.local_iteration), **vectors
        )
        return half


@dataclass(frozen=True)
class SplitProx:
    """-lam * x inside the clip, +lam * y outside it as weight decay: when the clip fires, a pull to the origin."""

    setting: Setting = field(kw_only=True)

    def client(self, local: Local, *args: Any, **vectors: Any) -> tuple[Vectors, Vectors]:
        half: tuple[Vectors, Vectors] = super().client(Split(local, self.lam), **vectors)  # type: ignore
        return half


class Split:
    """A visit whose steps take `lam * y` out of the direction, past the clip, into the weight decay."""

    def __init__(self, local: Local, lam: float) -> None:
        self._local, self._lam = local.deviating(more_decay=lam), lam

    def __iter__(self) -> Iterator[Gradient]:
        return iter(self._local)

    def step(self, w: Tensor, direction: Tensor) -> Tensor:
        return self._local.step(w, direction - self._lam * w)


def deviating(deviation: type, method: type[FedAvg]) -> type[FedAvg]:
    """The method with one deviation put before it; it is given its own name, by which another process finds it."""
    made = type(f"{method.__name__}Authors", (deviation, method), {"__doc__": deviation.__doc__})
    return dataclass(frozen=True)(made)


FedCMAuthors = deviating(ClientZero, FedCM)
FedGammaAuthors = deviating(ClientZero, FedGamma)
MoFedSAMAuthors = deviating(ClientZero, MoFedSAM)
ScaffoldAuthors = deviating(ClientZero, Scaffold)
FedDynAuthors = deviating(SplitProx, FedDyn)
FedProxAuthors = deviating(SplitProx, FedProx)
FedSMOOAuthors = deviating(SplitProx, FedSMOO)
FedSpeedAuthors = deviating(SplitProx, FedSpeed)


@dataclass(frozen=True)
class FedLESAMAuthors(FedLESAM):
    """The last global update for every client, indexed by scalars."""

    mode: Literal["previous_active", "last_update"] = "last_update"
    setting: Setting = field(kw_only=True)

    def perturbation(self, v: Tensor) -> Tensor:
        return scalar_indexed(v, self.rho, self.setting)


@dataclass(frozen=True)
class FedWMSAMAuthors(ClientZero, FedWMSAM):
    """Scalars, the other sign, and a rate decay in the momentum that comes one round early."""

    sign: float = -1.0

    def perturbation(self, v: Tensor) -> Tensor:
        return self.sign * scalar_indexed(v, self.rho, self.setting)

    def server(self, up: Replies, **state: Tensor) -> Vectors:
        after = super().server(up, **state)
        return {**after, "m": self.setting.lr_decay * after["m"]}


AUTHORS: dict[str, type[FedAvg]] = {
    "fedprox": FedProxAuthors,
    "feddyn": FedDynAuthors,
    "scaffold": ScaffoldAuthors,
    "fedspeed": FedSpeedAuthors,
    "fedsmoo": FedSMOOAuthors,
    "fedgamma": FedGammaAuthors,
    "fedlesam": FedLESAMAuthors,
    "fedwmsam": FedWMSAMAuthors,
    "fedcm": FedCMAuthors,
    "mofedsam": MoFedSAMAuthors,
}
"""The methods whose arithmetic differs; FedAvg, FedSAM and FedAdam are the same in both; FedAvgM is not in theirs."""
