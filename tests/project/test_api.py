"""docs/api.md is the one list of public paths: it names everything that a room exports, and nothing else."""

import importlib
import inspect
import re
import typing

import pytest
from helpers.places import ROOT

import fedhalt

PUBLIC = {
    "fedhalt": "numpy",
    "fedhalt.rules": "numpy",
    "fedhalt.rules.motion": "numpy",
    "fedhalt.measure": "numpy",
    "fedhalt.records": "numpy",
    "fedhalt.views": "numpy",
    "fedhalt.stopbench": "numpy",
    "fedhalt.methods": "torch",
    "fedhalt.simulation": "torch",
    "fedhalt.simulation.partition": "torch",
    "fedhalt.simulation.toy": "torch",
    "fedhalt.tuning": "torch",
    "fedhalt.integrations.fedbiomed": "fedbiomed",
    "fedhalt.integrations.flower": "flwr",
    "fedhalt.integrations.flower.testing": "flwr",
    "fedhalt.integrations.keras": "keras",
    "fedhalt.integrations.lightning": "lightning",
    "fedhalt.integrations.nvflare": "nvflare",
    "fedhalt.integrations.openfl": "openfl",
    "fedhalt.integrations.optuna": "optuna",
    "fedhalt.integrations.pfl": "pfl",
    "fedhalt.integrations.ray": "ray",
    "fedhalt.integrations.seam": "numpy",
    "fedhalt.integrations.torch": "torch",
    "fedhalt.integrations.trackers": "numpy",
    "fedhalt.integrations.transformers": "transformers",
}
"""Every module that people may import from, and the package that it needs."""

DOCUMENTED = re.findall(r"^::: (\S+)$", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.M)


MOVED = re.findall(r"^\| `fedhalt\S+` \| `(\S+)` \|$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)


@pytest.fixture(params=PUBLIC)
def room(request):
    pytest.importorskip(PUBLIC[request.param])
    if "flower" in request.param:
        pytest.importorskip("torch")
    return importlib.import_module(request.param)


def test_every_public_name_is_documented_once_under_its_shortest_path(room):
    assert len(room.__all__) == len(set(room.__all__))
    for name in room.__all__:
        shorter = room is not fedhalt and name in fedhalt.__all__
        assert not shorter or getattr(fedhalt, name) is getattr(room, name)
        whole = room.__name__ in DOCUMENTED
        assert hasattr(room, name) and DOCUMENTED.count(f"{room.__name__}.{name}") == (not shorter and not whole), name


@pytest.mark.parametrize("path", DOCUMENTED)
def test_every_documented_path_is_public(path):
    room, _, name = path.rpartition(".")
    if path not in PUBLIC:
        pytest.importorskip(PUBLIC[room])
        assert name in importlib.import_module(room).__all__


def test_what_moved_went_to_public_paths():
    assert MOVED and set(MOVED) <= set(DOCUMENTED)


@pytest.mark.parametrize("path", DOCUMENTED)
def test_every_public_name_explains_its_arguments_and_shows_an_example(path):
    """The examples run as doctests."""
    room, _, name = path.rpartition(".")
    pytest.importorskip(PUBLIC[path if path in PUBLIC else room])
    if "flower" in path:
        pytest.importorskip("torch")
    names = importlib.import_module(path).__all__ if path in PUBLIC else [name]
    module = importlib.import_module(path if path in PUBLIC else room)
    for value in (getattr(module, each) for each in names):
        if inspect.isclass(value) or inspect.isfunction(value):
            text = inspect.getdoc(value) or ""
            assert ">>> " in section(text, "Examples"), f"{path} has no example"
            explained = re.findall(r"^    \**(\w+): ", section(text, "Args") + section(text, "Attributes"), re.M)
            assert set(parameters(value)) <= set(explained), f"{path}: {set(parameters(value)) - set(explained)}"
            if inspect.isfunction(value) and inspect.signature(value).return_annotation != "None":
                assert section(text, "Returns") or section(text, "Yields"), path


def parameters(value):
    """The arguments of a call."""
    if inspect.isclass(value) and (getattr(value, "_is_protocol", False) or value.__init__ is ValueError.__init__):
        return []
    if typing.is_typeddict(value):
        return list(value.__annotations__)
    return [name for name in inspect.signature(value).parameters if name != "self"]


def section(text, title):
    """The lines of one section of a docstring."""
    found = re.search(rf"^{title}:\n((?:    .*\n|\n)*)", f"{text}\n", re.M)
    return found[1] if found else ""
