"""RunSpec: everything that determines a training run, frozen and checked, with a content id."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .. import files, methods
from ..errors import FedhaltError, flag, fraction, non_negative, positive, require_one_of, text, whole
from .formats import prefers_channels_last
from .model import BUFFERS
from .partition import PARTITIONERS

OPTIMIZERS = ("sgd", "adam", "adamw")
WEIGHTINGS = ("uniform", "samples")
ON_EMPTY = ("repair", "skip", "error")
GRADIENTS = ("autograd", "closed", "products")
LARGEST_RATE = 3e38


def option(default: Any, text: str) -> Any:
    """A field with the text that `fedhalt run --help` shows."""
    return field(default=default, metadata={"help": text})


@dataclass(frozen=True)
class RunSpec:
    """Everything that determines a training run.

    The defaults are the paper's setting and, where the paper does not say, the authors'. Two equal specs train to the
    same numbers, bit for bit. What does not change training (rounds, rules, workers, folders) is not part of it.

    Args:
        data: "digits", "fashion", a MedMNIST name such as "blood", an .npz file, or an image folder.
        size: Pixels of the MedMNIST version or of an image folder: 28, 64, 128 or 224.
        model: "cnn", a timm name, or "probe:NAME".
        pretrained: Whether to start from pretrained weights.
        weights: A file with the weights to start from.
        resize: Resize images to this many pixels.
        buffers: What to do with running statistics (BatchNorm): "refuse", "average" or "frozen".
        channels_last: The memory format. Default: what was measured to be faster for the model.
        gradient: "autograd"; faster are "closed", a probe's gradient by its formula, and for networks "products",
            which computes convolutions onto one pixel as matrix products.
        skew: How the data is split: a name in `fedhalt.simulation.partition`.
        c: The coefficient of the skew.
        on_empty: What to do with clients without data ("dirichlet"): "repair", "skip" or "error".
        key: The key of the natural split, such as "patient".
        clients: The number of clients N.
        cohort: The number of clients per round M.
        method: The federated method.
        hyperparameters: The hyperparameters of the method, as a dict or pairs.
        compat: "authors" computes what the authors' code computes.
        epochs: Local epochs.
        batch: The batch size; the last partial batch is kept.
        lr: The local learning rate.
        lr_decay: The factor on the local learning rate per round.
        momentum: The local momentum (sgd).
        weight_decay: The local weight decay.
        clip: The norm that a local step is clipped to; None or 0 for no clipping.
        optimizer: The local optimizer: "sgd", "adam" or "adamw".
        weighting: The weights of the mean: "uniform" or "samples".
        seed: The seed of everything random.
        evaluate_every: Evaluate on validation and test data every so many rounds; 0 for never. A stop round between two
            evaluations is evaluated on test data.
        held_out: The share of each client's data to hold out for federated evaluation.

    Raises:
        FedhaltError: If a value is unknown, out of range, or does not fit the others.

    Examples:
        >>> from fedhalt.simulation import RunSpec
        >>> spec = RunSpec(data="digits", method="fedprox", hyperparameters={"lam": 0.01}, clients=20, cohort=5)
        >>> spec.hyperparameters
        (('lam', 0.01), ('server_lr', 1.0))
    """

    data: str = option(
        "digits", "digits, fashion, blood, derma, path, any 2-D multi-class MedMNIST name, an .npz or an image folder."
    )
    size: int = option(28, "Pixels of the MedMNIST version, or of an image folder: 28, 64, 128, 224.")
    model: str = option("cnn", "cnn, a timm name (convnextv2_nano), or probe:NAME.")
    pretrained: bool = option(False, "Start from pretrained weights.")
    weights: str | None = option(None, "Start from the weights in this file.")
    resize: int | None = option(None, "Resize images to this many pixels.")
    buffers: str = option("refuse", "What to do with running statistics (BatchNorm).")
    channels_last: bool | None = option(None, "Memory format. Default: what is faster for the model.")
    gradient: str = option("autograd", "Gradients by autograd, or faster: closed (probes), products (networks).")
    skew: str = option("dirichlet", f"{', '.join(PARTITIONERS)}.")
    c: float = option(0.1, "Coefficient of the skew.")
    on_empty: str = option("repair", "What to do with clients without data (dirichlet).")
    key: str | None = option(None, "The key of the natural split, e.g. patient.")
    clients: int = option(100, "Number of clients N.")
    cohort: int = option(10, "Clients per round M.")
    method: str = option("fedavg", f"{', '.join(methods.METHODS)}.")
    hyperparameters: tuple[tuple[str, Any], ...] = ()
    compat: str | None = option(None, "Compute what the authors' code computes.")
    epochs: int = option(5, "Local epochs.")
    batch: int = option(256, "Batch size; the last partial batch is kept.")
    lr: float = option(0.001, "Local learning rate.")
    lr_decay: float = option(0.998, "Factor on the learning rate per round.")
    momentum: float = option(0.9, "Local momentum (sgd).")
    weight_decay: float = option(0.001, "Local weight decay.")
    clip: float | None = option(10.0, "Clip local gradient steps to this norm; 0 for none.")
    optimizer: str = option("sgd", "Local optimizer.")
    weighting: str = option("uniform", "How client updates are weighted.")
    seed: int = option(0, "Seed of everything random.")
    evaluate_every: int = option(1, "Evaluate every so many rounds; 0 for never.")
    held_out: float = option(0.0, "Share of each client's data kept for federated evaluation.")

    def __post_init__(self) -> None:
        self._check_choices()
        self._store_numbers()
        self._store_method()

    def _check_choices(self) -> None:
        require_one_of("skew", self.skew, PARTITIONERS)
        require_one_of("buffers", self.buffers, BUFFERS)
        require_one_of("optimizer", self.optimizer, OPTIMIZERS)
        require_one_of("weighting", self.weighting, WEIGHTINGS)
        require_one_of("on_empty", self.on_empty, ON_EMPTY)
        if self.compat is not None:
            require_one_of("compat", self.compat, ("authors",))
        for name in ("data", "model", "weights", "key"):
            if getattr(self, name) is not None:
                text(name, getattr(self, name))
        flag("pretrained", self.pretrained)

    def _store_numbers(self) -> None:
        """Stores equal settings in the same form, so that they have the same id."""
        put = object.__setattr__
        for name in ("size", "clients", "cohort", "epochs", "batch"):
            put(self, name, whole(name, getattr(self, name)))
        for name in ("seed", "evaluate_every"):
            put(self, name, whole(name, getattr(self, name), least=0))
        if self.resize is not None:
            put(self, "resize", whole("resize", self.resize, least=4))
        for name in ("c", "lr", "lr_decay"):
            put(self, name, positive(name, getattr(self, name)))
        if self.lr > LARGEST_RATE:
            raise FedhaltError(f"lr must be at most {LARGEST_RATE:g}, which 32-bit numbers can hold, not {self.lr:g}")
        if self.skew in ("iid", "natural"):
            put(self, "c", 1.0)  # has no meaning there, and must not make another id
        put(self, "weight_decay", non_negative("weight_decay", self.weight_decay))
        put(self, "momentum", fraction("momentum", self.momentum, below=True))
        put(self, "held_out", fraction("held_out", self.held_out, below=True))
        put(self, "clip", positive("clip", self.clip) if self.clip else None)
        if self.cohort > self.clients and self.skew != "natural":
            raise FedhaltError(f"a cohort of {self.cohort} is larger than the federation of {self.clients} clients")
        if (self.key is None) != (self.skew != "natural"):
            raise FedhaltError(
                "the natural split needs a key, and only the natural split takes one: --skew natural --key patient"
            )

    def _store_method(self) -> None:
        """Stores the arithmetic and the hyperparameters with their defaults."""
        put = object.__setattr__
        # the authors' scalar indexing counts in plain order
        default = prefers_channels_last(self.model) and self.compat is None
        put(self, "channels_last", default if self.channels_last is None else flag("channels_last", self.channels_last))
        probe = self.model.startswith("probe:")
        require_one_of("gradient", self.gradient, GRADIENTS)
        if self.gradient == "closed" and not probe:
            raise FedhaltError(
                f"gradient 'closed' is a linear head's, probe:NAME: {self.model} takes autograd or products"
            )
        if self.gradient == "products" and probe:
            raise FedhaltError(f"gradient 'products' is for convolutions: {self.model} takes autograd or closed")
        # their defaults differ (FedLESAM's mode, FedWMSAM's sign); the setting plays no part in that
        setting = methods.Setting(1.0, (1,))
        made: Any = methods.create(self.method, compat=self.compat, setting=setting, **dict(self.hyperparameters))
        named = sorted(methods.hyperparameters(self.method))
        put(self, "hyperparameters", tuple((name, getattr(made, name)) for name in named))
        if self.optimizer != "sgd" and made.facts.sgd_only:
            raise FedhaltError(f"{self.method} turns updates back into gradients: it takes sgd, not {self.optimizer!r}")

    def to_json(self) -> dict[str, Any]:
        """The spec as plain data. A gradient by autograd is left out, so that earlier specs keep their ids.

        Returns:
            A dict that can be stored as JSON.
        """
        values = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        values["hyperparameters"] = dict(self.hyperparameters)
        return {name: value for name, value in values.items() if (name, value) != ("gradient", "autograd")}

    @cached_property
    def id(self) -> str:
        """The name of the run's folder: a readable part, and a digest of everything."""
        digest = hashlib.blake2b(files.to_json(self.to_json()).encode(), digest_size=8).hexdigest()
        data = self.data.replace("\\", "/").rstrip("/").split("/")[-1].removesuffix(".npz")
        return f"{data}-{self.method}-{self.skew}-{self.c:g}-s{self.seed}-{digest}"


