"""`model("average")` in every structure that `update` takes, whenever somebody may ask for it."""

import errno
import tempfile
from collections import OrderedDict, defaultdict, deque, namedtuple
from types import MappingProxyType

import numpy as np
import pytest

from fedhalt import EarlyStopper, FedhaltError
from fedhalt.measure import average

Pair = namedtuple("Pair", "w b")
VALUES = (1.0, 2.0, 4.0, 8.0)
"""Every array of round r is filled with the r-th of these."""


def full(value, kind="f4"):
    return np.full((2, 3), value, kind)


def torch_module(value, half=False):
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.LayerNorm(3), torch.nn.Linear(3, 3))
    net[2].weight = net[0].weight
    net.register_buffer("scale", torch.ones(2))
    net.register_buffer("mask", torch.full((2,), -torch.inf))
    net.register_buffer("steps", torch.tensor(int(value)))
    with torch.no_grad():
        for tensor in [*net.parameters(), net.scale]:
            tensor.fill_(value)
    return net.half() if half else net


def state_dict(value):
    """Without the mask: of a state dict everything is watched, and infinities have no distance."""
    net = torch_module(value)
    del net.mask
    return net.state_dict()


def jax_tree(value):
    jnp = pytest.importorskip("jax.numpy")
    return {"layer": Pair(jnp.full((2,), value), jnp.full((1,), value, "bfloat16")), "n": jnp.int32(value)}


def array_record(value):
    app = pytest.importorskip("flwr.app")
    return app.ArrayRecord({"w": app.Array(full(value)), "n": app.Array(np.int64([value]))})


def legacy_parameters(value):
    return pytest.importorskip("flwr.common").ndarrays_to_parameters([full(value), np.int64([value])])


KINDS = {
    "array": full,
    "half": lambda value: full(value, "f2"),
    "list": lambda value: [full(value), np.int64([value]), full(value, "f8")],
    "tuple": lambda value: (full(value), (full(value, "f2"),)),
    "namedtuple": lambda value: Pair(full(value), [full(value)]),
    "dict": lambda value: {"w": full(value), "n": int(value), "deep": {"b": [full(value)]}},
    "numbers in keys": lambda value: {0: full(value), 1: {2: full(value)}},
    "ordered": lambda value: OrderedDict(b=full(value), a=full(value)),
    "default": lambda value: defaultdict(list, w=full(value)),
    "proxy": lambda value: MappingProxyType({"w": full(value)}),
    "scalars": lambda value: {"python": float(value), "numpy": np.float32(value), "zero-d": np.array(value)},
    "empty": lambda value: {"none": np.zeros((0, 4), "f4"), "w": full(value)},
    "other byte order": lambda value: full(value, ">f4"),
    "transposed": lambda value: full(value).T,
    "deque": lambda value: deque([full(value), full(value)]),
    "views": lambda value: {"w": full(value)}.values(),
    "module": torch_module,
    "half module": lambda value: torch_module(value, half=True),
    "state dict": state_dict,
    "parameters": lambda value: list(torch_module(value).parameters()),
    "generator": lambda value: torch_module(value).parameters(),
    "jax": jax_tree,
    "ArrayRecord": array_record,
    "Parameters": legacy_parameters,
}
BECOMES_A_LIST = ("deque", "views", "generator")


def floats(model):
    """Every finite floating-point number in a model, and the types of the arrays that hold them."""
    from fedhalt.measure.arrays import dense, widen
    from fedhalt.measure.rebuild import floating_arrays

    arrays = {name: dense(leaf) for name, leaf in floating_arrays(model).items()}
    wide = {name: np.asarray(widen(array) if array.dtype.kind == "V" else array) for name, array in arrays.items()}
    kept = {name: array for name, array in wide.items() if np.isfinite(array).all()}
    return {name: (set(array.ravel().tolist()), str(arrays[name].dtype), array.shape) for name, array in kept.items()}


def fed(make, values=VALUES, **settings):
    stopper = EarlyStopper(make(0.0), **settings)
    for value in values:
        stopper.update(make(value))
    return stopper


@pytest.mark.parametrize("setting, mean", [(1, 8.0), (2, 6.0), ("running:2", 6.0), (10, 3.75), ("running:10", 3.75)])
@pytest.mark.parametrize("kind", KINDS)
def test_every_structure_comes_back_filled_with_the_mean(kind, setting, mean):
    make = KINDS[kind]
    stopper, last = fed(make, average=setting), make(VALUES[-1])
    last = list(last) if kind == "generator" else last
    for which, value in (("average", mean), ("last", VALUES[-1])):
        shipped = stopper.model(which)
        assert type(shipped) is (list if kind in BECOMES_A_LIST else type(last))
        expected = {name: ({value} if numbers else set(), *rest) for name, (numbers, *rest) in floats(last).items()}
        assert floats(shipped) == expected


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "generator"])
def test_after_a_load_it_is_a_mapping_or_like_what_it_is_given(kind, tmp_path):
    make = KINDS[kind]
    fed(make, average=2).save(tmp_path)
    loaded = EarlyStopper.load(tmp_path)
    assert {number for numbers, _, _ in floats(loaded.model()).values() for number in numbers} == {6.0}
    shipped = loaded.model("average", like=make(1.0))
    assert floats(shipped) == floats(fed(make, average=2).model())
    with pytest.raises(FedhaltError, match="there is no last model"):
        loaded.model("last")
    loaded.update(make(16.0))
    assert {number for numbers, _, _ in floats(loaded.model()).values() for number in numbers} == {12.0}


