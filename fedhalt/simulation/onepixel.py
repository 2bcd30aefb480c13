"""Convolutions that leave one pixel, as matrix products: what deep layers do on small images, without the padding.

On 32 pixels the last third of a mobile network has maps of one pixel. A kernel of 5 x 5 then meets one pixel and 24
zeros of padding, and a general convolution spends most of a step's time on them. The function is the same, its rounding
is not: `gradient="products"` in a spec asks for it.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional as F


class OnePixel(nn.Conv2d):
    """A convolution; where its output is one pixel, the product of the image with the taps that reach it."""

    def forward(self, input: Tensor) -> Tensor:
        reached = [self._taps(axis, size) for axis, size in enumerate(input.shape[2:])]
        if input.ndim != 4 or None in reached:
            return super().forward(input)
        (top, height), (left, width) = (each for each in reached if each is not None)
        image, taps = input[:, :, :height, :width], self.weight[:, :, top : top + height, left : left + width]
        if self.groups == 1:
            return F.linear(image.flatten(1), taps.flatten(1), self.bias)[:, :, None, None]
        made = image * taps[:, 0]
        made = made if made.shape[2:] == (1, 1) else made.sum((2, 3), keepdim=True)
        return made if self.bias is None else made + self.bias[:, None, None]

    def _taps(self, axis: int, size: int) -> tuple[int, int] | None:
        """The first tap that meets the image, and how many do; None if the output is larger than one pixel."""
        kernel, stride = self.kernel_size[axis], self.stride[axis]
        before = int(self.padding[axis])
        if size + 2 * before - kernel >= stride or size + 2 * before < kernel:
            return None
        return before, min(size, kernel - before)


def products(module: nn.Module) -> nn.Module:
    """The same module, whose convolutions know what to do with one pixel; names and parameters stay."""
    for layer in module.modules():
        if type(layer) is nn.Conv2d and _plain(layer):
            layer.__class__ = OnePixel
    return module


def _plain(layer: nn.Conv2d) -> bool:
    """Whether it is dense or depthwise, pads with zeros, and by less than its kernel."""
    depthwise = layer.groups == layer.in_channels == layer.out_channels
    if layer.padding_mode != "zeros" or isinstance(layer.padding, str) or layer.dilation != (1, 1):
        return False
    within = all(by < size for by, size in zip(layer.padding, layer.kernel_size, strict=True))
    return (layer.groups == 1 or depthwise) and within
