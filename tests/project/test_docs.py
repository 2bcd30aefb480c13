"""The documentation's Python blocks run, file by file, top to bottom; its links lead somewhere."""

import re

import pytest
from helpers.pages import matches, run_page, shape
from helpers.places import DATA, ROOT

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])

NEEDS = {
    ("methods", "fedhalt.simulation", "fedhalt.tuning", "import torch"): "torch",
    ("flwr", "integrations.flower"): "flwr",
    ("fedhalt.tuning",): "optuna",
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
        file = page.parent / target if target else page
        if "://" not in target:
            assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.M)
            assert anchor in [re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in headings], anchor


@pytest.mark.parametrize(
    "name", ["README.md", "docs/start.md", pytest.param("docs/simulator.md", marks=pytest.mark.slow)]
)
def test_commands_print_what_the_page_shows(name, monkeypatch):
    """Numbers are compared by their shape, not their digits: see `helpers.pages.shape`."""
    for package in ("torch", "sklearn", "flwr"):
        pytest.importorskip(package)
    if name == "docs/simulator.md":
        if not (DATA / "bloodmnist.npz").exists():
            pytest.skip("needs bloodmnist.npz")
        monkeypatch.setenv("FEDHALT_DATA", str(DATA))
    compared = 0
    for source, shown, printed in list(run_page(ROOT / name)):
        if source.startswith("print("):
            assert matches(shown, printed), f"{name}: {source} printed {printed}"
        else:
            assert shape(shown) == shape(printed), f"{name}: {source}; scripts/refresh-docs {name} writes:\n{printed}"
        compared += 1
    assert compared


def test_an_output_that_differs_in_a_word_is_noticed():
    assert shape("stop at 39, accuracy 98.1%\n") == shape("stop at 40, accuracy  97%")
    assert shape("stop at 39") != shape("stops at 39")
    many = "".join(f"round {r}/500  growth 0.1\n" for r in range(1, 9))
    assert shape(f"{many}done") == shape("round 1/500  growth 0.1\n…\nround 51/500  growth 0.1\ndone")
    assert matches("Status(round=18, …)", "Status(round=18, stop=True)") and not matches("18", "19")
