"""The documentation's Python blocks run, file by file, top to bottom; its links lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])

NEEDS = {
    ("methods", "fedhalt.run", "fedhalt.sweep", "import torch"): "torch",
    ("flwr", "integrations.flower"): "flwr",
    ("fedhalt.sweep",): "optuna",
}
"""Words in a code block, and the package that they need."""


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    for words, package in NEEDS.items():
        if any(word in block for block in blocks(page) for word in words):
            pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "docs"}
    for block in blocks(page):
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files_and_headings(page):
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", (page.parent / target).read_text(encoding="utf-8"), re.M)
            assert anchor in [re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in headings], anchor


def test_the_readme_says_what_the_stopper_says(capsys):
    exec(blocks(ROOT / "README.md")[0], {})
    assert re.search(r"round=18, .*reason='saturated', exponent=0\.05\d+, motion='saturated'", capsys.readouterr().out)
