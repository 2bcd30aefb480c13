"""How tables and figures are written: Markdown and LaTeX, PNG and PDF, in the paper's colors."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import files
from ..errors import MissingExtra

try:
    from matplotlib import pyplot
    from matplotlib.colors import LinearSegmentedColormap, to_hex
except ImportError:
    raise MissingExtra("fedhalt.paper", "matplotlib", "report") from None

plt: Any = pyplot
"""For the modules that draw."""
TEAL, GREEN, RED = "#007C97", "#009A66", "#ED1C24"
GAIN = LinearSegmentedColormap.from_list("gain", [RED, "white", TEAL])
USED = LinearSegmentedColormap.from_list("used", ["#00323d", TEAL, "#4fb98e", "#e3f7ec"])
"""From few rounds (dark blue) to many (light green): lightness rises in even steps, so it reads in gray too."""
MARKS = {"growth": ("o", TEAL, "-"), "val-loss": ("s", RED, "--"), "val-accuracy": ("^", "#8a6d00", ":")}
"""A rule's mark, color and dash: each alone tells them apart."""
WORDS = {"growth": "proposed", "val-loss": "validation loss", "val-accuracy": "validation accuracy"}

STYLE = {
    "font.size": 8, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False,
    "pdf.fonttype": 42, "svg.hashsalt": "fedhalt",
}  # fmt: skip
"""The style of figures; it applies only while one is drawn."""


def number(mean: float, spread: float = math.nan, digits: int = 1, sign: bool = False) -> str:
    """12.3 ± 0.4, without a spread where there is only one seed, a dash where there is nothing."""
    if math.isnan(mean):
        return "–"
    text = f"{mean:+.{digits}f}" if sign else f"{mean:.{digits}f}"
    return text if math.isnan(spread) else f"{text} ± {spread:.{digits}f}"


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


TEX = {
    "±": r"$\pm$", "–": "--", "−": "$-$", "▲": r"$\blacktriangle$", "▼": r"$\blacktriangledown$", "δ": r"$\delta$",
    "τ": r"$\tau$", "ρ": r"$\rho$", "Δ": r"$\Delta$", "Φ": r"$\Phi$", "η": r"$\eta$", "≤": r"$\leq$", "%": r"\%",
    "_": r"\_", "&": r"\&", "‖": r"$\|$", "*": r"$^{*}$", "#": r"\#", "→": r"$\rightarrow$",
    "≥": r"$\geq$", "ε": r"$\varepsilon$", "∝": r"$\propto$", "<": "$<$", ">": "$>$", "|": "$|$", "^": r"\^{}",
    "`": r"\textquotesingle ",
}  # fmt: skip


def latex(header: Sequence[str], rows: Sequence[Sequence[str]], colours: Sequence[Sequence[str | None]] | None) -> str:
    """A booktabs table; needs booktabs, amssymb, textcomp and, with colors, xcolor with its table option."""
    columns = [_column(place, column) for place, column in enumerate(zip(header, *rows, strict=True))]
    lines = [rf"\begin{{tabular}}{{{''.join(columns)}}}", r"\toprule"]
    lines += [" & ".join(_tex(cell) for cell in header) + r" \\", r"\midrule"]
    for place, row in enumerate(rows):
        shades = colours[place] if colours else [None] * len(row)
        cells = [
            (rf"\cellcolor[HTML]{{{shade.lstrip('#')}}}" if shade else "") + _tex(cell)
            for cell, shade in zip(row, shades, strict=True)
        ]
        lines.append(" & ".join(cells) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def table(
    stem: Path, header: Sequence[str], rows: Sequence[Sequence[str]],
    colours: Sequence[Sequence[str | None]] | None = None,
) -> tuple[str, list[Path]]:  # fmt: skip
    """Writes stem.tex; the Markdown is returned, for the item's page."""
    files.write(stem.with_suffix(".tex"), latex(header, rows, colours).encode())
    return markdown(header, rows), [stem.with_suffix(".tex")]


def page(path: Path, title: str, *parts: str) -> Path:
    """The item's Markdown file."""
    files.write(path, "\n".join([f"# {title}\n", *(part.strip() + "\n" for part in parts if part.strip())]).encode())
    return path


def save(figure: Any, stem: Path) -> list[Path]:
    """The figure as PNG and PDF; without the time of day, so that the same rows make the same file."""
    paths = [stem.with_suffix(".png"), stem.with_suffix(".pdf")]
    figure.savefig(paths[0], dpi=130, metadata={"Software": None})
    figure.savefig(paths[1], metadata={"CreationDate": None, "Producer": None, "Creator": None})
    plt.close(figure)
    return paths


def heat(
    axis: Any, values: Any, rows: Sequence[str], columns: Sequence[str], *, colours: Any, low: float, high: float,
    text: str = "{:.1f}", size: float = 7,
) -> None:  # fmt: skip
    """A heat map with every number written into its cell; a missing one is hatched."""
    grid = np.array(values, float)
    axis.imshow(np.ma.masked_invalid(grid), cmap=colours, vmin=low, vmax=high, aspect="auto")
    axis.set_facecolor("#dddddd")
    for (i, j), value in np.ndenumerate(grid):
        shade = colours((min(max(value, low), high) - low) / (high - low)) if not math.isnan(value) else (1, 1, 1)
        dark = 0.3 * shade[0] + 0.59 * shade[1] + 0.11 * shade[2] < 0.55
        shown = "–" if math.isnan(value) else text.format(value)
        axis.text(j, i, shown, ha="center", va="center", fontsize=size, color="white" if dark else "black")
    axis.set_xticks(range(len(columns)), columns)
    axis.set_yticks(range(len(rows)), rows)
    axis.tick_params(length=0)
    axis.spines[:].set_visible(False)


def shade(value: float, largest: float) -> str | None:
    """The cell color of a gain, as in the paper: blue for gains, red for losses, stronger for larger ones."""
    if math.isnan(value) or not largest:
        return None
    return str(to_hex(GAIN(0.5 + 0.45 * max(-1.0, min(1.0, value / largest))))).upper()


def _column(place: int, cells: Sequence[str]) -> str:
    """Two columns of words, then centered numbers; sentences are broken into lines."""
    longest = max(map(len, cells))
    return f"p{{{6 if longest < 150 else 9}cm}}" if longest > 50 else "l" if place < 2 else "c"


INDEXED = re.compile(r"(?<!\w)([A-Za-zδ])_(?:\(([^)]*)\)|([a-z])(?![a-z]))")
NEGATIVE = re.compile(r"(?<!\w)-(?=\d)")


def _tex(text: str) -> str:
    bold = text.startswith("**") and text.endswith("**")
    whole, parts, end = NEGATIVE.sub("−", text[2:-2] if bold else text), [], 0
    for found in INDEXED.finditer(whole):
        base, index = found[1].replace("δ", r"\delta"), (found[2] or found[3]).replace("−", "-")
        parts += [_letters(whole[end : found.start()]), f"${base}_{{{index}}}$"]
        end = found.end()
    plain = "".join([*parts, _letters(whole[end:])])
    return rf"\underline{{\textbf{{{plain}}}}}" if bold else plain


def _letters(text: str) -> str:
    return "".join(TEX.get(letter, letter) for letter in text)
