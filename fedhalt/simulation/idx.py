"""IDX files, the format of MNIST and its successors: a magic number, the sizes, then bytes; gzipped."""

from __future__ import annotations

import gzip
import math
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .. import files
from ..errors import FedhaltError

BYTES = 8
"""The format's code for unsigned bytes, the only kind of number that images and labels have."""
LARGEST = 2**28
"""The largest size of the unpacked numbers; those of Fashion-MNIST have a fifth of that."""


def read(path: Path, dimensions: int) -> NDArray[np.uint8]:
    """The array in the file, of so many dimensions. Nothing is unpacked beyond what its header announces."""
    if not path.exists():
        raise FedhaltError(f"{path}: no such data file")
    files.require_regular(path)
    try:
        with gzip.open(path) as file:
            return _array(file, dimensions)
    except FedhaltError as error:
        raise FedhaltError(f"{path}: {error}") from None
    except EOFError:
        raise FedhaltError(f"{path} is cut off: its gzip stream has no end") from None
    except (OSError, zlib.error) as error:
        raise FedhaltError(f"{path} cannot be unpacked: {error}") from None


def _array(file: gzip.GzipFile, dimensions: int) -> NDArray[np.uint8]:
    header = file.read(4 + 4 * dimensions)
    expected = bytes([0, 0, BYTES, dimensions])
    if header[:4] != expected or len(header) != 4 + 4 * dimensions:
        raise FedhaltError(
            f"not an IDX file of bytes in {dimensions} dimensions: it begins with {header[:4].hex() or 'nothing'}, "
            f"not with {expected.hex()}"
        )
    shape = tuple(int(size) for size in np.frombuffer(header, ">u4", offset=4))
    size = math.prod(shape)
    if size > LARGEST:
        raise FedhaltError(f"its header announces {size:,} bytes, more than the limit of {LARGEST:,}")
    content = file.read(size + 1)
    if len(content) != size:
        held = f"{len(content):,}" if len(content) < size else "more"
        raise FedhaltError(f"its header announces {size:,} bytes {shape}, but it holds {held}")
    return np.frombuffer(content, np.uint8).reshape(shape).copy()
