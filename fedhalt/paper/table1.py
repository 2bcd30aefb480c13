"""Table 1: accuracy by local learning rate under Dirichlet skew 0.1, best over phi."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from . import accuracy
from .accuracy import Line
from .rows import Results
from .setting import PHIS, Need, Scale, needs

TITLE = "Table 1: accuracy by local learning rate"
PUBLISHED = {"bad": -1, "middle": -2, "good": -3}
"""log10 of the paper's rates; for another model others are good, middle and bad."""


def specs(scale: Scale) -> Iterator[Need]:
    yield from needs(scale, skews=[("dirichlet", 0.1)], rates=["good", "middle", "bad"], phi=PHIS)


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    lines = [
        Line(
            f"{word} rate, {scale.rates[word]:g} (paper {10.0**power:g})",
            {"skew": "dirichlet", "c": 0.1, "compat": None, "lr": scale.rates[word]},
            accuracy.published_in("table1_accuracy_by_learning_rate", log10_eta=power),
        )
        for word, power in PUBLISHED.items()
    ]
    return accuracy.draw(results, scale, "table1", TITLE, lines, folder)
