"""What the tests of the callbacks share: a small problem, a rule, what the models of a full run say."""

import numpy as np

from fedhalt import EarlyStopper

RULE = {"threshold": 0.1, "patience": 2}
AVERAGE = 3


def problem(samples=64, features=6, seed=0):
    """Linear regression with noise, as float32."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(samples, features)).astype("f4")
    y = x @ rng.normal(size=(features, 1)).astype("f4") + rng.normal(size=(samples, 1)).astype("f4") / 10
    return x, y


def judged(models):
    """What a replay of the models says, the first of which is the start: the stop, and the average there."""
    stopper = EarlyStopper(models[0], **RULE, average=AVERAGE)
    for model in models[1:]:
        if stopper.update(model).stop:
            return stopper.status, stopper.model("average")
    raise AssertionError("the full run is too short: its models never stop")


def copied(named):
    """The numbers of a model that is trained in place."""
    return {name: np.array(tensor.detach().cpu().numpy()) for name, tensor in named}


def same(one, other):
    return one.keys() == other.keys() and all(np.array_equal(one[name], other[name]) for name in one)
