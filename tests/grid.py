"""A small model and clients that need no torch, on a Flower federation in this process."""

from __future__ import annotations

import atexit
import gc

import numpy as np
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedhalt.integrations.flower import testing

# the collection at the end of the process must see what was frozen: nanobind calls the rest of torch's compiler leaked
atexit.register(gc.unfreeze)


class InProcessGrid(testing.InProcessGrid):
    """The public one; Flower collects garbage per record, which need not look through what other tests imported."""

    def __init__(self, *args, **options):
        gc.freeze()
        super().__init__(*args, **options)


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
