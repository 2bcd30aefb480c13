"""Between torch and numpy: the one place that converts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..measure.arrays import Array
from .vector import Vectors


def to_tensor(array: Any) -> Tensor:
    """A tensor with a copy of the numbers of a numpy array, or of what has `.numpy()` as Flower's arrays do."""
    return torch.from_numpy(np.array(array if isinstance(array, np.ndarray) else array.numpy()))


def to_numpy(tensor: Tensor) -> Array:
    """The numbers of a tensor, wherever it lives, without its gradient."""
    return np.asarray(tensor.detach().cpu().numpy())


def to_vectors(arrays: Mapping[str, Any]) -> Vectors:
    return {name: to_tensor(array) for name, array in arrays.items()}


def to_arrays(vectors: Mapping[str, Tensor]) -> dict[str, Array]:
    return {name: to_numpy(vector) for name, vector in vectors.items()}
