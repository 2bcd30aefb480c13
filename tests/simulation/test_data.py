"""Data sets in every form they come in, on files of the real format; the real images where they are at hand."""

import os

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("medmnist")

from helpers.images import write_npz
from helpers.places import DATA

from fedhalt import FedhaltError
from fedhalt.simulation import datasets
from fedhalt.simulation.federation import Federation, shares
from fedhalt.simulation.spec import RunSpec


@pytest.mark.parametrize("name, file, size", [
    ("path", "pathmnist.npz", 28), ("path", "pathmnist_64.npz", 64), ("bloodmnist", "bloodmnist_128.npz", 128),
    ("organamnist", "organamnist.npz", 28),
])  # fmt: skip
def test_medmnist_by_name_and_size(tmp_path, name, file, size):
    write_npz(tmp_path / file, size=size, colour="organ" not in name)
    data = datasets.load(name, size, tmp_path)
    channels = 1 if "organ" in name else 3
    assert data.train.images.shape == (12, channels, size, size) and data.train.images.dtype == torch.uint8
    assert (len(data.train), len(data.val), len(data.test), data.classes) == (12, 4, 6, 9)


def test_the_folder_may_come_from_the_environment(tmp_path, monkeypatch):
    write_npz(tmp_path / "dermamnist.npz")
    monkeypatch.setenv("FEDHALT_DATA", str(tmp_path))
    assert len(datasets.load("derma").train) == 12


def test_pixels_are_where_they_were(tmp_path):
    path = write_npz(tmp_path / "x.npz")
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
    path = write_npz(tmp_path / "x.npz", train_patient=patients, train_note=np.array(3))
    spec = RunSpec(data=str(path), skew="natural", key="patient", clients=3, cohort=2)
    assert [sum(row) for row in shares(spec)] == [3, 6, 3]
    with pytest.raises(FedhaltError, match=r"patient, not 'doctor'"):
        shares(RunSpec(data=str(path), skew="natural", key="doctor", clients=3, cohort=2))


@pytest.mark.parametrize("build, words", [
    (lambda path: path.write_bytes(b""), ["x.npz"]),
    (lambda path: path.write_bytes(b"PK\x03\x04" + bytes(50)), ["x.npz"]),
    (lambda path: np.savez(path, train_images=np.zeros(3)), ["train_labels"]),
    (lambda path: np.savez(path, **{f"{s}_{k}": np.zeros((3, 3)) for s in ("train", "val", "test")
                                    for k in ("images", "labels")}), ["bytes of shape"]),
    (lambda path: write_npz(path, val_images=np.zeros((4, 28, 28))), ["bytes of shape"]),
    (lambda path: np.savez(path, train_images=np.array([None])), ["x.npz"]),
    (lambda path: None, ["no such data file"]),
    (lambda path: write_npz(path, train_labels=np.full((12, 1), -1)), ["train", "whole number from 0"]),
    (lambda path: write_npz(path, val_labels=np.full((4, 1), "a")), ["val", "whole number from 0"]),
    (lambda path: write_npz(path, test_labels=np.full((6, 2), 1)), ["test", "one label each"]),
    (lambda path: write_npz(path, val_labels=np.full((4, 1), 10**13)), ["val", "10000000000000", "65,536 classes"]),
    (lambda path: write_npz(path, val_labels=np.full(4, 2**64 - 1, np.uint64)), ["val", "65,536 classes"]),
    (lambda path: write_npz(path, size=0), ["train needs images"]),
    (lambda path: write_npz(path, train_images=np.zeros((12, 28, 28, 0), np.uint8)), ["train needs images"]),
    (lambda path: write_npz(path, train_images=np.zeros((12, 28, 28), np.uint8)), ["train has 1 ", "test has 3 "]),
    (lambda path: write_npz(path, val_images=np.zeros((4, 9, 9, 3), np.uint8)), ["val has 3 channels of 9 x 9"]),
    (lambda path: write_npz(path, train_labels=np.zeros(0, np.uint8)), ["train", "one label each"]),
    (lambda path: write_npz(path, train_images=np.uint8(3)), ["bytes of shape"]),
])  # fmt: skip
def test_damaged_files_are_named(tmp_path, build, words):
    build(tmp_path / "x.npz")
    with pytest.raises(FedhaltError) as error:
        datasets.load(str(tmp_path / "x.npz"))
    assert all(word in str(error.value) for word in words), str(error.value)


def test_images_too_small_for_the_network_are_refused_in_one_sentence(tmp_path):
    path = write_npz(tmp_path / "x.npz", size=1)
    spec = RunSpec(data=str(path), clients=2, cohort=1)
    with pytest.raises(FedhaltError, match=r"at least 4 x 4 pixels, but the images have 1 x 1: add --resize 4"):
        Federation(spec).theta0()
    assert Federation(RunSpec(data=str(path), clients=2, cohort=1, resize=4)).theta0().isfinite().all()


@pytest.mark.parametrize("name, content, words", [
    ("a.png", b"\x89PNG\r\n\x1a\n" + bytes(60), "cannot be read as an image"),
    ("a.gif", b"GIF89a" + b"\xff" * 7, "cannot be read as an image"),
    ("a.png", None, "is a pipe, not a file"),
    ("a.txt", b"", "holds no images"),
    ("a.bmp", "tiny", "has 1 images"),
])  # fmt: skip
def test_damaged_image_folders_are_named(tmp_path, name, content, words):
    from PIL import Image

    file = tmp_path / "images" / "cat" / name
    file.parent.mkdir(parents=True)
    if content is None:
        os.mkfifo(file)
    elif content == "tiny":
        Image.new("L", (1, 1)).save(file)
    else:
        file.write_bytes(content)
    with pytest.raises(FedhaltError, match=words):
        datasets.load(str(tmp_path / "images"))


def test_an_image_that_unfolds_to_gigabytes_is_refused(tmp_path, monkeypatch):
    from PIL import Image

    (tmp_path / "cat").mkdir()
    Image.new("L", (300, 300)).save(tmp_path / "cat" / "a.png")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 300 * 100)
    with pytest.raises(FedhaltError, match="decompression bomb"):
        datasets.load(str(tmp_path))


def test_an_absent_set_says_where_to_put_it(tmp_path):
    with pytest.raises(FedhaltError, match=r"tissuemnist\.npz is not in .*FEDHALT_DATA"):
        datasets.load("tissuemnist", 28, tmp_path)
    with pytest.raises(FedhaltError, match="28, 64, 128, 224"):
        datasets.load("blood", 32, tmp_path)


@pytest.mark.parametrize("name, counts", [("blood", (11959, 1712, 3421)), ("derma", (7007, 1003, 2005))])
def test_the_real_images(name, counts):
    if not (DATA / f"{name}mnist.npz").exists():
        pytest.skip(f"no real images in {DATA}: set FEDHALT_DATA")
    data = datasets.load(name, 28, DATA)
    assert (len(data.train), len(data.val), len(data.test)) == counts
    federation = Federation(RunSpec(data=name, cohort=3, batch=64, epochs=1, lr=0.01), data_root=str(DATA))
    assert sum(len(part) for part in federation.parts) == counts[0]
    scores = federation.evaluate(federation.theta0(), {})
    assert scores["test_loss"] == pytest.approx(np.log(data.classes), abs=0.5)
