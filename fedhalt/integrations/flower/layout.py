"""A model's arrays as two flat vectors, of its parameters and of its running statistics, and back."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import numpy as np
import torch
from flwr.app import Array, ArrayRecord
from torch import Tensor

from ...errors import FedhaltError
from ...measure.arrays import Array as NumpyArray
from ...measure.arrays import is_floating_type
from ...methods.convert import to_tensor


class Layout:
    """Which of a model's arrays are parameters (`trained`), which are floating-point but none (`statistics`)."""

    def __init__(self, arrays: ArrayRecord, untrained: Sequence[str]) -> None:
        floats = [name for name, array in arrays.items() if is_floating_type(array.dtype)]
        self.statistics = [name for name in floats if any(fnmatchcase(name, pattern) for pattern in untrained)]
        self.trained = [name for name in floats if name not in self.statistics]
        if not self.trained:
            raise FedhaltError(f"no parameters to train: every array is an integer or matches {tuple(untrained)}")
        self._arrays = arrays

    def parameters(self) -> Tensor:
        return self._flat(self.trained)

    def running_statistics(self) -> Tensor:
        return self._flat(self.statistics) if self.statistics else torch.zeros(0)

    def publish(self, parameters: Tensor, statistics: Tensor | None) -> ArrayRecord:
        """The model with new parameters and, if they were averaged, new statistics; the rest is as it was."""
        new = self._shaped(self.trained, parameters)
        if statistics is not None:
            new |= self._shaped(self.statistics, statistics)
        return ArrayRecord({name: Array(new.get(name, old.numpy())) for name, old in self._arrays.items()})

    def _flat(self, names: list[str]) -> Tensor:
        return torch.cat([to_tensor(self._arrays[name]).reshape(-1) for name in names])

    def _shaped(self, names: list[str], vector: Tensor) -> dict[str, NumpyArray]:
        """A flat vector under the names, shapes and types of the model's arrays."""
        olds = [self._arrays[name] for name in names]
        pieces = vector.split([int(np.prod(old.shape)) for old in olds])
        return {
            name: piece.reshape(tuple(old.shape)).numpy().astype(old.dtype)
            for name, old, piece in zip(names, olds, pieces, strict=True)
        }
