"""What the fixtures of an earlier version were made from, and how they are compared.

`fixtures/v0.1.0/make.py` wrote them, test_earlier.py and test_earlier_flower.py read them.
"""

import json
import math
import random
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np
from earlier_records import SCORES, digest, plain

from fedhalt import (
    AllOf,
    AnyOf,
    Budget,
    Difference,
    ForwardGrowth,
    GrowthAuthors,
    GrowthRate,
    Plateau,
    RelativeUpdate,
    TwoStages,
    Wandering,
    WeightDiff,
)

FIXTURES = Path(__file__).parent / "fixtures" / "v0.1.0"
PACKED = Path(__file__).parents[1] / "fedhalt" / "stopbench" / "trajectories"
PACKED_RUNS = ("digits-cnn-0.001", "digits-cnn-0.01", "digits-cnn-0.1", "blood-cnn-0.01")
ROUNDS, CUT = 20, 8
"""Of a stopper: all rounds, and the last one before it was saved."""


def machine():
    """What decides the last bit of a number: libm's logarithm, and for trained models processor and packages."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    model = dict.fromkeys(line.partition(":")[2].strip() for line in lines if line.startswith("model"))
    wide = [kind for kind in ("avx2", "fma", "avx512f", "avx512_bf16") if any(f" {kind} " in line for line in lines)]
    found = {"log": digest([math.log(n / 7) for n in range(1, 500)]), "cpu": " ".join([*[*model][:2], *wide])}
    for package in ("numpy", "torch", "flwr"):
        try:
            found[package] = version(package).partition("+")[0]
        except PackageNotFoundError:
            found[package] = None
    return found


def same_machine(*names):
    here, there = machine(), read("machine.json")
    return all(here[name] == there[name] for name in names)


def near(one, other):
    """Equal but for the last digits."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(near(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(near, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-3, abs_tol=1e-5) or repr(one) == repr(other)
    return one == other


def narrowed(got, expected):
    """What is asked for: later versions record and say more."""
    if isinstance(got, dict) and isinstance(expected, dict):
        return {key: narrowed(got[key], expected[key]) for key in expected if key in got}
    if isinstance(got, list) and isinstance(expected, list) and len(got) == len(expected):
        return [narrowed(one, other) for one, other in zip(got, expected, strict=True)]
    return got


def check(got, expected, *names):
    """To the bit if these things are what they were when it was recorded; NaN is equal to itself."""
    got = narrowed(got, expected)
    if same_machine("log", *names):
        assert repr(got) == repr(expected)
    assert near(got, expected)


def read(*path):
    return json.loads(FIXTURES.joinpath(*path).read_text())


STOPPERS = {
    "GrowthRate": GrowthRate(0.1, 12),
    "GrowthAuthors": GrowthAuthors(0.1, 9),
    "Plateau": Plateau("val_loss", 0.02, 3),
    "PlateauFraction": Plateau("val_accuracy", 0.06, 4, acc_unit="fraction"),
    "PlateauOwn": Plateau("my_score", 0.3, 12, higher_is_better=True),
    "Difference": Difference(0.41, 10),
    "RelativeUpdate": RelativeUpdate(0.2, 8),
    "WeightDiff": WeightDiff(0.1, 5),
    "Wandering": Wandering(1.45, 12),
    "ForwardGrowth": ForwardGrowth(0.07, 3),
    "Budget": Budget(14),
    "AnyOf": AnyOf(GrowthRate(0.02, 3), Budget(15)),
    "AllOf": AllOf(RelativeUpdate(0.5, 2), Plateau("val_loss", 0.02, 2), Budget(11)),
    "TwoStages": TwoStages(Wandering(1.45, 12), ForwardGrowth(0.02, 3)),
    "Unchecked": GrowthRate(0.1, 3, start_from_round=11, check_finite=False),
    "Observed": RelativeUpdate(0.2, 8),
    "Chosen": ForwardGrowth(0.07, 3),
}
"""Saved in the middle: Observed has no start, Chosen watches some of the arrays and keeps a trajectory."""

CHOSEN = {"include": ["layer.*", "head.*"], "exclude": ["*.bias"]}


def params(rounds=ROUNDS):
    """A model by round, from theta_0 on: multiples of 1/64, of which every sum of squares is exact on any machine."""
    draw, shapes = random.Random("params"), {"layer.weight": (2, 3), "layer.bias": (3,), "head.weight": (4,)}
    kinds = {"layer.weight": np.float32, "layer.bias": np.float16, "head.weight": np.float64}
    whole = {name: np.zeros(shape, np.int64) for name, shape in shapes.items()}
    found = []
    for r in range(rounds + 1):
        for value in whole.values():
            value.flat = [k + draw.randrange(-90 // (r + 1), 160 // (r + 1)) for k in value.flat]
        found.append({name: (value / 64).astype(kinds[name]) for name, value in whole.items()})
        found[-1]["steps"] = np.array(r)
    return found


def feed(name, stopper, first, last=ROUNDS):
    """Shows a stopper its rounds; the statuses."""
    said = []
    for r, now in enumerate(params()[first : last + 1], start=first):
        scores = {"val_loss": round(1 / r, 3), "val_accuracy": round(1 - 1 / r, 3), "my_score": (r * 7) % 5}
        scores |= dict.fromkeys(SCORES) if r % 5 == 0 else {}
        if name == "Unchecked" and r % 6 == 2:
            now["head.weight"][1] = math.inf
        if name == "Observed":
            said.append(stopper.observe(math.sqrt(r), update_norm=1 / r))
        else:
            said.append(stopper.update(now, **scores))
    return [plain(status) for status in said]


def tiny_network():
    """Registers a network of a hundred weights with timm, so that the files of a run are small."""
    import timm
    from torch import nn

    class Tiny(nn.Sequential):
        def __init__(self, channels, classes):
            body = [nn.Conv2d(channels, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
            super().__init__(*body, nn.Flatten(), nn.Linear(4, max(1, classes)))

    def fedhalt_tiny(num_classes=10, in_chans=1, **_):
        return Tiny(in_chans, num_classes)

    if not timm.is_model("fedhalt_tiny"):
        timm.models.register_model(fedhalt_tiny)


RUN = {"data": "digits", "model": "fedhalt_tiny", "clients": 6, "cohort": 3, "epochs": 1, "batch": 64, "c": 0.5}
RUNS = {
    "interrupted": {"method": "fedavg", "lr": 0.05, "buffers": "frozen", "channels_last": True, "evaluate_every": 2},
    "killed": {"method": "scaffold", "lr": 0.05, "buffers": "average", "weighting": "samples", "seed": 3},
    "adaptive": {"method": "fedadam", "lr": 0.05, "buffers": "average", "held_out": 0.2, "optimizer": "adamw"},
}
LENGTH, STOPPED = 8, 4
"""Rounds of a run, and after how many it was stopped."""
