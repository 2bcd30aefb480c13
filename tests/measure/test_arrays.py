"""Every array type a server may hold, and everything that is refused."""

import subprocess
import sys

import numpy as np
import pytest

import fedhalt
from fedhalt import EarlyStopper, FedhaltError

torch = pytest.importorskip("torch")

SHAPES = {"conv.weight": (4, 3, 2, 2), "conv.bias": (4,), "head": ()}


def numbers(seed):
    rng = np.random.default_rng(seed)
    return {name: np.asarray(rng.standard_normal(shape)) for name, shape in SHAPES.items()}


def torch_of(dtype):
    return lambda params: {name: torch.tensor(array).to(dtype) for name, array in params.items()}


def numpy_of(dtype):
    return lambda params: {name: array.astype(dtype) for name, array in params.items()}


class Model(torch.nn.Module):  # type: ignore[name-defined]
    def __init__(self, params):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 2)
        self.norm = torch.nn.BatchNorm1d(4, affine=False)  # buffers: no parameters
        self.head = torch.nn.Parameter(torch.zeros(()))
        with torch.no_grad():
            for name, value in self.named_parameters():
                value.copy_(torch.tensor(params[name]))


def flower_record(params):
    flwr = pytest.importorskip("flwr.app")
    return flwr.ArrayRecord({name: flwr.Array(array.astype(np.float32)) for name, array in params.items()})


def flower_parameters(params):
    common = pytest.importorskip("flwr.common")
    return common.ndarrays_to_parameters([array.astype(np.float32) for array in params.values()])


def jax_of(dtype):
    def build(params):
        jnp = pytest.importorskip("jax.numpy")
        return {"conv": {name[5:]: jnp.asarray(params[name], dtype) for name in ("conv.weight", "conv.bias")},
                "head": jnp.asarray(params["head"], dtype)}  # fmt: skip

    return build


KINDS = {
    "one numpy array": lambda p: np.concatenate([a.ravel() for a in p.values()]),
    "one torch tensor": lambda p: torch.tensor(np.concatenate([a.ravel() for a in p.values()])),
    "one parameter that needs a gradient": lambda p: torch.tensor(p["conv.weight"], requires_grad=True),
    "numpy float16": numpy_of(np.float16),
    "numpy float32": numpy_of(np.float32),
    "numpy float64": numpy_of(np.float64),
    "numpy longdouble": numpy_of(np.longdouble),
    "numpy big-endian": numpy_of(">f4"),
    "torch float16": torch_of(torch.float16),
    "torch bfloat16": torch_of(torch.bfloat16),
    "torch float32": torch_of(torch.float32),
    "torch float64": torch_of(torch.float64),
    "torch module": Model,
    "list": lambda p: list(p.values()),
    "tuple of tensors": lambda p: tuple(torch.tensor(a) for a in p.values()),
    "generator": lambda p: (torch.tensor(a) for a in p.values()),
    "python floats": lambda p: [float(x) for x in p["conv.weight"].ravel()],
    "jax float32": jax_of("float32"),
    "jax bfloat16": jax_of("bfloat16"),
    "Flower ArrayRecord": flower_record,
    "Flower Parameters": flower_parameters,
    "channels last": lambda p: torch.tensor(p["conv.weight"]).to(memory_format=torch.channels_last),
    "bfloat16 channels last": lambda p: torch.tensor(p["conv.weight"]).bfloat16().to(memory_format=torch.channels_last),
    "transposed": lambda p: p["conv.weight"].T,
    "strided": lambda p: np.repeat(p["conv.weight"], 2, axis=0)[::2],
}


def reference(kind, params):
    """What the parameters are once they are of that kind, in float64."""
    if "bfloat16" in kind:
        values = [params["conv.weight"]] if "last" in kind else params.values()
        return [torch.tensor(a).bfloat16().double().numpy().ravel() for a in values]
    if "float16" in kind:
        return [a.astype(np.float16).astype(float).ravel() for a in params.values()]
    if kind.startswith(("one parameter", "python", "channels", "strided")):
        return [params["conv.weight"].ravel()]
    if kind == "transposed":
        return [params["conv.weight"].T.ravel()]
    single = "float32" in kind or "Flower" in kind or kind in ("torch module", "numpy big-endian")
    return [a.astype(np.float32 if single else float).astype(float).ravel() for a in params.values()]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_parameters(kind):
    start, now = numbers(0), numbers(1)
    build = KINDS[kind]
    expected = np.linalg.norm(np.concatenate(reference(kind, now)) - np.concatenate(reference(kind, start)))
    measured = EarlyStopper(start=build(start)).update(build(now)).value
    assert measured == pytest.approx(expected, rel=1e-6)
    assert fedhalt.squared_distance(build(now), build(start)) == pytest.approx(expected**2, rel=1e-6)


def test_a_start_of_one_kind_may_be_compared_with_another():
    start, now = numbers(0), numbers(1)
    stopper = EarlyStopper(start=torch_of(torch.float32)(start))
    assert stopper.update(now).value == pytest.approx(EarlyStopper(start=start).update(now).value, rel=1e-6)


def test_the_order_of_bytes_does_not_matter():
    start = np.random.default_rng(0).standard_normal(1000)
    swapped = fedhalt.squared_distance((start + 1e-9).astype(">f8"), start.astype(">f8"))
    assert swapped == pytest.approx(fedhalt.squared_distance(start + 1e-9, start), rel=1e-12)


