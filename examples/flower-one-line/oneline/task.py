"""Somebody's data and model: a share of an image data set and a small CNN."""

from functools import cache

import torch
from flwr.app import Context
from torch import Tensor

from fedhalt.simulation import datasets
from fedhalt.simulation.model import SmallCNN, normalised


@cache
def data(name: str, root: str) -> datasets.Data:
    torch.set_num_threads(1)
    return datasets.load(name, 28, root or None)


def Net(context: Context) -> SmallCNN:
    found = data(context.run_config["data"], context.run_config["data-root"])
    torch.manual_seed(0)
    return SmallCNN(found.train.images.shape[1], found.classes)


def load(context: Context) -> tuple[Tensor, Tensor]:
    """This node's share."""
    train = data(context.run_config["data"], context.run_config["data-root"]).train
    mine = slice(int(context.node_config["partition-id"]), None, context.run_config["clients"])
    return normalised(train.images[mine]), train.labels[mine]
