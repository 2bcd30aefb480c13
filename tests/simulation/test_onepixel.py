"""Convolutions onto one pixel as products: the same function as torch's own convolution."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")
from torch import nn

from fedhalt import FedhaltError
from fedhalt.simulation import RunSpec
from fedhalt.simulation.onepixel import OnePixel, products

SIZES = ((1, 1), (2, 2), (1, 3), (4, 4))
CASES = [
    (kernel, stride, padding, size, groups, bias)
    for kernel, stride, padding, size in itertools.product((1, 2, 3, 5), (1, 2, 3), (0, 1, 2), SIZES)
    if padding < kernel and all(each + 2 * padding >= kernel for each in size)
    for groups, bias in ((1, False), (6, True))
]


@pytest.mark.parametrize(("kernel", "stride", "padding", "size", "groups", "bias"), CASES)
def test_outputs_and_gradients_are_those_of_the_convolution(kernel, stride, padding, size, groups, bias):
    torch.manual_seed(0)
    plain = nn.Conv2d(6, 6, kernel, stride, padding, groups=groups, bias=bias)
    ours = nn.Conv2d(6, 6, kernel, stride, padding, groups=groups, bias=bias)
    ours.load_state_dict(plain.state_dict())
    assert products(ours) is ours and type(ours) is OnePixel
    found = []
    for layer in (plain, ours):
        images = torch.randn(4, 6, *size, generator=torch.Generator().manual_seed(1), requires_grad=True)
        made = layer(images)
        (made**2).sum().backward()
        found.append((made, images.grad, *(p.grad for p in layer.parameters())))
    for expected, mine in zip(*found, strict=True):
        torch.testing.assert_close(mine, expected)


def test_one_pixel_is_a_product_and_more_is_left_to_torch(monkeypatch):
    called = []
    monkeypatch.setattr(nn.Conv2d, "forward", lambda self, images: called.append(tuple(images.shape)))
    layer = products(nn.Conv2d(6, 6, 5, padding=2, groups=6))
    assert layer(torch.ones(2, 6, 1, 1)).shape == (2, 6, 1, 1) and not called
    layer(torch.ones(2, 6, 2, 2))
    assert called == [(2, 6, 2, 2)]


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"),  # the padding is not zero
        nn.Conv2d(4, 4, 3, padding="same"),
        nn.Conv2d(4, 4, 3, padding=2, dilation=2),
        nn.Conv2d(4, 8, 3, padding=1, groups=2),  # neither dense nor depthwise
        nn.Conv2d(4, 8, 3, padding=1, groups=4),  # two outputs a channel
        nn.Conv2d(4, 6, 1, stride=6, padding=2),  # nothing but padding is met
        nn.Conv1d(4, 4, 1),
    ],
)
def test_other_convolutions_are_left_alone(layer):
    before = type(layer)
    assert type(products(layer)) is before


@pytest.mark.parametrize("name", ["tf_efficientnet_lite0", "mobilenetv3_small_050", "resnet18", "convnextv2_atto"])
def test_a_network_has_the_same_gradient_and_the_same_names(name):
    timm = pytest.importorskip("timm")
    torch.manual_seed(0)
    module = timm.create_model(name, num_classes=8).eval()
    images = torch.randn(6, 3, 32, 32)

    def gradients():
        module.zero_grad()
        module(images).square().sum().backward()
        return {key: p.grad.clone() for key, p in module.named_parameters()}

    before, names = gradients(), list(module.state_dict())
    products(module)
    assert any(type(layer) is OnePixel for layer in module.modules()) and list(module.state_dict()) == names
    after = gradients()
    square = sum(float((after[key] - value).square().sum()) for key, value in before.items())
    assert square < 1e-8 * sum(float(value.square().sum()) for value in before.values())


def test_the_spec_names_it_and_a_probe_refuses_it():
    assert RunSpec(model="resnet18", buffers="frozen", gradient="products").to_json()["gradient"] == "products"
    with pytest.raises(FedhaltError, match=r"'products' is for convolutions: probe:resnet18 takes autograd or closed"):
        RunSpec(model="probe:resnet18", pretrained=True, gradient="products")
    with pytest.raises(FedhaltError, match=r"'closed' is a linear head's, probe:NAME: cnn takes autograd or products"):
        RunSpec(gradient="closed")
