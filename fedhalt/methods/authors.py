"""What the paper authors' published code does differently, so that their numbers can be shown beside ours.

Nothing here is a recommendation: every entry is a defect named in `docs/authors.md`. It stands apart from the
clean methods and is reached only by `create(name, compat="authors", setting=Setting(...))`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from ..local import Local
from ..replies import Replies
from ..vector import Gradient, Vectors
from .fedavg import FedAvg
from .fedcm import FedCM
from .feddyn import FedDyn
from .fedgamma import FedGamma
from .fedlesam import FedLESAM
from .fedprox import FedProx
from .fedsmoo import FedSMOO
from .fedspeed import FedSpeed
from .fedwmsam import FedWMSAM
from .mofedsam import MoFedSAM
from .scaffold import Scaffold


@dataclass(frozen=True)
class Setting:
    """What their code takes from outside the method: facts of the run."""

    local_iteration: float
    """Client 0's steps, epochs * n_0 / batch, not rounded up: the normaliser of every client."""
    sizes: tuple[int, ...]
    """The lengths of the model's tensors in the flat vector."""
    lr_decay: float = 0.998


def scalar_indexed(v: Tensor, rho: float, setting: Setting) -> Tensor:
    """The flat vector indexed by the tensor's number: v[j], one scalar, is spread over the whole j-th tensor."""
    picked = v[: len(setting.sizes)]
    scaled = rho * picked / (picked.abs().sum() + 1e-7)
    return torch.repeat_interleave(scaled, torch.tensor(setting.sizes, device=v.device))


@dataclass(frozen=True)
class ClientZero:
    """Normalises every client's update by client 0's step count, as if there were no momentum."""

    setting: Setting = field(kw_only=True)

    def client(self, local: Local, *args: Any, **vectors: Any) -> tuple[Vectors, Vectors]:
        half: tuple[Vectors, Vectors] = super().client(  # type: ignore[misc]
            local.altered(normaliser=self.setting.local_iteration), **vectors
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
        self._local, self._lam = local.altered(more_decay=lam), lam

    def __iter__(self) -> Iterator[Gradient]:
        return iter(self._local)

    def step(self, w: Tensor, direction: Tensor) -> Tensor:
        return self._local.step(w, direction - self._lam * w)


@dataclass(frozen=True)
class ScaffoldAuthors(ClientZero, Scaffold):
    pass


@dataclass(frozen=True)
class FedGammaAuthors(ClientZero, FedGamma):
    pass


@dataclass(frozen=True)
class FedCMAuthors(ClientZero, FedCM):
    pass


@dataclass(frozen=True)
class MoFedSAMAuthors(ClientZero, MoFedSAM):
    pass


@dataclass(frozen=True)
class FedProxAuthors(SplitProx, FedProx):
    pass


@dataclass(frozen=True)
class FedDynAuthors(SplitProx, FedDyn):
    pass


@dataclass(frozen=True)
class FedSpeedAuthors(SplitProx, FedSpeed):
    pass


@dataclass(frozen=True)
class FedSMOOAuthors(SplitProx, FedSMOO):
    pass


@dataclass(frozen=True)
class FedLESAMAuthors(FedLESAM):
    """The last global update for everybody, indexed by scalars."""

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
"""The methods whose arithmetic differs; FedAvg, FedSAM and FedAdam are the same in both."""
