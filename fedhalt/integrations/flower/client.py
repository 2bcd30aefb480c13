"""The client's half of fedhalt's methods as a Flower ClientApp; what a client remembers stays with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from torch import Tensor, nn

from ... import engine, files, methods
from ...check import FedhaltError, positive, whole
from ...local import Local
from ...methods import Method, Setting
from ...model import Model
from ...vector import Gradient, Vectors

MEMORY = "fedhalt.memory"
"""Where a client's memory lies in Flower's context."""


class ClientTask(Protocol):
    """What a node trains; `fedhalt.task.Federation` is one, `ModuleTask` another."""

    @property
    def model(self) -> Model:
        """Names, shapes and order of the parameters."""

    def samples(self, client: int) -> int:
        """How many training samples the client holds."""

    def visit(self, client: int, r: int, shared: Vectors) -> Local:
        """One visit to the client in round r."""


class ModuleTask:
    """A torch module and somebody's own batches: `ModuleTask(Net(), loader, loss, len(data), lr=0.05)`.

    `loss(module, batch)` is a scalar tensor; `batches` is gone through `epochs` times a visit; `lr` is a
    number or a function of the round. Running statistics (BatchNorm) are averaged.
    """

    def __init__(
        self,
        module: nn.Module,
        batches: Iterable[Any],
        loss: Callable[[nn.Module, Any], Tensor],
        samples: int,
        *,
        lr: float | Callable[[int], float],
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        clip: float | None = None,
        epochs: int = 1,
        buffers: str = "average",
        device: str = "cpu",
    ) -> None:
        whole("epochs", epochs)
        if epochs > 1 and iter(batches) is batches:
            raise FedhaltError(f"epochs={epochs}, but batches lasts for one: give a list or a DataLoader")
        if not callable(lr):
            positive("lr", lr)
        whole("samples", samples, least=0)
        self.model = Model(module, buffers, device=device)
        self._batches, self._loss, self._samples, self._epochs = batches, loss, samples, epochs
        self._lr = lr if callable(lr) else lambda r: lr
        self._local = partial(
            Local, optimizer=partial(torch.optim.SGD, momentum=momentum), weight_decay=weight_decay, clip=clip
        )

    def samples(self, client: int) -> int:
        return self._samples

    def visit(self, client: int, r: int, shared: Vectors) -> Local:
        self.model.set_buffers(shared.get("buffers"))

        def after() -> Vectors:
            buffers = self.model.buffers()
            return {} if buffers is None else {"buffers": buffers}

        return self._local(self._gradients(), self._lr(r), shared=after)

    def _gradients(self) -> Iterator[Gradient]:
        for _ in range(self._epochs):
            for batch in self._batches:
                yield partial(self._gradient, batch=batch)

    def _gradient(self, w: Tensor, batch: Any) -> Tensor:
        return self.model.gradient_of(w, lambda module: self._loss(module, batch))


def client_app(task: Callable[[Context], ClientTask]) -> ClientApp:
    """The other half of `FedMethod`: `task(context)` gives the model and the data of a node.

    The method, its hyperparameters and the round come with every message. A client is known by its
    `partition-id`. What it remembers is kept in Flower's context, which ends with the run; with
    `memory=FOLDER` in the node's configuration also on its disk, where a continued run finds it.
    Handlers of one's own are added as to any ClientApp: `@app.evaluate()`.
    """
    app = ClientApp()

    @app.query()
    def query(message: Message, context: Context) -> Message:
        """Who is here: asked once per node if the cohort is drawn by number."""
        client = number(context)
        found = MetricRecord({"client": client, "samples": task(context).samples(client)})
        return Message(RecordDict({"fedhalt": found}), reply_to=message)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        if "fedhalt" not in message.content.config_records:
            raise FedhaltError("this message is not FedMethod's: client_app(…) is its other half, not FedAvg's")
        config = message.content.config_records["fedhalt"]
        here, client, r = task(context), number(context), int(config["round"])  # type: ignore[arg-type]
        method = described(str(config["method"]))
        arrays = {name: torch.from_numpy(array.numpy()) for name, array in message.content["arrays"].items()}  # type: ignore
        _check_names(list(config["trained"]), here.model)  # type: ignore[arg-type]
        down = _down(message, arrays, here.model)
        shared = _shared(arrays, list(config["statistics"]), here.model)  # type: ignore[arg-type]
        _load_rest(arrays, [*config["trained"], *(config["statistics"] if shared else ())], here.model)  # type: ignore
        memory = ClientMemory(context, str(config["run"]), int(config["confirmed"]))  # type: ignore[arg-type]
        before = memory.read(r)
        kept = {name: here.model.ordered(vector) for name, vector in (before or {}).items()}
        local = here.visit(client, r, shared)
        reply, fresh = engine.client_half(method, local, down, kept if before else method.client_init(down["x"]))
        memory.write(r, {name: here.model.plain(vector) for name, vector in fresh.items()})
        metrics = {"num-examples": here.samples(client), "client": client, "steps": local.steps}
        content: dict[str, Any] = {
            "up": ArrayRecord({name: array_of(here.model.plain(vector)) for name, vector in reply.items()}),
            "metrics": MetricRecord({**metrics, "clipped": local.clipped, "remembered": int(bool(before))}),
        }
        return Message(RecordDict(content), reply_to=message)

    return app


class ClientMemory:
    """What a client remembers of one federated run, by round: in Flower's context, and on disk if the node says so.

    A round that the server repeats after a kill must not see its own first attempt, so the last memory
    from before the round is used, and kept beside the new one; so is the last one that the server knows of.
    """

    def __init__(self, context: Context, run: str, confirmed: int) -> None:
        if not re.fullmatch("[0-9a-f]+", run):
            raise FedhaltError(f"{run!r} is no run of fedhalt's")
        self._state, self._run, folder = context.state, run, context.node_config.get("memory")
        self._folder = Path(str(folder)) / run / str(number(context)) if folder else None
        self._confirmed = confirmed

    def read(self, r: int) -> Vectors | None:
        """The memory from before round r, None at the first visit."""
        if self._folder is not None:
            version = max((known for known in self._versions() if known < r), default=None)
            if version is None:
                return None
            path = self._path(version)
            return {name: torch.from_numpy(array.copy()) for name, array in _read(path).items()}
        whose = self._state.config_records.get(f"{MEMORY}.run")
        if whose is None or whose["run"] != self._run:  # one Flower run may train several models
            return None
        record = self._state.array_records[MEMORY]
        return {name: torch.from_numpy(array.numpy()) for name, array in record.items()}

    def write(self, r: int, vectors: Vectors) -> None:
        """The memory after round r; a method that keeps nothing writes nothing."""
        if not vectors:
            return
        if self._folder is None:
            self._state[f"{MEMORY}.run"] = ConfigRecord({"run": self._run})
            self._state[MEMORY] = ArrayRecord({name: array_of(vector) for name, vector in vectors.items()})
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FedhaltError(f"memory={self._folder.parent.parent} cannot be a folder: {error.strerror}") from None
        older = [version for version in self._versions() if version < r]
        known = [version for version in older if version <= self._confirmed]
        arrays = {name: vector.cpu().numpy() for name, vector in vectors.items()}
        files.write(self._path(r), files.from_arrays(arrays, {"fedhalt": "client memory"}))
        for version in {*self._versions()} - {r, max(older, default=r), max(known, default=r)}:
            self._path(version).unlink(missing_ok=True)

    def _versions(self) -> list[int]:
        folder = self._folder
        return [int(path.stem) for path in folder.glob("*.safetensors")] if folder and folder.exists() else []

    def _path(self, r: int) -> Path:
        assert self._folder is not None
        return self._folder / f"{r}.safetensors"


def number(context: Context) -> int:
    """The client's number in the federation: its partition, or its node if it was given none."""
    return int(context.node_config.get("partition-id", context.node_id))