def test_parameters_as_an_iterator_for_a_rule_that_keeps_the_last_ones():
    model = Model(numbers(0))
    stopper = EarlyStopper(start=model.parameters(), rule=fedhalt.RelativeUpdate())
    assert [stopper.update(model.parameters()).round for _ in range(3)] == [1, 2, 3]


def test_start_is_copied():
    model = Model(numbers(0))
    stopper = EarlyStopper(start=model.state_dict(), exclude="norm.*")
    with torch.no_grad():
        model.conv.bias += 1.0
    assert stopper.update(model.state_dict()).value == pytest.approx(2.0)
    array = np.zeros(4)
    stopper = EarlyStopper(start=array)
    array += 1.0
    assert stopper.update(array).value == 2.0


def test_a_module_means_its_parameters_and_a_mapping_all_its_floats():
    model = Model(numbers(0))
    stopper, whole = EarlyStopper(start=model), EarlyStopper(start=model.state_dict())
    model.norm.running_mean += 1.0
    model.norm.num_batches_tracked += 7
    assert stopper.update(model).value == 0.0
    assert whole.update(model.state_dict()).value == pytest.approx(2.0)


@pytest.mark.parametrize("include, exclude, expected", [
    (None, None, 3.0), ("a.*", None, 2.0), (["a.*", "b.*"], None, 3.0), (None, "a.*", 5**0.5),
    (["a.*"], ["*.w"], 3**0.5),
])  # fmt: skip
def test_include_and_exclude_choose_keys(include, exclude, expected):
    start = {"a.w": np.zeros(1), "a.b": np.zeros(3), "b.w": np.zeros(5)}
    now = {name: array + 1 for name, array in start.items()}
    assert EarlyStopper(start=start, include=include, exclude=exclude).update(now).value == pytest.approx(expected)


START = {"w": np.zeros((2, 3)), "b": np.zeros(2)}


@pytest.mark.parametrize("now, words", [
    ({"w": np.zeros((3, 2)), "b": np.zeros(2)}, ["'w'", "(2, 3)", "(3, 2)"]),
    ({"w": np.zeros((2, 3))}, ["'b'", "(2,)", "missing"]),
    ({**START, "c": np.zeros((1, 9))}, ["'c'", "(1, 9)", "not there"]),
    ({"w": np.zeros((2, 3)), "b": "text"}, ["'b'", "text"]),
    ({"w": np.zeros((2, 3)), "b": None}, ["'b'", "None"]),
    ({"w": np.zeros((2, 3)), "b": np.zeros(2, complex)}, ["'b'", "complex"]),
    ({"w": np.zeros((2, 3)), "b": np.array([None, None])}, ["'b'", "objects"]),
    ({"w": np.zeros((2, 3)), "b": np.zeros(2, int)}, ["'b'", "missing"]),
    ({"w": np.zeros((2, 3)), "b": torch.zeros(2).to_sparse()}, ["sparse", "dense"]),
    ({"w": np.zeros((2, 3)), "b": torch.zeros(2, device="meta")}, ["meta"]),
    (7, ["nothing to watch"]),
    ("weights.pt", ["weights.pt"]),
    ({}, ["empty"]),
])  # fmt: skip
def test_changed_parameters_are_refused_with_key_and_shapes(now, words):
    stopper = EarlyStopper(start=START)
    with pytest.raises(FedhaltError) as error:
        stopper.update(now)
    assert all(word in str(error.value) for word in words), str(error.value)
    assert stopper.update(START).round == 1  # the refused update left no trace


@pytest.mark.parametrize("make, words", [
    (lambda: EarlyStopper(start={"n": np.zeros(3, int)}), ["nothing to watch", "n"]),
    (lambda: EarlyStopper(start=START, exclude="*"), ["nothing to watch", "exclude"]),
    (lambda: EarlyStopper(start=START, include="weight*"), ["weight*", "w, b"]),
    (lambda: EarlyStopper(start=START, include=3), ["include", "3"]),
    (lambda: EarlyStopper(start={"a": {"b": np.ones(1)}, "a.b": np.ones(1)}), ["'a.b'", "two"]),
    (lambda: EarlyStopper(start=START, threshold=0), ["threshold", "0"]),
    (lambda: EarlyStopper(start=START, threshold=0.1, rule=fedhalt.Budget(3)), ["threshold", "rule"]),
    (lambda: EarlyStopper().update(START), ["no start"]),
    (lambda: EarlyStopper(start=START, rule="growth"), ["rule", "'growth'"]),
    (lambda: EarlyStopper(start=START, rule=fedhalt.GrowthRate), ["rule", "GrowthRate"]),
    (lambda: EarlyStopper().observe(), ["distance"]),
    (lambda: EarlyStopper().observe(-1.0), ["-1.0"]),
    (lambda: EarlyStopper(rule=fedhalt.RelativeUpdate()).observe(1.0), ["update_norm"]),
    (lambda: EarlyStopper(start=START, rule=fedhalt.Plateau("val_loss")).update(START), ["val_loss", "distance"]),
])  # fmt: skip
def test_mistakes_are_refused_where_they_are_made(make, words):
    with pytest.raises(FedhaltError) as error:
        make()
    assert all(word in str(error.value) for word in words), str(error.value)


def test_without_torch_the_stopper_works():
    code = """
import sys
sys.modules["torch"] = None
import numpy, fedhalt
print(fedhalt.EarlyStopper(start=[numpy.zeros(4)]).update([numpy.ones(4)]).value)
"""
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "2.0\n"
