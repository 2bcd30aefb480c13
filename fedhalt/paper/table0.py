"""Table 0: accuracy by skew, best over phi; the authors' Dirichlet split and their code's arithmetic beside ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from . import accuracy, published
from .accuracy import Line
from .rows import Results
from .setting import MAIN_SKEWS, PHIS, SYMBOLS, Need, Scale, needs

TITLE = "Table 0: accuracy by skew"
COUNTED = ("scaffold", "fedgamma", "fedwmsam")
"""The methods whose code divides by a step count taken from client 0."""


def specs(scale: Scale) -> Iterator[Need]:
    yield from needs(scale, skews=MAIN_SKEWS, rates=["good"], phi=PHIS)
    yield from needs(scale, skews=[("quantity", 0.1)], rates=["good"], phi=PHIS, methods=COUNTED, compat="authors")
    yield from needs(scale, skews=[("dirichlet-authors", 0.1)], rates=["good"])


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    good = {"lr": scale.rates["good"]}
    lines = [
        Line(f"{SYMBOLS[skew]} ({c:g})", {"skew": skew, "c": c, "compat": None, **good}, _paper(SYMBOLS[skew]))
        for skew, c in MAIN_SKEWS
    ]
    authors = {"skew": "dirichlet-authors", "c": 0.1, "compat": None, **good}
    compat = {"skew": "quantity", "c": 0.1, "compat": "authors", **good}
    lines += [
        Line("L_d (0.1), the authors' split, Φ = 0.001", authors, lambda task, method: None),
        Line("Q (0.1), compat authors", compat, lambda task, method: None, COUNTED),
    ]
    return accuracy.draw(results, scale, "table0", TITLE, lines, folder)


def _paper(symbol: str) -> accuracy.Callable[[str, str], tuple[float, int | None] | None]:
    def found(task: str, method: str) -> tuple[float, int | None] | None:
        row = published.find("table0_accuracy_by_skew", task=task, skew=published.SKEWS[symbol], method=method)
        return row and (float(row["accuracy_percent"]), int(row["log10_phi"]) if row["log10_phi"] else None)

    return found
