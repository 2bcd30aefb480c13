"""The documentation site: every link is checked, it reads without a network, and the pages asked for are there."""

import os
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs")
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    folder = tmp_path_factory.mktemp("site")
    line = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        line, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    )
    assert done.returncode == 0, done.stderr
    return folder


@contextmanager
def served(folder):
    """The address of a folder on this machine, as `python -m http.server` gives it."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("from_disk", [True, False])
def test_every_page_reads_without_a_network(site, browser, from_disk):
    context = browser.new_context()
    page = context.new_page()
    asked, errors, titles = [], [], {}
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    with served(site) as address:
        for file in sorted(site.glob("*.html")):
            page.goto(file.as_uri() if from_disk else f"{address}/{file.name}")
            titles[file.stem] = page.locator("h1").first.text_content()
            pictures = page.locator("article img").evaluate_all("(all) => all.map((one) => one.naturalWidth)")
            assert all(width > 0 for width in pictures), file
        page.wait_for_load_state("networkidle")  # the search index is there
        page.locator("input.md-search__input").click()
        page.locator("input.md-search__input").press_sequentially("wandering")
        page.locator(".md-search-result__item").first.wait_for()
        assert errors == []
        context.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:", address))] == []
    assert titles.keys() >= {"index", "start", "flower", "stopping", "tuning", "judge", "methods", "partitions",
                             "write-a-method", "choosing", "api", "findings", "report", "rules"}  # fmt: skip


@pytest.mark.parametrize("width", [1280, 390])
def test_tables_and_code_fit_the_column(site, browser, width):
    """On a desktop nothing scrolls sideways; on a phone a table or code may, but never the page."""
    context = browser.new_context(viewport={"width": width, "height": 900})
    page = context.new_page()
    for file in sorted(site.glob("*.html")):
        page.goto(file.as_uri())
        inside = "article pre, article pre > code, article .md-typeset__scrollwrap" if width > 1000 else "html"
        wide = "(all) => all.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.innerText)"
        assert page.locator(inside).evaluate_all(wide) == [], file
    context.close()


def test_the_reference_comes_from_the_docstrings(site):
    text = (site / "api.html").read_text(encoding="utf-8")
    for word in ("EarlyStopper", "GrowthRate", "Equations (3) to (5)", "RunSpec", "stop_round"):
        assert word in text
    function = text[text.index('id="fedhalt.replay"') : text.index('id="fedhalt.stop_round"')]
    for part in ("Parameters:", "Yields:", "Raises:", "Examples:", '<span class="gp">&gt;&gt;&gt; </span>'):
        assert part in function, part
