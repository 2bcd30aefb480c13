"""The folders that fedhalt writes: what makes each and what reads it."""

import json
import operator
import os
import signal
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fedhalt import FedhaltError
from helpers.faults.workloads import workload

MORE = 2
"""Rounds that are trained after the damage."""


@dataclass
class Kept:
    """A kind of folder."""

    make: Callable[..., Any]
    read: Callable[..., Any]
    """Goes on with the folder or only reads it; returns what was read, or raises a sentence."""
    optional: str = "/"
    """A pattern of files whose absence nobody can notice."""
    depth: int = 0
    """How many names of a path say whose a file is: a refusal ends one run of a sweep, one client of a federation."""
    same: Callable[..., bool] = operator.eq
    """Whether what was read is right, given what is read from the undamaged folder."""


def gone_on_with(name, make=None, **settings):
    """A workload's folder, by default after its end; who reads it goes on."""
    made = workload(name)

    def read(folder):
        going = made(made.short + MORE)
        going(folder)
        return going.seen(folder)

    return Kept(make or (lambda folder: made(made.short)(folder)), read, **settings)


def killed_run(folder):
    """A run that was killed in its fifth round: an earlier state that was made durable lies beside the last one."""
    child = os.fork()
    if child == 0:
        workload("run")(6)(folder, lambda text: text.startswith("4 ") and os.kill(os.getpid(), signal.SIGKILL))
    os.waitpid(child, 0)
    assert len(list(folder.glob("*/state-*"))) == 2


def ended_run():
    """A run that is called again, which only reads it, and then shown."""
    train, show = _ended()
    return Kept(train, lambda folder: [without(folder, train(folder).to_json()), show(folder)], "summary.json")


def report():
    """The same run as `fedhalt report` reads it."""
    train, show = _ended()
    # a run that is still being trained has no summary, and fewer rounds
    return Kept(train, show, "summary.json", same=_is_beginning)


def _is_beginning(found, whole):
    return found == {**whole, "rows": whole["rows"][: len(found["rows"])]}


def _ended():
    from fedhalt.rules import named_rules
    from fedhalt.simulation import runner
    from fedhalt.views.page.data import loaded
    from fedhalt.views.recorded import read_record
    from helpers.faults.workloads.toy import SPEC, install

    rules = [*named_rules(["budget"], {"rounds": [3]}), *named_rules(["growth"], {"threshold": [0.5], "patience": [2]})]

    def train(folder):
        install()
        return runner.run(SPEC, folder, rounds=5, watch=rules, stop="never", workers=1)

    def show(folder):
        record = folder / SPEC.id / "trajectory.jsonl"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            page = loaded(record, "run")
        if "problem" in page:
            raise FedhaltError(f"{record}: {page['problem']}")
        rows = read_record(record).rows
        assert page["rounds"] == len(rows)
        return {"watched": page["watched"], "spec": page["spec"], "rows": rows}

    return train, show


def without(folder, found):
    """What was read, whatever the folder is called."""
    return json.loads(json.dumps(found).replace(str(folder), ""))


def packs():
    """Packed runs, as StopBench reads them."""
    from fedhalt.stopbench import runs

    def make(folder):
        rows = [{"round": r, **dict.fromkeys(runs.SEEN, r**0.5)} for r in range(1, 40)]
        spec = {"data": "digits", "model": "cnn", "lr": 0.1}
        runs.pack([runs.Run(f"run {k}", spec, rows, [k / r for r in range(1, 40)]) for k in range(3)], folder)

    def read(folder):
        return [(run.name, dict(run.spec), run.rows, list(run.accuracy)) for run in runs.load_packed(folder)]

    # nobody can say which runs there might have been
    return Kept(make, read, "*.gz")


def features():
    """The cache of a probe's features; a small network stands for the backbone."""
    import torch

    from fedhalt.simulation import backbones
    from fedhalt.simulation.datasets import Data, Split

    def network(name, classes, channels):
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 5))

    vars(backbones).update(_timm=network, _load_pretrained=lambda name, module: None)
    draw = torch.Generator().manual_seed(0)
    splits = [Split(torch.rand(20, 1, 4, 4, generator=draw), torch.arange(20) % 2) for _ in range(3)]

    def read(folder):
        os.environ["FEDHALT_CACHE"] = str(folder)
        found = backbones.features("small", Data("small", 2, *splits), None, True, None)
        return [getattr(found, split).images.tolist() for split in ("train", "val", "test")]

    return Kept(read, read)


KEPT = {
    "killed-run": lambda: gone_on_with("run", killed_run),
    "run": lambda: gone_on_with("run"),
    "ended-run": ended_run,
    "report": report,
    "save": lambda: gone_on_with("save"),
    "flower": lambda: gone_on_with("flower"),
    "memory": lambda: gone_on_with("memory", depth=3),
    "grid": lambda: gone_on_with("grid", depth=2),
    "packs": packs,
    "features": features,
}
