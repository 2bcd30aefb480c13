"""How good predictions are: loss, plain and balanced accuracy, macro F1."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

SCORES = ("loss", "accuracy", "balanced_accuracy", "f1")


def scores(logits: Tensor, labels: Tensor, classes: int) -> dict[str, float]:
    """Of logits (samples x classes). Classes that neither occur nor were predicted do not count in the means.

    torchmetrics gives the same numbers to the bit (a test compares them) in ten times the time of a small head.
    """
    chosen = logits.argmax(1)
    right, actual, predicted = (
        torch.bincount(of, minlength=classes) for of in (labels[chosen == labels], labels, chosen)
    )
    there = actual + predicted != 0

    def mean(shares: Tensor) -> float:
        return float((shares.nan_to_num() * there / there.sum()).sum())

    return {
        "loss": float(F.cross_entropy(logits.double(), labels)),
        "accuracy": float(right.sum() / len(labels)),
        "balanced_accuracy": mean(right / actual),
        "f1": mean(2 * right / (actual + predicted)),
    }
