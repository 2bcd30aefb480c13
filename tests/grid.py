"""A Flower federation in this process: Flower's strategies, messages and apps without a transport."""

from __future__ import annotations

import copy
import gc
from types import SimpleNamespace

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid

try:  # newer releases ask who creates a message
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id = TaskIdentity.task_id = TaskIdentity.node_id = 1
except ImportError:
    pass


class InProcessGrid(Grid):
    """Calls the ClientApp of every addressed node; `broken(type, round)` names nodes that fail."""

    def __init__(self, app, nodes=3, node_config=None, broken=None):
        gc.freeze()  # Flower collects garbage per record: it need not look through what other tests imported
        self.app, self.broken = app, broken or (lambda kind, r: ())
        self.contexts = {
            1000 + i: Context(
                run_id=1,
                node_id=1000 + i,
                node_config={"partition-id": i, "num-partitions": nodes, **(node_config or {})},
                state=RecordDict(),
                run_config={},
            )
            for i in range(nodes)
        }
        self.sent = []
        """(message type, round) of every message."""

    def get_node_ids(self):
        return list(self.contexts)

    def send_and_receive(self, messages, *, timeout=None):
        return [self._reply(message) for message in messages]

    def _reply(self, message):
        kind, node = message.metadata.message_type, message.metadata.dst_node_id
        config = message.content.config_records.get("config", {})
        r = config.get("server-round", 0)
        self.sent.append((kind, r))
        if node - 1000 in self.broken(kind, r):
            return Message(Error(code=0, reason="broken on purpose"), reply_to=message)
        try:
            return self.app(copy.deepcopy(message), self.contexts[node])  # a transport shares no object
        except Exception as error:
            return Message(Error(code=0, reason=repr(error)), reply_to=message)

    run = SimpleNamespace(run_id=1)

    def set_run(self, *args, **kwargs):
        raise AssertionError("no strategy asks for this")

    create_message = push_messages = pull_messages = set_run


def start_arrays(counter=True):
    """A small model: weights, a running statistic and a step counter."""
    values = {
        "layer.weight": np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32),
        "layer.bias": np.zeros(3, np.float32),
        "norm.running_mean": np.ones(3, np.float32),
        "norm.num_batches_tracked": np.array([0]),  # flwr 1.22 averages no 0-dimensional arrays
    }
    if not counter:
        del values["norm.num_batches_tracked"]
    return ArrayRecord({name: Array(value) for name, value in values.items()})


def pulled(values, client, rate=0.3):
    """What a client makes of the model: every number moves towards the client's own target."""
    targets = {
        name: np.random.default_rng((client, i)).normal(size=v.shape) for i, (name, v) in enumerate(values.items())
    }
    return {name: np.asarray(v + rate * (targets[name] - v)).astype(v.dtype) for name, v in values.items()}


def pulling_app(*mods):
    """A ClientApp that needs no torch, with Flower's mods around its training."""
    app = ClientApp()

    @app.train(mods=list(mods))
    def train(message, context):
        values = {name: array.numpy() for name, array in message.content["arrays"].items()}
        moved = pulled(values, int(context.node_config["partition-id"]))
        content = {
            "arrays": ArrayRecord({name: Array(value) for name, value in moved.items()}),
            "metrics": MetricRecord({"num-examples": 10, "train_loss": 0.5}),
        }
        return Message(RecordDict(content), reply_to=message)

    @app.evaluate()
    def evaluate(message, context):
        size = float(sum(np.abs(array.numpy()).sum() for array in message.content["arrays"].values()))
        return Message(RecordDict({"metrics": MetricRecord({"num-examples": 10, "loss": size})}), reply_to=message)

    return app
