"""A linear head by its formula: the gradient of cross-entropy is softmax minus one-hot, and needs no autograd."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..methods.vector import Gradient
from .model import Model

TINY = 1e-37
"""The least probability that counts: those below are flushed to zero."""


class Head(Model):
    """A probe's head. Scores lie class by class (classes x samples): so the products and the softmax take less than
    half of their time."""

    def __init__(self, module: nn.Linear, device: str = "cpu") -> None:
        super().__init__(module, device=device)
        self._weight, self._bias = self._parts(self._flat)
        self._weight_gradient, self._bias_gradient = self._parts(self._gradient)

    def batch(self, images: Tensor, labels: Tensor) -> Gradient:
        """The gradient of the mean cross-entropy of these features, as a function of w."""
        share, columns = 1 / len(labels), images.t()
        expected = self._flat.new_zeros(len(self._bias), len(labels)).scatter_(0, labels[None], -share)

        def gradient(w: Tensor) -> Tensor:
            self._flat.copy_(w)
            probable = torch.addmm(self._bias, self._weight, columns).softmax(0)
            self._last = probable, labels
            wrong = torch.add(expected, probable, alpha=share)
            torch.mm(wrong, images, out=self._weight_gradient)
            torch.sum(wrong, 1, keepdim=True, out=self._bias_gradient)
            return self._gradient.clone()

        return gradient

    def gradient(self, w: Tensor, images: Tensor, labels: Tensor) -> Tensor:
        return self.batch(images, labels)(w)

    def loss(self) -> Tensor:
        probable, labels = self._last
        return -probable.gather(0, labels[None]).clamp_min(TINY).log().mean()

    def predict(self, images: Tensor) -> Tensor:
        """The logits at the parameters last set by `load`."""
        return torch.addmm(self._bias, self._weight, images.t()).t().contiguous()

    def _parts(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Weights and biases in a vector, as views."""
        weight, bias = flat.split(self.sizes)
        return weight.view(self.shapes[0]), bias[:, None]
