"""Image files in the formats that people have."""

import gzip

import numpy as np


def write_npz(path, counts=(12, 4, 6), size=28, classes=9, colour=True, **more):
    """A file in MedMNIST's format; the path."""
    draw = np.random.default_rng(0)
    content = {}
    for split, n in zip(("train", "val", "test"), counts, strict=True):
        shape = (n, size, size, 3) if colour else (n, size, size)
        content[f"{split}_images"] = draw.integers(0, 256, shape, dtype=np.uint8)
        content[f"{split}_labels"] = (np.arange(n) % classes).reshape(-1, 1).astype(np.uint8)
    np.savez(path, **{**content, **more})
    return path


def idx(array):
    """An array of bytes as a gzipped IDX file."""
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    return gzip.compress(header + array.astype(np.uint8).tobytes(), mtime=0)


def write_fashion(root, counts=(12, 6), size=4, classes=3):
    """The four files of Fashion-MNIST's format in a folder fashion-mnist, which is returned."""
    folder, draw = root / "fashion-mnist", np.random.default_rng(0)
    folder.mkdir()
    for name, n in zip(("train", "t10k"), counts, strict=True):
        (folder / f"{name}-images-idx3-ubyte.gz").write_bytes(idx(draw.integers(0, 256, (n, size, size))))
        (folder / f"{name}-labels-idx1-ubyte.gz").write_bytes(idx(np.arange(n) % classes))
    return folder
