"""The tables in LaTeX: symbols and signs, and all of them compiled."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")

from fedhalt.paper import render

RESULTS = Path(__file__).parents[2] / "docs" / "results"
PREAMBLE = r"""\documentclass{article}
\usepackage[a4paper,landscape,margin=1cm]{geometry}
\usepackage{booktabs,amssymb,graphicx,textcomp}
\usepackage[table]{xcolor}
\pagestyle{empty}
\begin{document}
"""


@pytest.mark.parametrize("text, tex", [
    ("L_d (0.1)", "$L_{d}$ (0.1)"), ("-1.5 ± 0.2", r"$-$1.5 $\pm$ 0.2"), ("drift_10", r"drift\_10"),
    ("|δ_r \u2212 δ_(r\u22121)| > ‖u_r‖", r"$|$$\delta_{r}$ $-$ $\delta_{r-1}$$|$ $>$ $\|$$u_{r}$$\|$"),
    ("**3 ▲ (-2)**", r"\underline{\textbf{3 $\blacktriangle$ ($-$2)}}"), ("FedAvg-like", "FedAvg-like"),
])  # fmt: skip
def test_symbols_indices_and_signs(text, tex):
    assert render._tex(text) == tex


def test_sentences_are_broken_into_lines():
    rows = [["1", "a", "x" * 60, "y" * 200, "2"]]
    assert r"\begin{tabular}{llp{6cm}p{9cm}c}" in render.latex(["", "", "", "", ""], rows, None)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex on the PATH: scripts/install-latex")
def test_every_committed_table_compiles(tmp_path):
    tables = sorted(RESULTS.glob("*/*.tex"))
    assert len(tables) >= 25
    bodies = [rf"\resizebox{{\linewidth}}{{!}}{{\input{{{path}}}}}\newpage" for path in tables]
    (tmp_path / "all.tex").write_text("\n".join([PREAMBLE, *bodies, r"\end{document}"]))
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "-no-shell-escape", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, errors="replace", check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    log = (tmp_path / "all.log").read_text(errors="replace")
    assert "Missing character" not in log and "Undefined control sequence" not in log
    pages = re.search(r"\((\d+) pages", log)
    assert pages and int(pages[1]) >= len(tables)  # a table that is too tall takes a page more
