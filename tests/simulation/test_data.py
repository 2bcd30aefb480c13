"""Data sets in every form they come in, on files of the real format; the real images where they are at hand."""

import os
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("medmnist")

from fedhalt import FedhaltError, datasets  # noqa: E402
from fedhalt.spec import RunSpec  # noqa: E402
from fedhalt.task import Federation, shares  # noqa: E402

REAL = Path(os.environ.get("FEDHALT_DATA", Path(__file__).parents[2] / "shared" / "data"))


def make(path, counts=(12, 4, 6), size=28, classes=9, colour=True, **more):
    """A file in MedMNIST's format."""
    draw = np.random.default_rng(0)
    content = {}
    for split, n in zip(("train", "val", "test"), counts, strict=True):
        shape = (n, size, size, 3) if colour else (n, size, size)
        content[f"{split}_images"] = draw.integers(0, 256, shape, dtype=np.uint8)
        content[f"{split}_labels"] = (np.arange(n) % classes).reshape(-1, 1).astype(np.uint8)
    np.savez(path, **{**content, **more})
    return path


@pytest.mark.parametrize("name, file, size", [
    ("path", "pathmnist.npz", 28), ("path", "pathmnist_64.npz", 64), ("bloodmnist", "bloodmnist_128.npz", 128),
    ("organamnist", "organamnist.npz", 28),
])  # fmt: skip
def test_medmnist_by_name_and_size(tmp_path, name, file, size):
    make(tmp_path / file, size=size, colour="organ" not in name)
    data = datasets.load(name, size, tmp_path)
    channels = 1 if "organ" in name else 3
    assert data.train.images.shape == (12, channels, size, size) and data.train.images.dtype == torch.uint8
    assert (len(data.train), len(data.val), len(data.test), data.classes) == (12, 4, 6, 9)


def test_the_folder_may_come_from_the_environment(tmp_path, monkeypatch):
    make(tmp_path / "dermamnist.npz")
    monkeypatch.setenv("FEDHALT_DATA", str(tmp_path))
    assert len(datasets.load("derma").train) == 12


def test_pixels_are_where_they_were(tmp_path):
    path = make(tmp_path / "x.npz")
    original = np.load(path)["train_images"]
    assert np.array_equal(datasets.load(str(path)).train.images.permute(0, 2, 3, 1).numpy(), original)


def test_digits():
    data = datasets.load("digits")
    assert (len(data.train), len(data.val), len(data.test), data.classes) == (1078, 360, 359, 10)
    assert data.train.images.max() == 255 and torch.equal(data.train.images, datasets.load("digits").train.images)


@pytest.mark.parametrize("split", [False, True])
def test_an_image_folder(tmp_path, split):
    from PIL import Image

    for part in ("train", "val", "test") if split else ("",):
        for z, name in enumerate(("cat", "dog")):
            folder = tmp_path / part / name
            folder.mkdir(parents=True)
            for i in range(5):
                Image.new("L", (40, 30), 200 * z).save(folder / f"{i}.png")
    data = datasets.load(str(tmp_path), 28)
    assert data.classes == 2 and data.train.images.shape[1:] == (3, 28, 28)
    assert len(data.train) == (10 if split else 6)
    assert ((data.train.images[:, 0, 0, 0] > 100).long() == data.train.labels).all()


def test_natural_clients(tmp_path):
    patients = np.array(["a", "b", "b", "c"] * 3)
    path = make(tmp_path / "x.npz", train_patient=patients, train_note=np.array(3))
    spec = RunSpec(data=str(path), skew="natural", key="patient", clients=3, cohort=2)
    assert [sum(row) for row in shares(spec)] == [3, 6, 3]
    with pytest.raises(FedhaltError, match=r"'doctor'.*patient"):
        shares(RunSpec(data=str(path), skew="natural", key="doctor", clients=3, cohort=2))


@pytest.mark.parametrize("build, words", [
    (lambda path: path.write_bytes(b""), ["x.npz"]),
    (lambda path: path.write_bytes(b"PK\x03\x04" + bytes(50)), ["x.npz"]),
    (lambda path: np.savez(path, train_images=np.zeros(3)), ["train_labels"]),
    (lambda path: np.savez(path, **{f"{s}_{k}": np.zeros((3, 3)) for s in ("train", "val", "test")
                                    for k in ("images", "labels")}), ["one label each"]),
    (lambda path: make(path, val_images=np.zeros((4, 28, 28))), ["bytes of shape"]),
    (lambda path: np.savez(path, train_images=np.array([None])), ["x.npz"]),
    (lambda path: None, ["no such data file"]),
    (lambda path: make(path, train_labels=np.full((12, 1), -1)), ["train", "whole number from 0"]),
    (lambda path: make(path, val_labels=np.full((4, 1), "a")), ["val", "whole number from 0"]),
    (lambda path: make(path, test_labels=np.full((6, 2), 1)), ["test", "one label each"]),
])  # fmt: skip
def test_damaged_files_are_named(tmp_path, build, words):
    build(tmp_path / "x.npz")
    with pytest.raises(FedhaltError) as error:
        datasets.load(str(tmp_path / "x.npz"))
    assert all(word in str(error.value) for word in words), str(error.value)


def test_an_absent_set_says_where_to_put_it(tmp_path):
    with pytest.raises(FedhaltError, match=r"tissuemnist\.npz is not in .*FEDHALT_DATA"):
        datasets.load("tissuemnist", 28, tmp_path)
    with pytest.raises(FedhaltError, match="28, 64, 128, 224"):
        datasets.load("blood", 32, tmp_path)


@pytest.mark.parametrize("name, counts", [("blood", (11959, 1712, 3421)), ("derma", (7007, 1003, 2005))])
def test_the_real_images(name, counts):
    if not (REAL / f"{name}mnist.npz").exists():
        pytest.skip(f"no real images in {REAL}: set FEDHALT_DATA")
    data = datasets.load(name, 28, REAL)
    assert (len(data.train), len(data.val), len(data.test)) == counts
    federation = Federation(RunSpec(data=name, cohort=3, batch=64, epochs=1, lr=0.01), data_root=str(REAL))
    assert sum(len(part) for part in federation.parts) == counts[0]
    scores = federation.evaluate(federation.theta0(), {})
    assert scores["test_loss"] == pytest.approx(np.log(data.classes), abs=0.5)
