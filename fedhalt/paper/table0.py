"""Table 0: accuracy by skew, best over phi; the authors' Dirichlet split and their code's arithmetic beside ours,
and clients as they are found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from . import accuracy, published
from .accuracy import Line
from .rows import Results
from .setting import MAIN_SKEWS, PHIS, SYMBOLS, Need, Scale, needs, needs_by_site

TITLE = "Table 0: accuracy by skew"
COUNTED = ("scaffold", "fedgamma", "fedwmsam")
"""The methods whose code divides by a step count taken from client 0."""


def specs(scale: Scale) -> Iterator[Need]:
    yield from needs(scale, skews=MAIN_SKEWS, rates=["good"], phi=PHIS)
    yield from needs(scale, skews=[("quantity", 0.1)], rates=["good"], phi=PHIS, methods=COUNTED, compat="authors")
    yield from needs(scale, skews=[("dirichlet-authors", 0.1)], rates=["good"])
    yield from needs_by_site(scale)


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    good = {"lr": scale.rates["good"]}
    lines = []
    for skew, c in MAIN_SKEWS:
        theirs = accuracy.published_in("table0_accuracy_by_skew", skew=published.SKEWS[SYMBOLS[skew]])
        lines.append(Line(f"{SYMBOLS[skew]} ({c:g})", {"skew": skew, "c": c, "compat": None, **good}, theirs))
    authors = {"skew": "dirichlet-authors", "c": 0.1, "compat": None, **good}
    compat = {"skew": "quantity", "c": 0.1, "compat": "authors", **good}
    sites = {"skew": "natural", "c": 1.0, "compat": None, **good}
    lines += [
        Line("L_d (0.1), the authors' split, Φ = 0.001", authors, lambda task, method: None),
        Line("Q (0.1), compat authors", compat, lambda task, method: None, COUNTED),
        Line("four sites, all taking part, Φ = 0.001", sites, lambda task, method: None, tasks=("derma",)),
    ]
    return accuracy.draw(results, scale, "table0", TITLE, lines, folder)
