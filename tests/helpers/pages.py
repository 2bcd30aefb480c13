"""Runs the commands and Python blocks of a documentation page, and compares what they print with what the page shows.

A block marked `console` holds commands after `$ ` and, below each, its output. A block marked `sh` holds commands whose
output is not shown. A `print(...)  # text` in a Python block shows what it prints. scripts/refresh-docs writes the real
outputs into the pages.

Some commands are not run as they are. `make demo` in a `console` block is run by its recipe, without installing. In an
`sh` block only the target is checked: `make test` would run this very test. `pip install` needs a network, so only its
extras are checked.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import NamedTuple

from helpers.commands import LIMIT
from helpers.places import ROOT

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)
BY_CHANCE = r"^\S+ stops at round \d+: |^drift: |the model was still moving at the stop"
"""Lines of a run that another processor may print elsewhere, with other words, or not at all."""
MOTIONS = ("still moving", "diffusing", "saturated", "going nowhere", "diverging")


class Ran(NamedTuple):
    """A command or a block, what the page shows of its output, and what it printed."""

    source: str
    shown: str
    printed: str


def shape(text):
    """The words of an output, without what depends on the processor or the time.

    Every number becomes 0. Trained numbers differ between processors, and with them column widths, line breaks, the
    number of progress lines, which rule fires last, and the words for what the model is doing.
    """
    text = "\n".join(line for line in elided(text.splitlines()) if not re.search(BY_CHANCE, line))
    for word in MOTIONS:
        text = text.replace(word, "MOTION")
    text = re.sub(r"[-+]?\d[\d.,:]*(e[-+]?\d+)?", "0", text)
    return re.sub(r"[\s─━]+", " ", text).strip()


def elided(lines):
    """The lines of an output, with … for the progress lines between the first and the last."""
    progress = [index for index, line in enumerate(lines) if re.match(r"\s*round \d", line)]
    if len(progress) < 3:
        return lines
    return [*lines[: progress[0] + 1], "…", *lines[progress[-1] :]]


def matches(shown, printed):
    """Whether a printed text is the one that a comment shows, in which … stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, shown.split("…"))), printed) is not None


def run_page(page):
    """Runs every console and Python block of a page from top to bottom, in a folder of its own."""
    names = {"__name__": "page"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
            if language == "console":
                for command, shown in commands(text):
                    yield Ran(command, shown, run_command(command))
            elif language == "sh":
                for command in text.replace("\\\n", " ").splitlines():
                    recipe(command.split()[1]) if command.startswith("make ") else run_command(command)
            elif language == "python":
                yield from run_python(text, names)


def commands(block):
    """The commands of a console block, each with the output shown below it."""
    found = re.findall(r"^\$ (.*\n(?:(?<=\\\n).*\n)*)((?:(?!\$ ).*\n)*)", block, re.M)
    return [(command.strip(), shown) for command, shown in found]


def run_command(command):
    """What a command prints on standard output, in a terminal of 80 columns without colors."""
    if command.startswith("pip install "):
        return check_extras(command)
    if command.startswith("make "):
        return "".join(run_shell(line.removeprefix(".venv/bin/")) for line in recipe(command.split()[1]))
    return run_shell(command.removeprefix(".venv/bin/"))


def run_shell(line):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "80", "NO_COLOR": "1"}
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=LIMIT, env=env)
    assert done.returncode == 0, f"{line}\n{done.stderr}"
    return done.stdout


def check_extras(command):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = re.findall(r"[\w-]+", "".join(re.findall(r"\[(.*?)\]", command)))
    assert "'.[" in command or command.startswith("pip install . "), f"{command} does not install this repository"
    assert set(extras) <= set(project["optional-dependencies"]), command
    return ""


def recipe(target):
    """The lines of a make target, without the steps that install."""
    dry = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True)
    assert dry.returncode == 0, dry.stderr
    lines = dry.stdout.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith((".venv/bin/fedhalt", "echo", "printf"))]


def run_python(block, names):
    """Runs a Python block; yields every line printed by a `print` that shows its output in a comment."""
    shown = re.findall(r"^ *print\(.*\)  # (.*)$", block, re.M)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(block, "page", "exec"), names)
    for text, line in zip(shown, printed.getvalue().splitlines(), strict=True) if shown else ():
        yield Ran(f"print(...)  # {text}", text, line)


def refresh(page):
    """Writes the real output below every command of a page."""
    ran = iter([one for one in run_page(page) if not one.source.startswith("print(")])

    def refreshed(block):
        if block[1] != "console":
            return block[0]
        shown = [f"$ {one.source}\n{tidy(one.printed)}" for one in (next(ran) for _ in commands(block[2]))]
        return f"```console\n{''.join(shown)}```"

    text = page.read_text(encoding="utf-8")
    page.write_text(BLOCK.sub(refreshed, text), encoding="utf-8")


def tidy(printed):
    """An output without blank lines at its ends and blanks at the ends of its lines."""
    return "".join(f"{line.rstrip()}\n" for line in elided(printed.strip("\n").splitlines()))


if __name__ == "__main__":
    for name in sys.argv[1:]:
        refresh(Path(name).absolute())
