"""The client half of fedhalt's methods as a Flower ClientApp."""

from __future__ import annotations

import inspect
import statistics
from collections.abc import Callable
from typing import Any

import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from ... import files, methods
from ...errors import FedhaltError
from ...methods import Method, Setting
from ...methods.convert import to_numpy, to_vectors
from ...methods.vector import Vectors
from ...simulation import engine
from ...simulation.model import Model
from .memory import ClientMemory, client_number
from .roster import ACTION
from .task import ClientTask

MakeTask = Callable[[Context], ClientTask] | Callable[[Context, ConfigRecord], ClientTask]
"""Makes a node's task from its context and, if it takes two arguments, from the app's `train_config`."""


def client_app(task: MakeTask) -> ClientApp:
    """The client side of `FedMethod`.

    The method, its hyperparameters and the round come with every message. A client is identified by its `partition-id`.
    What it remembers is kept in Flower's context, which ends with the run. With `memory=FOLDER` in the node's
    configuration, it is also kept on disk, where a resumed run finds it. Add your own handlers as for any ClientApp:
    `@app.evaluate()`.

    Args:
        task: Called with the node's context; returns its model and data, such as a `ModuleTask`. If it takes a second
            argument, it also receives the app's `train_config` of the round, as any ClientApp does in its message.

    Returns:
        The ClientApp.

    Examples:
        >>> import torch
        >>> from fedhalt.integrations.flower import ModuleTask, client_app
        >>> def loss(module, batch):
        ...     images, labels = batch
        ...     return torch.nn.functional.cross_entropy(module(images), labels)
        >>> def task(context):
        ...     data = [(torch.randn(16, 4), torch.zeros(16, dtype=torch.long))]
        ...     return ModuleTask(torch.nn.Linear(4, 2), data, loss, samples=16, lr=0.05)
        >>> type(client_app(task)).__name__
        'ClientApp'
    """
    app = ClientApp()
    configured = _takes_config(task)

    def made(message: Message, context: Context) -> ClientTask:
        config = message.content.config_records.get("config", ConfigRecord())
        make: Callable[..., ClientTask] = task
        return make(context, config) if configured else make(context)

    @app.query(ACTION)
    def query(message: Message, context: Context) -> Message:
        """Who is here: asked once per node if the cohort is drawn by number."""
        client = client_number(context)
        answer = MetricRecord({"client": client, "samples": made(message, context).samples(client)})
        return Message(RecordDict({"fedhalt": answer}), reply_to=message)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return Message(_trained(made(message, context), message, context), reply_to=message)

    return app


def _takes_config(task: MakeTask) -> bool:
    """Whether a task can be called with a context and a config."""
    try:
        inspect.signature(task).bind(None, None)
    except TypeError:
        return False
    return True


def _trained(task: ClientTask, message: Message, context: Context) -> RecordDict:
    """One visit: what came down, the client half, what goes up."""
    if "fedhalt" not in message.content.config_records:
        raise FedhaltError("this message is not FedMethod's: client_app(…) is its other half, not FedAvg's")
    config: Any = message.content.config_records["fedhalt"]
    model, client, r = task.model, client_number(context), int(config["round"])
    method = read_method(str(config["method"]))
    arrays = to_vectors(message.content["arrays"])
    _check_names(list(config["trained"]), model)
    down = _down(message, arrays, model)
    shared = _shared(arrays, list(config["statistics"]), model)
    _load_rest(arrays, [*config["trained"], *(config["statistics"] if shared else ())], model)
    memory = ClientMemory(context, str(config["run"]), int(config["confirmed"]))
    remembered = memory.read(r)
    before = {name: model.ordered(vector) for name, vector in (remembered or {}).items()}
    local = task.visit(client, r, shared)
    reply, after = engine.client_half(method, local, down, before if remembered else method.client_init(down["x"]))
    memory.write(r, {name: model.plain(vector) for name, vector in after.items()})
    metrics: dict[str, Any] = {"num-examples": task.samples(client), "client": client, "steps": local.steps}
    metrics |= {"clipped": local.clipped, "remembered": int(bool(remembered))}
    losses = local.losses()
    if losses:
        metrics["train_loss"] = statistics.fmean(losses)
    up = {name: Array(to_numpy(model.plain(vector))) for name, vector in reply.items()}
    return RecordDict({"up": ArrayRecord(up), "metrics": MetricRecord(metrics)})


def read_method(text: str) -> Method:
    """The method that FedMethod described in its message."""
    described = files.from_json(text)
    setting = described["setting"]
    if setting is not None:
        setting = Setting(**{**setting, "sizes": tuple(setting["sizes"])})
    return methods.create(
        described["name"], compat=described["compat"], setting=setting, **described["hyperparameters"]
    )


def _down(message: Message, arrays: Vectors, model: Model) -> Vectors:
    """What the server sent: the parameters under their names, the method's other vectors flat."""
    x = torch.cat([arrays[name].reshape(-1) for name in model.names])
    down = {"x": x, **to_vectors(message.content.array_records["down"])}
    device = next(model.module.parameters()).device
    return {name: model.ordered(vector.to(device)) for name, vector in down.items()}


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
    """Arrays that are neither trained nor averaged come from the server too: frozen layers, statistics, counters."""
    mine = model.module.state_dict()
    for name, value in arrays.items():
        if name not in done and name in mine:
            mine[name].copy_(value)


def _check_names(trained: list[str], model: Model) -> None:
    """Both halves must name the same parameters."""
    mine = {value.data_ptr(): name for name, value in model.module.named_parameters()}
    for name, value in model.module.state_dict().items():
        if mine.get(value.data_ptr(), name) != name:
            raise FedhaltError(f"{name!r} is tied to {mine[value.data_ptr()]!r}: FedMethod takes no tied weights")
    if trained != list(model.names):
        odd = sorted(set(trained) ^ set(model.names)) or ["their order"]
        raise FedhaltError(
            f"server and client differ in what is trained: {', '.join(odd[:5])}; "
            "tell the server by FedMethod(…, untrained=(patterns)) which arrays are not parameters"
        )