def described(text: str) -> Method:
    """The method that FedMethod described in its message."""
    said = files.from_json(text)
    setting = said["setting"]
    made = None if setting is None else Setting(**{**setting, "sizes": tuple(setting["sizes"])})
    return methods.create(said["name"], compat=said["compat"], setting=made, **said["hyperparameters"])


def array_of(vector: Tensor) -> Array:
    return Array(np.asarray(vector.detach().cpu().numpy()))


def _down(message: Message, arrays: Vectors, model: Model) -> Vectors:
    """What came down: the parameters under their names, the method's other vectors flat."""
    down = {"x": torch.cat([arrays[name].reshape(-1) for name in model.names])}
    for name, array in message.content.array_records["down"].items():
        down[name] = torch.from_numpy(array.numpy())
    place = next(model.module.parameters()).device
    return {name: model.ordered(vector.to(place)) for name, vector in down.items()}


def _shared(arrays: Vectors, names: list[str], model: Model) -> Vectors:
    """The running statistics, if this model averages them."""
    mine = model.buffers()
    if mine is None:
        return {}
    found = torch.cat([arrays[name].reshape(-1) for name in names]) if names else torch.zeros(0)
    if found.numel() != mine.numel():
        raise FedhaltError(f"this model has {mine.numel()} running statistics, the server {found.numel()} of {names}")
    return {"buffers": found.to(mine)}


def _load_rest(arrays: Vectors, done: list[str], model: Model) -> None:
    """What is neither trained nor averaged is the server's too: frozen layers, statistics, counters."""
    mine = model.module.state_dict()
    for name, value in arrays.items():
        if name not in done and name in mine:
            mine[name].copy_(value)


def _check_names(trained: list[str], model: Model) -> None:
    """Both halves must speak of the same parameters."""
    mine = {value.data_ptr(): name for name, value in model.module.named_parameters()}
    for name, value in model.module.state_dict().items():
        if mine.get(value.data_ptr(), name) != name:
            raise FedhaltError(f"{name!r} is tied to {mine[value.data_ptr()]!r}: FedMethod takes no tied weights")
    if trained != list(model.names):
        odd = sorted(set(trained) ^ set(model.names)) or ["their order"]
        raise FedhaltError(
            f"server and client differ in what is trained: {', '.join(odd[:5])}; "
            "tell the server by FedMethod(…, untrained=(patterns)) which arrays are no parameters"
        )


def _read(path: Path) -> dict[str, Any]:
    return files.to_arrays(path.read_bytes(), path)