FIELDS = {field.name: field for field in dataclasses.fields(RunSpec) if field.name != "hyperparameters"}
HYPERPARAMETERS = sorted({name for method in methods.METHODS for name in methods.hyperparameters(method)})
"""The settings of a run, and the hyperparameters of the methods."""


def from_json(data: Any) -> RunSpec:
    """Creates the spec that `to_json` described."""
    try:
        return RunSpec(**{"gradient": "autograd", **data, "hyperparameters": tuple(data["hyperparameters"].items())})
    except (TypeError, KeyError, AttributeError) as error:
        raise FedhaltError(f"not a run's specification: {error}") from None


def grid(**choices: Any) -> list[RunSpec]:
    """Every combination of the given choices.

    Args:
        **choices: For each field of `RunSpec`, a value, or a list of values.

    Returns:
        The specs.

    Raises:
        FedhaltError: If a spec is not valid.

    Examples:
        >>> from fedhalt.simulation import grid
        >>> [(spec.method, spec.seed) for spec in grid(method=["fedavg", "fedsam"], seed=[0, 1])]
        [('fedavg', 0), ('fedavg', 1), ('fedsam', 0), ('fedsam', 1)]
    """
    lists = [value if isinstance(value, (list, range)) else [value] for value in choices.values()]
    return [RunSpec(**dict(zip(choices, values, strict=True))) for values in itertools.product(*lists)]
