"""Which networks train faster in the memory format channels_last: measured, so that no run has to try."""

from __future__ import annotations

GAIN = {
    "cnn": 1.25,
    "convnext": 1.06,
    "efficientnet": 1.61,
    "mobilenet": 1.49,
    "regnet": 1.36,
    "resnet": 1.00,
    "tf_efficientnet": 1.77,
    "tf_mobilenet": 1.5,
}
"""By the beginning of a network's name: how many times faster a gradient is (`python benchmarks/formats.py`)."""

WORTH = 1.2
"""Below that the plain format stays: other processors round the choice either way, and recorded runs keep their ids."""


def prefers_channels_last(model: str) -> bool:
    """Whether a network's default is channels_last; one that was not measured, and a probe, has the plain format."""
    return any(gain >= WORTH and model.startswith(family) for family, gain in GAIN.items())
