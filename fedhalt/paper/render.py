"""How tables and figures are written: Markdown and LaTeX, PNG and PDF, in the paper's colours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from fedhalt import files

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.colors import LinearSegmentedColormap

TEAL, GREEN, RED = "#007C97", "#009A66", "#ED1C24"
GAIN = LinearSegmentedColormap.from_list("gain", [RED, "white", TEAL])
USED = LinearSegmentedColormap.from_list("used", ["#00566a", TEAL, GREEN, "#d8f3e4"])
"""From few rounds (dark blue) to many (light green): lightness rises all the way, so it reads in grey too."""
MARKS = {"growth": ("o", TEAL, "-"), "val-loss": ("s", RED, "--"), "val-accuracy": ("^", "#8a6d00", ":")}
"""A rule's mark, colour and dash: each alone tells them apart."""
WORDS = {"growth": "proposed", "val-loss": "validation loss", "val-accuracy": "validation accuracy"}

plt.rcParams.update({
    "font.size": 8, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False,
    "pdf.fonttype": 42, "svg.hashsalt": "fedhalt",
})  # fmt: skip


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
    """A booktabs table; needs booktabs, amssymb and, with colours, xcolor with its table option."""
    lines = [r"\begin{tabular}{" + "l" * 2 + "c" * (len(header) - 2) + "}", r"\toprule"]
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
    """The cell colour of a gain, as in the paper: blue for gains, red for losses, stronger for larger ones."""
    if math.isnan(value) or not largest:
        return None
    return str(matplotlib.colors.to_hex(GAIN(0.5 + 0.45 * max(-1.0, min(1.0, value / largest))))).upper()


def _tex(text: str) -> str:
    bold = text.startswith("**") and text.endswith("**")
    plain = "".join(TEX.get(letter, letter) for letter in (text[2:-2] if bold else text))
    return rf"\underline{{\textbf{{{plain}}}}}" if bold else plain