def test_types_that_people_rely_on():
    torch = pytest.importorskip("torch")
    parameters = fed(lambda value: list(torch_module(value).parameters()), average=2).model()
    assert all(isinstance(one, torch.nn.Parameter) for one in parameters)
    net = fed(torch_module, average=2).model()
    assert net[2].weight is net[0].weight and net.steps == 8 and bool((net.mask == -torch.inf).all())
    made = fed(KINDS["default"], average=2).model()
    assert made["new"] == [] and isinstance(made, defaultdict)
    scalars = fed(KINDS["scalars"], average=2).model()
    assert type(scalars["python"]) is float and type(scalars["numpy"]) is np.float32


def test_what_was_given_is_neither_changed_nor_shared():
    model = {"w": full(1.0)}
    stopper = EarlyStopper(model, average=3)
    stopper.update(model)
    shipped = stopper.model()
    shipped["w"][:] = 99
    assert (model["w"] == 1).all() and (stopper.model()["w"] == 1).all()
    model["w"][:] = 5  # trained further in place
    stopper.update(model)
    assert (stopper.model()["w"] == 3).all()


@pytest.mark.parametrize("setting", [3, "running:3"])
@pytest.mark.parametrize("bad", [0, 1, 2, 3])
def test_a_round_that_is_not_finite_is_left_out_wherever_it_is(setting, bad):
    values = [1.0, 2.0, 3.0]
    values.insert(bad, np.nan)
    stopper = fed(lambda value: {"w": full(value)}, values, average=setting, check_finite=False)
    assert floats(stopper.model())["w"][0] == {2.0}
    assert floats(stopper.model()) and stopper.round == 4


@pytest.mark.parametrize("setting", [3, "running:3"])
def test_an_array_that_is_not_watched_may_spoil_a_round_too(setting):
    stopper = EarlyStopper({"w": full(0), "aside": full(0)}, exclude="aside", average=setting)
    for value, aside in ((1, 1), (2, np.inf), (3, 3)):
        stopper.update({"w": full(value), "aside": full(aside)})
    assert {name: numbers for name, (numbers, *_) in floats(stopper.model()).items()} == {"w": {2.0}, "aside": {2.0}}


def test_before_the_first_update():
    stopper = EarlyStopper({"w": full(7)}, average=3)
    with pytest.raises(FedhaltError, match=r"no average before the first finite round; model\('last'\)"):
        stopper.model()
    assert floats(stopper.model("last"))["w"][0] == {7.0}
    with pytest.raises(FedhaltError, match="there is no last model: update\\(\\) was given none"):
        EarlyStopper().model("last")
    stopper = EarlyStopper({"w": full(0)}, average=3, check_finite=False)
    stopper.update({"w": full(np.nan)})
    with pytest.raises(FedhaltError, match="before the first finite round"):
        stopper.model()


@pytest.mark.parametrize("setting", [3, "running:3"])
def test_arrays_that_come_go_or_change_their_shape_are_named(setting):
    stopper = EarlyStopper({"w": full(0), "aside": full(0)}, exclude="aside", average=setting)
    stopper.update({"w": full(1), "aside": full(1)})
    with pytest.raises(FedhaltError, match=r"'aside' is averaged, had shape \(2, 3\) .* and is missing now"):
        stopper.update({"w": full(2)})
    with pytest.raises(FedhaltError, match=r"'aside' is averaged, had shape \(2, 3\) .* and has \(2,\) now"):
        stopper.update({"w": full(2), "aside": np.zeros(2)})
    assert stopper.round == 1
    stopper.update({"w": full(3), "aside": full(3)})
    assert floats(stopper.model())["aside"][0] == {2.0}


def test_a_like_that_does_not_fit_is_named():
    stopper = fed(lambda value: {"w": full(value)}, average=2)
    with pytest.raises(FedhaltError, match="like= has no 'w', which is in the model to ship"):
        stopper.model(like=[full(0)])
    with pytest.raises(FedhaltError, match=r"like= has 'w' of shape \(3,\), not \(2, 3\)"):
        stopper.model(like={"w": np.zeros(3)})
    with pytest.raises(FedhaltError, match="like= has 'b', which is not in the model to ship"):
        stopper.model(like={"w": full(0), "b": full(0)})
    net = fed(torch_module, average=2)
    with pytest.raises(FedhaltError, match=r"like= has '2.weight', which is not"):  # tied: one of the two is averaged
        net.model(like=state_dict(1.0))


@pytest.mark.parametrize("given, kept", [(10, 10), ("10", 10), ("running:010", "running:10"), (np.int64(3), 3)])
def test_one_setting_has_one_spelling(given, kept, tmp_path):
    stopper = fed(full, average=given)
    assert stopper.average == kept and type(stopper.average) is type(kept)
    stopper.save(tmp_path)
    assert EarlyStopper.load(tmp_path).average == kept


def test_a_full_disk_is_an_error_and_the_round_did_not_take_place(monkeypatch):
    monkeypatch.setattr(average, "RAM_LIMIT", 1000)
    big = lambda value: np.full(50_000, value, "f4")  # noqa: E731
    stopper = fed(big, (1.0, 2.0), average=3)
    assert isinstance(stopper._tail.average.last["array"], np.memmap)

    class Full:
        def __enter__(self):
            raise OSError(errno.ENOSPC, "No space left on device")

        def __exit__(self, *error):
            pass

    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "TemporaryFile", Full)
        with pytest.raises(FedhaltError, match=r"No space left on device.*TMPDIR.*average='running:3'"):
            stopper.update(big(9.0))
    assert stopper.round == 2
    stopper.update(big(3.0))
    assert floats(stopper.model())["array"][0] == {2.0}
