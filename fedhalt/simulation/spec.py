"""RunSpec: everything that decides a training run, frozen, checked, with an id of its content."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from dataclasses import dataclass, field
from typing import Any

from . import files, methods
from .check import FedhaltError, flag, fraction, known, non_negative, positive, whole
from .model import BUFFERS
from .partition import PARTITIONERS

OPTIMIZERS = ("sgd", "adam", "adamw")


def option(default: Any, text: str) -> Any:
    """A field with the sentence that `fedhalt run --help` shows."""
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class RunSpec:
    """The paper's setting, and the authors' where the paper is silent, are the defaults.

    Two specs that are equal train to the same numbers, bit for bit. What does not change training
    (rounds, rules, workers, where files are) is not here.
    """

    data: str = option(
        "digits", "digits, blood, derma, path, any 2-D multi-class MedMNIST name, an .npz or an image folder."
    )
    size: int = option(28, "Pixels of the MedMNIST version, or of an image folder: 28, 64, 128, 224.")
    model: str = option("cnn", "cnn, a timm name (convnextv2_nano), or probe:NAME.")
    pretrained: bool = option(False, "Start from pretrained weights.")
    weights: str | None = option(None, "Start from the weights in this file.")
    resize: int | None = option(None, "Resize images to this many pixels.")
    buffers: str = option("refuse", "Running statistics (BatchNorm): refuse, average or frozen.")
    channels_last: bool | None = option(None, "Memory format; by default on for the cnn and off otherwise.")
    skew: str = option("dirichlet", f"{', '.join(PARTITIONERS)}.")
    c: float = option(0.1, "The coefficient of the skew.")
    on_empty: str = option("repair", "Clients without data (dirichlet): repair, skip or error.")
    key: str | None = option(None, "The key of the natural split, e.g. patient.")
    clients: int = option(100, "Number of clients N.")
    cohort: int = option(10, "Clients per round M.")
    method: str = option("fedavg", f"{', '.join(methods.METHODS)}.")
    hyperparameters: tuple[tuple[str, Any], ...] = ()
    compat: str | None = option(None, "authors: compute what the authors' code computes.")
    epochs: int = option(5, "Local epochs.")
    batch: int = option(256, "Batch size; the last partial batch is kept.")
    lr: float = option(0.001, "Local learning rate.")
    lr_decay: float = option(0.998, "Factor on the local rate per round.")
    momentum: float = option(0.9, "Local momentum (sgd).")
    weight_decay: float = option(0.001, "Local weight decay.")
    clip: float | None = option(10.0, "Norm that a local step is clipped to; 0 for none.")
    optimizer: str = option("sgd", f"Local optimiser: {', '.join(OPTIMIZERS)}.")
    weighting: str = option("uniform", "Weights of the mean: uniform or samples.")
    seed: int = option(0, "Seed of everything random.")
    evaluate_every: int = option(1, "Evaluate on validation and test data every so many rounds; 0 for never.")
    held_out: float = option(0.0, "Share of each client's data kept for federated evaluation.")

    def __post_init__(self) -> None:
        known("skew", self.skew, PARTITIONERS)
        known("buffers", self.buffers, BUFFERS)
        known("optimizer", self.optimizer, OPTIMIZERS)
        known("weighting", self.weighting, ("uniform", "samples"))
        known("on_empty", self.on_empty, ("repair", "skip", "error"))
        put = object.__setattr__  # equal settings are stored alike, so that they have one id
        for name in ("data", "model", "weights", "key"):
            if not isinstance(getattr(self, name), str | None):
                raise FedhaltError(f"{name} must be text, not {getattr(self, name)!r}")
        for name in ("size", "clients", "cohort", "epochs", "batch"):
            put(self, name, whole(name, getattr(self, name)))
        for name in ("seed", "evaluate_every"):
            put(self, name, whole(name, getattr(self, name), least=0))
        if self.resize is not None:
            put(self, "resize", whole("resize", self.resize, least=4))
        for name in ("c", "lr", "lr_decay"):
            put(self, name, positive(name, getattr(self, name)))
        if self.skew in ("iid", "natural"):
            put(self, "c", 1.0)  # has no meaning there, and must not make another id
        put(self, "weight_decay", non_negative("weight_decay", self.weight_decay))
        put(self, "momentum", fraction("momentum", self.momentum, below=True))
        put(self, "held_out", fraction("held_out", self.held_out, below=True))
        flag("pretrained", self.pretrained)
        if self.cohort > self.clients and self.skew != "natural":
            raise FedhaltError(f"a cohort of {self.cohort} is larger than the federation of {self.clients} clients")
        if (self.key is None) != (self.skew != "natural"):
            raise FedhaltError(
                "the natural split needs a key, and only the natural split takes one: --skew natural --key patient"
            )
        if self.compat is not None:
            known("compat", self.compat, ("authors",))
        put(self, "clip", positive("clip", self.clip) if self.clip else None)
        # measured: faster for the small CNN, slower for ConvNeXt; their scalar indexing counts in plain order
        default = self.model == "cnn" and self.compat is None
        put(self, "channels_last", default if self.channels_last is None else flag("channels_last", self.channels_last))
        # their defaults differ (FedLESAM's mode, FedWMSAM's sign); the setting plays no part in that
        setting = methods.Setting(1.0, (1,))
        made: Any = methods.create(self.method, compat=self.compat, setting=setting, **dict(self.hyperparameters))
        named = sorted(methods.hyperparameters(self.method))
        put(self, "hyperparameters", tuple((name, getattr(made, name)) for name in named))
        if self.optimizer != "sgd" and made.facts.sgd_only:
            raise FedhaltError(f"{self.method} turns updates back into gradients: it takes sgd, not {self.optimizer!r}")

    def to_json(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "hyperparameters": dict(self.hyperparameters)}

    @property
    def id(self) -> str:
        """Names the run: readable first, then a digest of everything."""
        digest = hashlib.blake2b(files.to_json(self.to_json()).encode(), digest_size=8).hexdigest()
        data = self.data.replace("\\", "/").rstrip("/").split("/")[-1].removesuffix(".npz")
        return f"{data}-{self.method}-{self.skew}-{self.c:g}-s{self.seed}-{digest}"


FIELDS = {field.name: field for field in dataclasses.fields(RunSpec) if field.name != "hyperparameters"}
HYPERPARAMETERS = sorted({name for method in methods.METHODS for name in methods.hyperparameters(method)})
"""The names that a person may set, of a run and of the methods."""


def from_json(data: Any) -> RunSpec:
    """The spec that `to_json` described."""
    try:
        return RunSpec(**{**data, "hyperparameters": tuple(data["hyperparameters"].items())})
    except (TypeError, KeyError, AttributeError) as error:
        raise FedhaltError(f"not a run's specification: {error}") from None


def grid(**choices: Any) -> list[RunSpec]:
    """Every combination: `grid(method=["fedavg", "fedsam"], seed=[0, 1])`; single values stand for themselves."""
    lists = [value if isinstance(value, (list, range)) else [value] for value in choices.values()]
    return [RunSpec(**dict(zip(choices, values, strict=True))) for values in itertools.product(*lists)]
