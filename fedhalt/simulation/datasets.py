"""Images and labels, resident in memory as bytes; normalized once, by `model.normalised`."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .. import files
from ..errors import FedhaltError, MissingExtra, about, require_one_of
from . import idx
from .seeds import rng

SHORT = {"blood": "bloodmnist", "derma": "dermamnist", "path": "pathmnist"}
SIZES = (28, 64, 128, 224)
SPLITS = ("train", "val", "test")
MOST_CLASSES = 2**16
"""A larger label is a mistake: a head for so many classes would fill the memory."""
FEWEST = 4
"""Images that can be split 60 / 20 / 20 with none of the parts empty."""
FASHION = Path("/usr/share/datasets/fashion-mnist")
"""Where Debian's package dataset-fashion-mnist puts its four files."""
PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")


@dataclass(frozen=True)
class Split:
    """One split: images as bytes (n, channels, height, width) or features as floats (n, d), and their labels."""

    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Data:
    """A data set with its three splits; `keys` holds natural groupings of the training samples, if any."""

    name: str
    classes: int
    train: Split
    val: Split
    test: Split
    keys: dict[str, NDArray[Any]] = field(default_factory=dict)

    def digest(self) -> str:
        """A name for the content, for caches: images and labels of all splits."""
        mark = hashlib.blake2b(digest_size=16)
        for split in (self.train, self.val, self.test):
            mark.update(f"{tuple(split.images.shape)} {split.images.dtype}".encode())
            mark.update(split.images.contiguous().numpy().tobytes())
            mark.update(split.labels.numpy().tobytes())
        return mark.hexdigest()


def load(name: str, size: int = 28, root: str | os.PathLike[str] | None = None) -> Data:
    """`digits`, `fashion`, a MedMNIST set (`blood`, `derma`, `path`, `bloodmnist`, …), an `.npz` file in its format, or
    a folder of images (`class/image`, or `train/class/image` with `val` and `test` beside it)."""
    root = root or os.environ.get("FEDHALT_DATA")
    if name == "digits":
        return digits()
    if name == "fashion":
        return fashion(root)
    path = Path(name)
    if path.suffix == ".npz":
        return from_npz(path)
    medmnist = _medmnist()
    flags = [flag for flag, info in medmnist.INFO.items() if info["task"] == "multi-class" and "3d" not in flag]
    if name not in SHORT and name not in flags:
        if path.is_dir():
            return from_folder(path, size)
        require_one_of("data set", name, ["digits", "fashion", *SHORT, *flags])
    return from_medmnist(SHORT.get(name, name), size, root)


def digits() -> Data:
    """scikit-learn's 1,797 handwritten digits of 8 x 8 pixels, split 60 / 20 / 20 once and for all."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise MissingExtra("the data set 'digits'", "scikit-learn", "sim") from None
    images, labels = load_digits(return_X_y=True)
    pixels = np.round(images.reshape(-1, 1, 8, 8) * (255 / 16)).astype(np.uint8)
    return _shared_out("digits", 10, pixels, labels.astype(np.int64))


def fashion(root: str | os.PathLike[str] | None) -> Data:
    """Fashion-MNIST (Xiao, Rasul and Vollgraf 2017): 28 x 28 gray pixels, 10 classes; a sixth of the training images is
    held back to validate, once and for all."""
    ours = None if root is None else Path(root) / FASHION.name
    folder = ours if ours is not None and ours.is_dir() else FASHION
    if not folder.is_dir():
        raise FedhaltError(
            f"Fashion-MNIST is not in {folder}: install Debian's package dataset-fashion-mnist, or put its four files "
            f"into a folder {FASHION.name} in the one that --data-root or FEDHALT_DATA names"
        )
    parts = {
        name: [
            idx.read(folder / f"{name}-{kind}.gz", dimensions)
            for kind, dimensions in (("images-idx3-ubyte", 3), ("labels-idx1-ubyte", 1))
        ]
        for name in ("train", "t10k")
    }
    with about(folder):
        (images, labels), test = (_checked(name, *arrays) for name, arrays in parts.items())
        _same_shape({"train": images, "t10k": test[0]})
        if len(labels) < 2:
            raise FedhaltError("one training image cannot be divided into some to train on and some to validate")
    order = rng(0, "split", "fashion").permutation(len(labels))
    val, train = np.split(order, [max(1, len(order) // 6)])
    classes = 1 + max(int(labels.max()), int(test[1].max()))
    return Data(
        "fashion", classes, _split(images[train], labels[train]), _split(images[val], labels[val]), _split(*test)
    )


def from_medmnist(flag: str, size: int, root: str | os.PathLike[str] | None) -> Data:
    """A 2-D multi-class set of MedMNIST, from a local file or, where there is a network, downloaded."""
    medmnist = _medmnist()
    if size not in SIZES:
        raise FedhaltError(f"size must be one of {', '.join(map(str, SIZES))}, not {size!r}")
    folder = Path(root) if root is not None else Path.home() / ".medmnist"
    path = folder / (f"{flag}.npz" if size == 28 else f"{flag}_{size}.npz")
    if not path.exists():
        try:
            if root is None:
                folder.mkdir(parents=True, exist_ok=True)
            getattr(medmnist, medmnist.INFO[flag]["python_class"])("train", root=str(folder), size=size, download=True)
        except Exception as error:  # no network, no permission, a broken download: one answer for the user
            raise FedhaltError(
                f"{path.name} is not in {folder} and could not be downloaded ({type(error).__name__}); "
                f"put the file there or name its folder with --data-root or FEDHALT_DATA"
            ) from None
    return from_npz(path, flag)


def from_npz(path: Path, name: str | None = None) -> Data:
    """A file in MedMNIST's format: `train_images`, `train_labels`, `val_…`, `test_…`; any `train_KEY` is a key."""
    if not path.exists():
        raise FedhaltError(f"{path}: no such data file")
    try:
        with open(path, "rb") as file:
            content = dict(np.load(file, allow_pickle=False))
        splits = {split: _checked(split, content[f"{split}_images"], content[f"{split}_labels"]) for split in SPLITS}
        _same_shape({split: images for split, (images, _) in splits.items()})
    except KeyError as error:
        raise FedhaltError(
            f"{path} lacks {error}: MedMNIST's format has images and labels of train, val and test"
        ) from None
    except FedhaltError as error:
        raise FedhaltError(f"{path}: {error}") from None
    except Exception as error:  # a damaged archive makes numpy and zipfile raise almost anything
        raise FedhaltError(f"{path} cannot be read as a data file: {_first_line(error)}") from None
    classes = 1 + max(int(labels.max()) for _, labels in splits.values())
    keys = {
        key.removeprefix("train_"): values
        for key, values in content.items()
        if key.startswith("train_")
        and key not in ("train_images", "train_labels")
        and isinstance(values, np.ndarray)
        and values.shape == splits["train"][1].shape
    }
    train, val, test = (_split(images, labels) for images, labels in splits.values())
    return Data(name or path.stem, classes, train, val, test, keys)


