"""A torch module as one flat vector: the one place that knows modules."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.dropout import _DropoutNd

from ..errors import FedhaltError, require_one_of
from ..methods.vector import Gradient

BUFFERS = ("refuse", "average", "frozen")


def normalised(images: Tensor) -> Tensor:
    """Bytes as floats in [-1, 1], the only normalization there is; features pass as they are."""
    return images.float().div_(127.5).sub_(1) if images.dtype == torch.uint8 else images


class Mean(nn.Module):
    """The mean over an image's pixels: the same bits as torch's average pooling to one pixel, whose gradient comes in
    the plain format, so that in channels_last the layer before it takes up to ten times as long."""

    def forward(self, images: Tensor) -> Tensor:
        return images.sum((2, 3)) / (images.shape[2] * images.shape[3])


class SmallCNN(nn.Module):
    """Four convolutions with GroupNorm, about 60,000 parameters: for CPUs."""

    LEAST = 4
    """Pixels: it halves an image twice."""

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()

        def block(wide_in: int, wide_out: int) -> list[nn.Module]:
            return [nn.Conv2d(wide_in, wide_out, 3, padding=1, bias=False), nn.GroupNorm(8, wide_out), nn.ReLU()]

        pool = nn.MaxPool2d(2)
        layers = [*block(channels, 16), pool, *block(16, 32), pool, *block(32, 64), *block(64, 64)]
        self.features = nn.Sequential(*layers, Mean())
        self.head = nn.Linear(64, classes)

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.head(self.features(images))
        return logits


class Model:
    """A module whose parameters are views into one vector, with its gradient function and its predictions."""

    def __init__(
        self, module: nn.Module, buffers: str = "refuse", channels_last: bool = False, device: str = "cpu"
    ) -> None:
        self.module = module.to(device)
        self.channels_last = channels_last
        self.frozen = require_one_of("buffers", buffers, BUFFERS) == "frozen"
        stateful = statistics(module)
        if stateful and buffers == "refuse":
            raise FedhaltError(
                f"layer {stateful[0]!r} keeps running statistics, which averaging parameters leaves behind; "
                f"choose --buffers average or --buffers frozen, or a model without BatchNorm"
            )
        self._buffers = [
            buffer
            for layer in (stateful if buffers == "average" else [])
            for buffer in running(self.module.get_submodule(layer))
        ]
        trained = {name: p for name, p in self.module.named_parameters() if p.requires_grad}
        parameters = list(trained.values())
        self.names = tuple(trained)
        self.shapes = tuple(p.shape for p in parameters)
        self.sizes = tuple(p.numel() for p in parameters)
        self._flat = torch.zeros(sum(self.sizes), device=device, dtype=parameters[0].dtype)
        self._gradient = torch.zeros_like(self._flat)
        for p, w, g in zip(parameters, self._flat.split(self.sizes), self._gradient.split(self.sizes), strict=True):
            p.data = self._shaped(w, p.shape).copy_(p.data)
            p.grad = self._shaped(g, p.shape)

    def vector(self) -> Tensor:
        """A copy of the parameters."""
        return self._flat.clone()

    def buffers(self) -> Tensor | None:
        """A copy of the running statistics, if they are averaged."""
        return torch.cat([buffer.reshape(-1) for buffer in self._buffers]) if self._buffers else None

    def set_buffers(self, values: Tensor | None) -> None:
        if values is not None:
            for buffer, part in zip(self._buffers, values.split([b.numel() for b in self._buffers]), strict=True):
                buffer.copy_(part.view(buffer.shape))

    def batch(self, images: Tensor, labels: Tensor) -> Gradient:
        """This minibatch's gradient as a function of w."""
        return partial(self.gradient, images=images, labels=labels)

    def gradient(self, w: Tensor, images: Tensor, labels: Tensor) -> Tensor:
        """The gradient of the mean cross-entropy of this minibatch at w."""

        def loss(module: nn.Module) -> Tensor:
            return F.cross_entropy(module(self._ready(images)), labels)

        return self.gradient_of(w, loss, single=len(labels) == 1)

    def gradient_of(self, w: Tensor, loss: Callable[[nn.Module], Tensor], single: bool = False) -> Tensor:
        """The gradient of any loss of the module at w; `single` says that it is of one sample."""
        self.module.train()
        if self.frozen or single:  # one image has no variance: it is normalized by the running statistics
            for layer in statistics(self.module):
                self.module.get_submodule(layer).eval()
        self._flat.copy_(w)
        self._gradient.zero_()
        value = loss(self.module)
        value.backward()
        self._loss = value.detach()
        return self._gradient.clone()

    def loss(self) -> Tensor:
        """The loss of the gradient that was computed last."""
        return self._loss

    @torch.no_grad()
    def predict(self, images: Tensor) -> Tensor:
        """The logits at the parameters last set by `load`."""
        self.module.eval()
        logits: Tensor = self.module(self._ready(images))
        return logits

    def load(self, w: Tensor) -> None:
        self._flat.copy_(w)

    def ordered(self, vector: Tensor) -> Tensor:
        """A vector in the order of the module's own names and shapes, in the order of this model's vector."""
        if not self.channels_last or vector.numel() != self._flat.numel():
            return vector
        parts = zip(vector.split(self.sizes), self.shapes, strict=True)
        moved = [part.view(s).permute(0, 2, 3, 1).reshape(-1) if len(s) == 4 else part for part, s in parts]
        return torch.cat(moved)

    def plain(self, vector: Tensor) -> Tensor:
        """The inverse of `ordered`."""
        if not self.channels_last or vector.numel() != self._flat.numel():
            return vector
        parts = zip(vector.split(self.sizes), self.shapes, strict=True)
        return torch.cat([self._shaped(part, s).reshape(-1) for part, s in parts])

    def state_dict(self, w: Tensor, buffers: Tensor | None = None) -> dict[str, Tensor]:
        """The module's own names and shapes at w, for saving."""
        self.load(w)
        self.set_buffers(buffers)
        return {name: value.detach().cpu().contiguous().clone() for name, value in self.module.state_dict().items()}

    def _shaped(self, flat: Tensor, shape: torch.Size) -> Tensor:
        """A view of a piece of the vector; kernels lie in memory as channels_last wants them."""
        if self.channels_last and len(shape) == 4:
            outer, inner, height, width = shape
            return flat.view(outer, height, width, inner).permute(0, 3, 1, 2)
        return flat.view(shape)

    def _ready(self, images: Tensor) -> Tensor:
        images = normalised(images)
        if self.channels_last and images.ndim == 4:
            return images.contiguous(memory_format=torch.channels_last)
        return images


def statistics(module: nn.Module) -> list[str]:
    """The layers that keep running statistics."""
    return [name for name, layer in module.named_modules() if running(layer)]


def running(layer: nn.Module) -> list[Tensor]:
    """A layer's own floating-point buffers that belong to its state; constants such as masks do not."""
    constant = layer._non_persistent_buffers_set
    own = layer.named_buffers(recurse=False)
    return [buffer for name, buffer in own if buffer.is_floating_point() and name not in constant]


def without_chance(module: nn.Module) -> bool:
    """Switches off what draws random numbers in training (dropout, stochastic depth); says whether there was any."""
    found = False
    for layer in module.modules():
        # torch's dropout calls its rate p, timm's stochastic depth and DropBlock (not imported here) drop_prob
        rate = "p" if isinstance(layer, _DropoutNd) else "drop_prob"
        if isinstance(getattr(layer, rate, None), float) and getattr(layer, rate):
            setattr(layer, rate, 0.0)
            found = True
    return found
