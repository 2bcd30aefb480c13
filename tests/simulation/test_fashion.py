"""Fashion-MNIST's files: read to the pixel, and refused with a sentence when they are damaged."""

import gzip

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from helpers.images import idx, write_fashion

from fedhalt import FedhaltError
from fedhalt.simulation import datasets
from fedhalt.simulation.idx import LARGEST
from fedhalt.simulation.spec import RunSpec

IMAGES, LABELS = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"


def test_every_image_is_there_once_and_keeps_its_label(tmp_path):
    folder = write_fashion(tmp_path)
    data = datasets.load("fashion", root=tmp_path)
    assert (len(data.train), len(data.val), len(data.test), data.classes) == (10, 2, 6, 3)
    assert data.train.images.shape == (10, 1, 4, 4) and data.train.images.dtype == torch.uint8
    raw = np.frombuffer(gzip.decompress((folder / IMAGES).read_bytes())[16:], np.uint8).reshape(12, 4, 4)
    found = torch.cat([data.train.images, data.val.images])[:, 0].numpy()
    places = [int(np.flatnonzero((raw == image).all(axis=(1, 2)))[0]) for image in found]
    assert sorted(places) == list(range(12))
    assert torch.cat([data.train.labels, data.val.labels]).tolist() == [place % 3 for place in places]
    test = np.frombuffer(gzip.decompress((folder / "t10k-images-idx3-ubyte.gz").read_bytes())[16:], np.uint8)
    assert np.array_equal(data.test.images.numpy().reshape(-1), test)
    again = datasets.load("fashion", root=tmp_path)
    assert torch.equal(data.val.images, again.val.images)


def test_the_folder_may_come_from_the_environment(tmp_path, monkeypatch):
    write_fashion(tmp_path)
    monkeypatch.setenv("FEDHALT_DATA", str(tmp_path))
    assert len(datasets.load("fashion").test) == 6
    assert RunSpec(data="fashion").data == "fashion"


def test_without_the_package_the_sentence_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "FASHION", tmp_path / "nowhere" / "fashion-mnist")
    with pytest.raises(FedhaltError, match=r"is not in .*nowhere.*dataset-fashion-mnist.*--data-root or FEDHALT_DATA"):
        datasets.load("fashion", root=tmp_path)


def raw(header, content=b""):
    return gzip.compress(bytes.fromhex(header) + content, mtime=0)  # a parameter of tests must not change by the second


@pytest.mark.parametrize("name, content, words", [
    (IMAGES, b"", ["IDX file", "nothing"]),
    (IMAGES, b"not gzip at all", ["cannot be unpacked", "gzip"]),
    (IMAGES, raw("00000d03 0000000c 00000004 00000004", bytes(192)), ["IDX file", "00000d03", "00000803"]),
    (IMAGES, idx(np.arange(12) % 3), ["3 dimensions", "00000801", "00000803"]),
    (LABELS, idx(np.zeros((12, 4, 4))), ["1 dimensions", "00000803", "00000801"]),
    (IMAGES, raw("00000803 0000000c"), ["IDX file"]),
    (IMAGES, raw("00000803 0000000c 00000004 00000004", bytes(191)), ["192 bytes", "holds 191"]),
    (IMAGES, raw("00000803 0000000c 00000004 00000004", bytes(193)), ["192 bytes", "holds more"]),
    (IMAGES, raw("00000803 ffffffff ffffffff ffffffff"), ["announces", f"{LARGEST:,}"]),
    (IMAGES, raw("00000803 00000000 00000004 00000004"), ["train", "one label each"]),
    (IMAGES, idx(np.zeros((12, 5, 4))), ["train has 1 channels of 5 x 4", "t10k has 1 channels of 4 x 4"]),
    (LABELS, idx(np.zeros(11)), ["train", "one label each"]),
])  # fmt: skip
def test_damaged_files_are_named(tmp_path, name, content, words):
    folder = write_fashion(tmp_path)
    (folder / name).write_bytes(content)
    with pytest.raises(FedhaltError) as error:
        datasets.load("fashion", root=tmp_path)
    assert all(word in str(error.value) for word in [str(folder), *words]), str(error.value)


@pytest.mark.parametrize("left", [5, 30, -9, -4, -1])
def test_a_file_that_is_cut_off_is_named(tmp_path, left):
    path = write_fashion(tmp_path) / IMAGES
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(FedhaltError, match=f"{IMAGES} is cut off"):
        datasets.load("fashion", root=tmp_path)


def test_a_bit_that_flipped_is_noticed(tmp_path):
    path = write_fashion(tmp_path) / IMAGES
    content = bytearray(path.read_bytes())
    content[-6] ^= 1  # in the checksum
    path.write_bytes(content)
    with pytest.raises(FedhaltError, match=f"{IMAGES} cannot be unpacked: CRC"):
        datasets.load("fashion", root=tmp_path)


def test_a_small_file_that_unfolds_to_far_more_is_not_unpacked(tmp_path):
    """64 MB of zeros behind a header that announces 192 bytes: one byte too many is enough to refuse it."""
    import tracemalloc

    path = write_fashion(tmp_path) / IMAGES
    path.write_bytes(raw("00000803 0000000c 00000004 00000004", bytes(2**26)))
    tracemalloc.start()
    with pytest.raises(FedhaltError, match="holds more"):
        datasets.load("fashion", root=tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22


def test_a_missing_file_and_a_pipe_are_named(tmp_path):
    import os

    path = write_fashion(tmp_path) / LABELS
    path.unlink()
    with pytest.raises(FedhaltError, match=f"{LABELS}: no such data file"):
        datasets.load("fashion", root=tmp_path)
    os.mkfifo(path)
    with pytest.raises(FedhaltError, match="is a pipe, not a file"):
        datasets.load("fashion", root=tmp_path)


def test_the_real_images():
    if not datasets.FASHION.is_dir():
        pytest.skip("no Fashion-MNIST: apt-get install dataset-fashion-mnist")
    data = datasets.fashion(None)
    assert (len(data.train), len(data.val), len(data.test), data.classes) == (50_000, 10_000, 10_000, 10)
    assert data.test.labels.bincount().tolist() == [1000] * 10