def _checked(split: str, images: NDArray[Any], labels: NDArray[Any]) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Images and labels of one split, if they are some."""
    pixels = _pixels(images)
    if not pixels.size or labels.size != len(pixels) or labels.dtype.kind not in "iu" or labels.min() < 0:
        raise FedhaltError(f"{split} needs images, and one label each that is a whole number from 0 on")
    if labels.max() >= MOST_CLASSES:
        raise FedhaltError(f"{split} has the label {labels.max()}: there may be {MOST_CLASSES:,} classes, from 0 on")
    return pixels, labels.reshape(-1)


def _same_shape(images: dict[str, NDArray[np.uint8]]) -> None:
    shapes = {split: "{} channels of {} x {} pixels".format(*pixels.shape[1:]) for split, pixels in images.items()}
    if len(set(shapes.values())) > 1:
        raise FedhaltError(f"images differ: {', '.join(f'{split} has {shape}' for split, shape in shapes.items())}")


def _first_line(error: Exception) -> str:
    return f"{(str(error).splitlines() or [type(error).__name__])[0]:.200}"


def from_folder(folder: Path, size: int) -> Data:
    """Images by class, resized to size x size RGB; without `train`, `val`, `test` folders split 60 / 20 / 20."""
    ready = all((folder / split).is_dir() for split in SPLITS)
    top = folder / "train" if ready else folder
    classes = sorted(entry.name for entry in top.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if not ready:
        with about(folder):
            return _shared_out(folder.name, len(classes), *_images(folder, classes, size))
    train, val, test = (_split(*_images(folder / split, classes, size)) for split in SPLITS)
    return Data(folder.name, len(classes), train, val, test)


def _images(part: Path, classes: list[str], size: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The pictures in the folders of these classes, and which of them each is in."""
    images, labels = [], []
    for index, name in enumerate(classes):
        inside = sorted((part / name).iterdir()) if (part / name).is_dir() else []
        pictures = [file for file in inside if file.suffix.lower() in PICTURES]
        images += [_picture(file, size) for file in pictures]
        labels += [index] * len(pictures)
    if not images:
        raise FedhaltError(f"{part} holds no images in class folders (class/image.png)")
    return np.stack(images).transpose(0, 3, 1, 2).copy(), np.array(labels, np.int64)


def _picture(file: Path, size: int) -> NDArray[np.uint8]:
    from PIL import Image

    files.require_regular(file)
    try:
        with Image.open(file) as image:
            return np.asarray(image.convert("RGB").resize((size, size)))
    except Exception as error:  # a damaged picture makes these parsers raise almost anything
        raise FedhaltError(f"{file} cannot be read as an image: {_first_line(error)}") from None


def resized(data: Data, size: int) -> Data:
    """The same data set with images of size x size pixels."""

    def scale(split: Split) -> Split:
        pieces = [
            torch.nn.functional.interpolate(piece.float(), (size, size), mode="bilinear", antialias=True).round().byte()
            for piece in split.images.split(1024)
        ]
        return replace(split, images=torch.cat(pieces))

    return replace(data, train=scale(data.train), val=scale(data.val), test=scale(data.test))


def _shared_out(name: str, classes: int, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> Data:
    if len(labels) < FEWEST:
        raise FedhaltError(
            f"{name} has {len(labels)} images: {FEWEST} are the fewest to train on, to validate and to test"
        )
    order = rng(0, "split", name).permutation(len(labels))
    cuts = [round(0.6 * len(order)), round(0.8 * len(order))]
    train, val, test = (_split(images[part], labels[part]) for part in np.split(order, cuts))
    return Data(name, classes, train, val, test)


def _split(images: NDArray[np.uint8], labels: NDArray[Any]) -> Split:
    return Split(torch.from_numpy(images), torch.from_numpy(labels.astype(np.int64)))


def _pixels(images: NDArray[Any]) -> NDArray[np.uint8]:
    """(n, h, w) or (n, h, w, 3) bytes as (n, channels, h, w)."""
    if images.dtype != np.uint8 or images.ndim not in (3, 4):
        raise FedhaltError(
            f"images must be bytes of shape (n, h, w) or (n, h, w, 3), not {images.dtype} {images.shape}"
        )
    return np.ascontiguousarray(images[:, None] if images.ndim == 3 else images.transpose(0, 3, 1, 2))


def _medmnist() -> Any:
    try:
        import medmnist
    except ImportError:
        raise MissingExtra("MedMNIST data", "medmnist", "sim") from None
    return medmnist
