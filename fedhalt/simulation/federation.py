"""A federation of data: model, clients' shares, visits, evaluation."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import methods
from ..errors import FedhaltError, require_one_of
from ..methods import Method, Setting
from ..methods.local import Local, Optimizer
from ..methods.vector import Gradient, Vectors
from . import backbones, datasets, partition
from .head import Head
from .model import Model
from .onepixel import products
from .scores import SCORES, Answers, answers, scores
from .seeds import rng
from .shares import Parts
from .spec import RunSpec

EVALUATED = tuple(f"{split}_{score}" for split in ("val", "test") for score in SCORES)
HELD_OUT = ("client_loss", "client_accuracy")
"""The columns of an evaluation: on the splits of the data, and on what the clients hold out."""
IMAGES = 256
"""Images that a worker answers at a time: more, and what the layers make of them leaves the cache."""
FEATURES = 1024
"""Samples of features, which a head answers without layers in between."""

Labelled = tuple[Tensor, Tensor]
"""Images and their labels."""


class Federation:
    """The task that a RunSpec describes; no data set is copied per client, a model is kept per worker."""

    def __init__(self, spec: RunSpec, data_root: str | None = None, device: str = "cpu") -> None:
        self.spec, self.device = spec, device
        data = datasets.load(spec.data, spec.size, data_root)
        self.parts, held = split(spec, data)
        self.held = torch.from_numpy(np.concatenate(held))
        self.data = backbones.prepared(
            spec.model, data, resize=spec.resize, pretrained=spec.pretrained, weights=spec.weights
        )
        self.eligible = [client for client, part in enumerate(self.parts) if len(part)]
        if spec.cohort > len(self.eligible):
            raise FedhaltError(f"a cohort of {spec.cohort}, but only {len(self.eligible)} clients hold data")
        self._workers = threading.local()
        self._first = self._build()
        self._digest: str | None = None
        if spec.gradient == "closed":
            self._sort_by_client()
        self._resident = {name: self._place(getattr(self.data, name)) for name in ("train", "val", "test")}

    @property
    def population(self) -> int:
        return len(self.parts)

    @property
    def parameters(self) -> int:
        return sum(self._first.sizes)

    def visiting(self, each: Callable[..., Any]) -> Callable[..., Any]:
        """How a round visits its clients: by these workers; a head without, as its steps are so short that threads
        would only wait for Python's lock."""
        return map if self.spec.gradient == "closed" else each

    def method(self) -> Method:
        """The spec's method; `compat="authors"` needs facts of this federation."""
        spec = self.spec
        steps = spec.epochs * len(self.parts[0]) / spec.batch
        setting = Setting(local_iteration=steps, sizes=self._first.sizes, lr_decay=spec.lr_decay)
        return methods.create(spec.method, compat=spec.compat, setting=setting, **dict(spec.hyperparameters))

    @property
    def model(self) -> Model:
        """The model at theta_0, for its names, shapes and order."""
        return self._first

    def theta0(self) -> Tensor:
        return self._first.vector()

    def shared(self) -> Vectors:
        buffers = self._first.buffers()
        return {} if buffers is None else {"buffers": buffers}

    def cohort(self, r: int) -> Sequence[int]:
        chosen = rng(self.spec.seed, "cohort", r).choice(len(self.eligible), self.spec.cohort, replace=False)
        return [self.eligible[index] for index in chosen]

    def samples(self, client: int) -> int:
        return len(self.parts[client])

    def weight(self, client: int) -> float:
        return float(self.samples(client)) if self.spec.weighting == "samples" else 1.0

    def rate(self, r: int) -> float:
        return self.spec.lr * self.spec.lr_decay ** (r - 1)

    def visit(self, client: int, r: int, shared: Vectors) -> Local:
        model = self._model()
        model.set_buffers(shared.get("buffers"))

        def after() -> Vectors:
            buffers = model.buffers()
            return {} if buffers is None else {"buffers": buffers}

        losses: list[Tensor] = []
        return Local(
            self._noted(model, client, r, losses),
            self.rate(r),
            optimizer=self._optimizer(),
            weight_decay=self.spec.weight_decay,
            clip=self.spec.clip,
            shared=after,
            losses=lambda: tuple(map(float, losses)),
        )

    def _noted(self, model: Model, client: int, r: int, losses: list[Tensor]) -> Iterator[Gradient]:
        """The minibatches of a visit; the losses at its start, on the first, and at its end, on the last, are noted."""
        last = self.spec.epochs * -(-len(self.parts[client]) // self.spec.batch) - 1
        for index, grad in enumerate(self._batches(model, client, r)):
            yield noting(grad, model, losses) if index in (0, last) else grad
        if last == 0:
            losses *= 2

    def evaluate(self, x: Tensor, shared: Vectors, each: Callable[..., Any] = map) -> dict[str, float]:
        """Loss, plain and balanced accuracy and macro F1 on validation and test data; draws no random number."""
        parts = {name: self._resident[name] for name in ("val", "test")}
        if len(self.held):
            images, labels = self._resident["train"]
            parts["client"] = images[self.held], labels[self.held]
        found = self._scores(x, shared, parts, each)
        return {name: value for name, value in found.items() if name in (*EVALUATED, *HELD_OUT)}

    def evaluate_on(self, name: str, x: Tensor, shared: Vectors, each: Callable[..., Any] = map) -> dict[str, float]:
        """The same on one of the splits."""
        return self._scores(x, shared, {name: self._resident[name]}, each)

    def state_dict(self, x: Tensor, shared: Vectors) -> dict[str, Tensor]:
        """The model under its module's own names."""
        return self._model().state_dict(x, shared.get("buffers"))

    def vectors(self, named: Mapping[str, Tensor]) -> tuple[Tensor, Vectors]:
        """The inverse of `state_dict`: parameters and shared vectors."""
        model = self._model()
        model.module.load_state_dict(named)
        buffers = model.buffers()
        return model.vector(), {} if buffers is None else {"buffers": buffers}

    def origin(self) -> dict[str, str]:
        """Digests of what the run begins with, which a spec only names."""
        start = hashlib.blake2b(self.theta0().cpu().numpy().tobytes(), digest_size=16).hexdigest()
        return {"data": self._digest or self.data.digest(), "theta0": start}

    def _scores(self, x: Tensor, shared: Vectors, parts: Mapping[str, Labelled], each: Any) -> dict[str, float]:
        def answered(piece: Tensor) -> Answers:
            model = self._model()
            model.load(x)
            model.set_buffers(shared.get("buffers"))
            return answers(model.predict(piece))

        pieces = {name: in_batches(samples) for name, (samples, _) in parts.items()}
        # one call for all parts: no worker waits for the last piece of one
        given = iter(each(answered, itertools.chain.from_iterable(pieces.values())))
        found: dict[str, float] = {}
        for name, (_, labels) in parts.items():
            mine = scores(list(itertools.islice(given, len(pieces[name]))), labels, self.data.classes)
            found |= {f"{name}_{key}": value for key, value in mine.items()}
        return found

    def _batches(self, model: Model, client: int, r: int) -> Iterator[Gradient]:
        part = self.parts[client]
        images, labels = self._resident["train"]
        if isinstance(model, Head) and len(part) <= self.spec.batch:
            # every epoch is the same sum, and its features lie together
            mine = slice(part[0], part[-1] + 1)
            yield from itertools.repeat(model.batch(images[mine], labels[mine]), self.spec.epochs)
            return
        order = rng(self.spec.seed, "batches", r, client)
        epochs = np.concatenate([order.permutation(part) for _ in range(self.spec.epochs)])
        for epoch in torch.from_numpy(epochs).to(self.device).split(len(part)):
            for index in epoch.split(self.spec.batch):
                # index_select: three times faster than indexing, the same rows
                yield model.batch(images.index_select(0, index), labels.index_select(0, index))

    def _sort_by_client(self) -> None:
        """Lays each client's features together, so that a visit need not gather them from all over the memory."""
        self._digest = self.data.digest()  # of the data as they came
        sizes, held = np.cumsum([len(part) for part in self.parts]), self.held
        rows = torch.cat([torch.from_numpy(np.concatenate(self.parts)), held])
        train = datasets.Split(self.data.train.images[rows], self.data.train.labels[rows])
        self.data = dataclasses.replace(self.data, train=train)
        *self.parts, held_out = np.split(np.arange(len(rows)), sizes)
        self.held = torch.from_numpy(held_out)

    def _build(self) -> Model:
        spec = self.spec
        module = backbones.build(
            spec.model, self.data, seed=spec.seed, pretrained=spec.pretrained and not spec.model.startswith("probe:"),
            weights=None if spec.model.startswith("probe:") else spec.weights,
        )  # fmt: skip
        if spec.gradient == "closed":
            assert isinstance(module, torch.nn.Linear), "a probe is a linear head"
            return Head(module, self.device)
        if spec.gradient == "products":
            module = products(module)
        return Model(module, spec.buffers, bool(spec.channels_last), self.device)

    def _model(self) -> Model:
        """This worker's own model."""
        if not hasattr(self._workers, "model"):
            self._workers.model = self._build()
        model: Model = self._workers.model
        return model

    def _optimizer(self) -> Optimizer:
        made: dict[str, Optimizer] = {
            "sgd": partial(torch.optim.SGD, momentum=self.spec.momentum),
            "adam": torch.optim.Adam,
            "adamw": partial(torch.optim.AdamW, weight_decay=0.0),
        }
        return made[self.spec.optimizer]

    def _place(self, split: datasets.Split) -> Labelled:
        return split.images.to(self.device), split.labels.to(self.device)


def noting(grad: Gradient, model: Model, losses: list[Tensor]) -> Gradient:
    """The same gradient; the loss of its first call is kept: SAM's second one is taken elsewhere."""
    count = len(losses)

    def noted(w: Tensor) -> Tensor:
        gradient = grad(w)
        if len(losses) == count:
            losses.append(model.loss())
        return gradient

    return noted


def in_batches(samples: Tensor) -> Sequence[Tensor]:
    """Of about the same size: a small last one may be computed in another way, and its last bits differ."""
    size = IMAGES if samples.ndim == 4 else FEATURES
    return samples.tensor_split(max(1, -(-len(samples) // size)))


def split(spec: RunSpec, data: datasets.Data) -> tuple[Parts, Parts]:
    """Each client's training indices and its held-out ones."""
    draw = rng(spec.seed, "partition")
    if spec.skew == "natural":
        require_one_of("key", spec.key, data.keys)
        parts = partition.natural(data.keys[str(spec.key)], draw)
    else:
        options: dict[str, Any] = {} if spec.skew == "iid" else {"c": spec.c}
        if spec.skew == "dirichlet":
            options["on_empty"] = spec.on_empty
        parts = partition.PARTITIONERS[spec.skew](data.train.labels.numpy(), spec.clients, draw, **options)
    held = []
    for client, part in enumerate(parts):
        mine = rng(spec.seed, "held-out", client).permutation(part)
        cut = int(spec.held_out * len(part))
        held.append(mine[:cut])
        parts[client] = mine[cut:] if cut else part
    return parts, held


def shares(spec: RunSpec, data_root: str | None = None) -> list[list[int]]:
    """How many training samples of each class every client holds."""
    data = datasets.load(spec.data, spec.size, data_root)
    labels = data.train.labels.numpy()
    return [np.bincount(labels[part], minlength=data.classes).tolist() for part in split(spec, data)[0]]
