"""Hypothesis without deadlines: a loaded machine is no failure. The command line in this process; a real Chromium."""

import os
import shutil
import signal
import sys

import pytest
from helpers.commands import LIMIT
from hypothesis import settings

settings.register_profile("fedhalt", deadline=None)
settings.load_profile("fedhalt")

# Nothing is downloaded in a test; the hub's own attempts would take a minute.
os.environ["HF_HUB_OFFLINE"] = "1"
# Where the tests run must not decide what they see: what a terminal shows, what a shell completes, where things are
# kept. The tests of these variables set them.
for _name in """CI NO_COLOR FORCE_COLOR TTY_COMPATIBLE TTY_INTERACTIVE COLUMNS LINES COMP_WORDS _TYPER_COMPLETE_ARGS
        FEDHALT_CACHE MLFLOW_TRACKING_URI""".split():
    os.environ.pop(_name, None)
os.environ["TERM"] = "xterm"
# A background shell ignores SIGINT, and so would every process that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync""".split()


def pytest_terminal_summary(terminalreporter):
    """The counts of faults that were tried, which stand in docs/reliability.md."""
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties:
            if name == "faults":
                terminalreporter.write_line(text)


@pytest.fixture
def fedhalt(monkeypatch, capsys):
    """The command in this process: its status, output and errors."""
    from fedhalt.cli import main

    before = signal.getsignal(signal.SIGINT)

    def call(*args):
        monkeypatch.setattr(sys, "argv", ["fedhalt", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    yield call
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def said(fedhalt):
    """What the command prints in this process; with another `code` what it says about its end."""

    def call(*args, code=0):
        status, out, err = fedhalt(*args)
        assert (status or 0) == code and "Traceback" not in err, err
        return err if code else out

    return call


@pytest.fixture(scope="session")
def browser():
    """Chromium or Chrome of this machine; without one its tests are skipped with the reason."""
    playwright = pytest.importorskip("playwright.sync_api", reason="browser tests need: pip install playwright")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"browser tests need one of {', '.join(NAMES)} on the PATH: scripts/install-chromium")
    with playwright.sync_playwright() as made:
        opened = made.chromium.launch(executable_path=path, args=FLAGS, timeout=1000 * LIMIT)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser):
    """Opens an address; in the end there must be no console message, no error and no request to anybody else."""
    problems, contexts = [], []

    def open_page(address, **options):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(1000 * LIMIT)
        origin = address.split("#")[0]
        page.on("console", lambda message: problems.append(f"console {message.type}: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))

        def asked(request):
            if not request.url.startswith((origin, "data:")):
                problems.append(f"request to {request.url}")

        page.on("request", asked)
        page.goto(address)
        page.wait_for_selector("#tiles dd")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []
