"""One bad run among good ones: report and watch name it, say what is wrong with it, and show the others."""

import base64
import contextlib
import gzip
import json
import os
import re
import signal
import socket
import stat
import time
from functools import partial
from pathlib import Path

import pytest
from rich.console import Console

from fedhalt import Trajectory, files
from fedhalt.rules import named_rule
from fedhalt.views.live import LiveRuns
from fedhalt.views.page import report
from fedhalt.views.page.data import loaded
from fedhalt.views.recorded import find_records
from fedhalt.views.terminal.watch import judged, table

HEADER = {"fedhalt": "trajectory", "version": 1}
PYTEST = ("pytest-", "popen-", "test_")
"""How the folders begin that pytest makes, for root alone."""


def record(folder, rounds=3, **header):
    trajectory = Trajectory.create(folder / "trajectory.jsonl", **header)
    for r in range(1, rounds + 1):
        trajectory.append({"distance": r**0.5, "test_accuracy": 1 - 1 / (r + 1)})


def lines(folder, *entries):
    """A record as somebody else might write it."""
    folder.mkdir()
    text = "".join(entry if isinstance(entry, str) else json.dumps(entry) + "\n" for entry in entries)
    (folder / "trajectory.jsonl").write_text(text)


def nested(depth):
    return '{"a":' * depth + "1" + "}" * depth


def foreign_name(folder):
    record(folder.parent / os.fsdecode(b"bad\xe9"))


def lone_surrogate(folder):
    lines(folder, {**HEADER, "spec": {"data": "x\ud800", "\udfff": 1}}, {"round": 1, "distance": 1, "note": "\udc80"})


def deep_spec(folder):
    lines(folder, f'{{"fedhalt": "trajectory", "version": 1, "spec": {nested(900)}}}\n')


def deep_rule(folder):
    rule = '{"type": "AnyOf", "rules": [' * 400 + '{"type": "GrowthRate"}' + "]}" * 400
    lines(folder, f'{{"fedhalt": "trajectory", "version": 1, "rule": {rule}}}\n')


def spec_of_objects(folder):
    strange = {"toString": 1, "valueOf": 2}
    lines(
        folder,
        {**HEADER, "spec": {"data": strange, "lr": [strange], "skew": strange, "hyperparameters": {"a": strange}}},
        {"round": 1, "distance": 1},
    )


def pipe(folder):
    folder.mkdir()
    os.mkfifo(folder / "trajectory.jsonl")


def endless_device(folder):
    folder.mkdir()
    (folder / "trajectory.jsonl").symlink_to("/dev/zero")


def unix_socket(folder):
    folder.mkdir()
    here = os.getcwd()
    os.chdir(folder)  # such names have room for 108 bytes
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind("trajectory.jsonl")
    finally:
        os.chdir(here)


def directory(folder):
    (folder / "trajectory.jsonl").mkdir(parents=True)


def link_to_itself(folder):
    folder.mkdir()
    (folder / "trajectory.jsonl").symlink_to("trajectory.jsonl")


def unreadable_file(folder):
    record(folder)
    (folder / "trajectory.jsonl").chmod(0)


def unreadable_folder(folder):
    record(folder)
    folder.chmod(0)


def summary_pipe(folder):
    record(folder)
    os.mkfifo(folder / "summary.json")


def strange_summary(folder):
    record(folder)
    rules = [{"rule": {}, "threshold": [], "patience": "x"}, {"rule": "growth", "threshold": 10**400, "patience": -1}]
    (folder / "summary.json").write_text(json.dumps({"rules": rules}))


def summary_of_bytes(folder):
    record(folder)
    (folder / "summary.json").write_bytes(b"\xff\xfe\x00")


def deep_summary(folder):
    record(folder)
    (folder / "summary.json").write_text(f'{{"rules": {nested(900)}}}')


BAD = {
    deep_spec: "line 1", deep_rule: "line 1", pipe: "pipe", endless_device: "device", unix_socket: "socket",
    directory: "folder", link_to_itself: "symbolic links", unreadable_file: "Permission",
    unreadable_folder: "Permission",
}  # fmt: skip
STRANGE = (
    foreign_name, lone_surrogate, spec_of_objects, summary_pipe, strange_summary, summary_of_bytes, deep_summary,
)  # fmt: skip
UNREADABLE = (summary_pipe, summary_of_bytes, deep_summary)
"""Summaries that are said to be unreadable; the run is shown without the rules in it."""


@pytest.fixture
def runs(tmp_path):
    """A folder with two good runs; whoever reads a pipe that nobody writes is woken up."""

    def too_long(*_):
        raise RuntimeError("waited for a pipe")

    before = signal.signal(signal.SIGALRM, too_long)
    signal.alarm(300)
    record(tmp_path / "first")
    record(tmp_path / "last")
    yield tmp_path
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)
    with contextlib.suppress(FileNotFoundError):
        (tmp_path / "bad").chmod(0o700)


@contextlib.contextmanager
def nobody(folder):
    """Root may read everything: becomes somebody who may not, and who reaches the folder all the same."""
    if os.geteuid() == 0:
        for path in (folder, *folder.parents):
            if path.stat().st_uid == 0 and not path.stat().st_mode & stat.S_ISVTX and path.name.startswith(PYTEST):
                path.chmod(0o755)
        os.seteuid(65534)
    try:
        if not os.access(folder, os.R_OK | os.X_OK, effective_ids=True):
            pytest.skip(f"only root reaches {folder}: set TMPDIR to a folder that everybody may enter")
        yield
    finally:
        os.seteuid(os.getuid())


def data_of(page):
    packed = re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', page.read_text(), re.S).group(1)
    return json.loads(gzip.decompress(base64.b64decode(packed)))["runs"]


@pytest.mark.parametrize("hazard", [*BAD, *STRANGE], ids=lambda hazard: hazard.__name__)
def test_a_report_shows_the_others(runs, hazard, tmp_path_factory):
    if os.geteuid() == 0 and hazard in (unreadable_file, unreadable_folder):
        pytest.skip("root may read everything")
    hazard(runs / "bad")
    out = tmp_path_factory.mktemp("page") / "report.html"
    with pytest.warns(match="summary.json") if hazard in UNREADABLE else contextlib.nullcontext():
        made = report([runs], out)
    assert made["runs"] == 3 and made["unreadable"] == (hazard in BAD)
    found = {run["name"]: run for run in data_of(out)}
    (bad,) = found.keys() - {"first", "last"}
    assert bad.startswith("bad") and found["first"]["rounds"] == found["last"]["rounds"] == 3
    assert BAD.get(hazard, "") in found[bad].get("problem", "")
    assert (found[bad]["rounds"] > 0) == (hazard in STRANGE)


@pytest.mark.parametrize("hazard", [*BAD, *STRANGE], ids=lambda hazard: hazard.__name__)
def test_watch_shows_the_others_in_the_browser_and_in_the_terminal(runs, hazard):
    hazard(runs / "bad")
    rule = named_rule("growth")
    with contextlib.ExitStack() as around:
        if hazard in (unreadable_file, unreadable_folder):
            around.enter_context(nobody(runs))
        if hazard in UNREADABLE:
            around.enter_context(pytest.warns(match="summary.json"))
        news = files.to_json(LiveRuns([runs], loaded).since("")).encode()
        told = LiveRuns([runs], partial(judged, named=rule)).since("")["runs"]
    assert len(json.loads(news)["runs"]) == 3
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        console = Console(width=300, record=True, file=nowhere)
        console.print(*table(told, rule))
    shown = console.export_text()
    own_words = hazard in (lone_surrogate, spec_of_objects)  # such a run is called by what its configuration says
    assert all(re.search(rf"^{name}\S* ", shown, re.M) for name in ("first", "last", *([] if own_words else ["bad"])))
    assert len([line for line in shown.splitlines() if re.search(r"\S", line)]) >= 4
    assert BAD.get(hazard, "") in shown


def test_the_page_of_several_of_them_works(runs, visit, tmp_path_factory):
    for hazard in (foreign_name, lone_surrogate, spec_of_objects, deep_spec):
        (runs / hazard.__name__).mkdir()
        hazard(runs / hazard.__name__ / "bad")
    out = tmp_path_factory.mktemp("page") / "report.html"
    report([runs], out)
    page = visit(out.as_uri())
    assert page.locator("#table tbody tr").count() == 6
    page.locator("#table tbody button", has_text="deep_spec").click()
    assert "line 1" in page.locator("#detail .problem").inner_text()


def test_finding_runs_does_not_slow_down_by_the_square_of_their_number():
    def seconds(number):
        paths = [Path(f"/nowhere/run-{index}/trajectory.jsonl") for index in range(number)]
        times = []
        for _ in range(3):
            begin = time.process_time()
            assert len(find_records(paths)) == number
            times.append(time.process_time() - begin)
        return min(times)

    assert seconds(16_000) / seconds(1_000) < 64  # 16 if each costs the same, 256 if each is compared with all
