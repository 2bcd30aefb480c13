"""`fedhalt watch`: the page and the table follow what is recorded, whatever happens to the files."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
from contextlib import contextmanager

import pytest
from helpers.commands import FEDHALT, LIMIT, read_until, run, started, wait_for
from helpers.records import rounds_in

from fedhalt import Trajectory, stop_round
from fedhalt.rules import GrowthRate, named_rule
from fedhalt.views.live import PAUSE, LiveRuns
from fedhalt.views.page.data import loaded

RULES = ("growth", "val-loss", "val-accuracy")
DEMO = [*"--data digits --clients 20 --cohort 5 --skew dirichlet --c 0.5 --lr 0.05 --rule".split(), ",".join(RULES)]


@contextmanager
def watching(*args):
    """A real `fedhalt watch`; gives its address, and ends it as Ctrl-C does."""
    with started(*FEDHALT, "watch", *args) as process:
        yield re.search(r"http://127\.0\.0\.1:\d+/\S*", read_until(process, "http")).group()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
        assert process.returncode == 0 and err == ""


def ask(address, path="/", host=None, method="GET"):
    place = re.match(r"http://([^/]+)/", address).group(1)
    connection = http.client.HTTPConnection(place, timeout=LIMIT)
    connection.request(method, path, headers={"Host": host or place})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def record(folder, rounds, first=1):
    path = folder / "trajectory.jsonl"
    trajectory = Trajectory.resume(path) if path.exists() else Trajectory.create(path)
    for r in range(first, first + rounds):
        trajectory.append({"distance": r**0.5, "test_accuracy": 1 - 1 / (r + 1)})
    return path


@pytest.fixture
def watched(tmp_path):
    """The runs in a folder, and a look at them that does not wait for its pause."""
    made = LiveRuns([tmp_path], loaded)

    def look(version=""):
        made._looked = -PAUSE
        news = made.since(version)
        return news, {run["name"]: run["rounds"] for run in news["runs"]}

    return look


def test_only_what_changed_is_told(watched, tmp_path):
    record(tmp_path / "a", 3)
    news, rounds = watched()
    assert news["all"] and rounds == {"a": 3} and news["quiet"] < 60
    assert watched(news["version"])[0] | {"quiet": 0} == news | {"all": False, "runs": [], "quiet": 0}
    record(tmp_path / "a", 2, 4)
    record(tmp_path / "b", 1)
    later, rounds = watched(news["version"])
    assert rounds == {"a": 5, "b": 1} and not later["all"]
    shutil.rmtree(tmp_path / "a")
    last, rounds = watched(later["version"])
    assert last["gone"] == ["a"] and rounds == {}
    record(tmp_path / "a", 2)
    assert watched(last["version"])[1] == {"a": 2} and watched(last["version"])[0]["gone"] == []
    server = news["version"].split("-")[0]
    for strange in ("", "other-3", "x", "-1", f"{server}-²", f"{server}-{'9' * 5000}"):
        assert watched(strange)[0]["all"] and watched(strange)[1] == {"a": 2, "b": 1}


def test_files_that_are_cut_replaced_or_half_written_are_no_end(watched, tmp_path):
    path = record(tmp_path / "a", 9)
    whole = path.read_bytes()
    news, _ = watched()
    steps = [
        (whole[:-20], 8, ""), (whole[:300], None, ""), (b"", 0, "no finished line"),
        (b"\x00\xff\n", 0, "not a fedhalt"), (whole[:20], 0, "no finished line"),
        (whole + b"{}x\n", 0, "line 11"), (whole, 9, ""),
    ]  # fmt: skip
    for content, rounds, problem in steps:
        path.write_bytes(content)
        news, found = watched(news["version"])
        assert "a" in found and (rounds is None or found["a"] == rounds)
        assert problem in news["runs"][0].get("problem", "")
    beside = tmp_path / "new"
    beside.write_bytes(whole[: whole.index(b"\n") + 1])
    os.replace(beside, path)
    assert watched(news["version"])[1] == {"a": 0}
    path.unlink()
    path.mkdir()
    (run,) = watched(news["version"])[0]["runs"]
    assert run["name"] == "a" and "is a folder, not a file" in run["problem"]


def test_a_single_file_that_vanishes_says_so(tmp_path):
    path = record(tmp_path / "a", 2)
    made = LiveRuns([path], loaded)
    assert made.since("")["runs"][0]["rounds"] == 2
    path.unlink()
    made._looked = -PAUSE
    (run,) = made.since("")["runs"]
    assert run["rounds"] == 0 and "No such file" in run["problem"]


def test_the_server_answers_this_machine_and_nothing_but_its_two_addresses(tmp_path):
    record(tmp_path / "runs" / "a", 3)
    (tmp_path / "secret.txt").write_text("secret")
    with watching(tmp_path / "runs", "--rule", "difference", "--threshold", 0.5) as address:
        assert address.endswith("/#rule=difference&threshold=0.5&patience=10")
        answer, body = ask(address)
        assert answer.status == 200 and b"connect-src &#x27;self&#x27;" in body
        assert answer.headers["X-Frame-Options"] == "DENY" and answer.headers["Cache-Control"] == "no-store"
        assert json.loads(ask(address, "/runs?after=")[1])["runs"][0]["rounds"] == 3
        assert json.loads(ask(address, f"/runs?after={'9' * 5000}")[1])["all"]
        for path in ("/../secret.txt", "/runs/../../secret.txt", "/%2e%2e/secret.txt", "//etc/passwd", "/runs/a", "/x",
                     "http://[/runs"):  # fmt: skip
            answer, body = ask(address, path)
            assert answer.status == 404 and b"secret" not in body
        port = re.search(r":(\d+)/", address).group(1)
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1.evil.example:{port}"):
            assert ask(address, host=host)[0].status == 403
        assert ask(address, host=f"localhost:{port}")[0].status == 200
        assert ask(address, method="POST")[0].status == 501
        with socket.create_connection(("127.0.0.1", int(port))) as rude:  # leaves in the middle of an answer
            rude.sendall(b"GET /runs HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n" % int(port))
        assert ask(address)[0].status == 200
        assert f"port {port} cannot be used" in run("watch", tmp_path, "--port", port, code=2).stderr


def cell(page, name, key):
    index = page.locator("#table thead th").evaluate_all("(all) => all.map((one) => one.dataset.key)").index(key)
    return page.locator("#table tbody tr", has_text=name).locator(f":nth-child({index + 1})")


def test_the_page_follows_runs_that_come_grow_are_cut_and_go(visit, tmp_path):
    record(tmp_path / "first", 5)
    record(tmp_path / "second", 5)
    with watching(tmp_path) as address:
        page = visit(address)
        page.locator("#live", has_text="last change").wait_for()
        page.fill("#search", "s")
        page.focus("#search")
        record(tmp_path / "third-s", 7)
        page.locator("#table tbody tr", has_text="third-s").wait_for()
        record(tmp_path / "first", 30, 6)
        page.locator("#table tbody tr", has_text="first").locator("td", has_text=re.compile(r"^35$")).first.wait_for()
        assert page.evaluate("document.activeElement.id") == "search" and page.input_value("#search") == "s"
        path = tmp_path / "second" / "trajectory.jsonl"
        path.write_bytes(path.read_bytes()[:-10])
        page.locator("#table tbody tr", has_text="second").locator("td", has_text=re.compile(r"^4$")).first.wait_for()
        shutil.rmtree(tmp_path / "second")
        page.locator("#table tbody tr", has_text="second").wait_for(state="detached")
        page.reload()
        page.locator("#table tbody tr", has_text="third-s").wait_for()
        assert page.locator("#table tbody tr").count() == 2


def test_a_server_that_comes_back_is_found_again(browser, tmp_path):
    record(tmp_path / "first", 5)
    with watching(tmp_path) as address:
        port = re.search(r":(\d+)/", address).group(1)
        context = browser.new_context()
        page = context.new_page()
        page.goto(address)
        page.locator("#live", has_text="last change").wait_for()
    page.locator("#live", has_text="does not answer").wait_for()
    record(tmp_path / "second", 5)
    with watching(tmp_path, "--port", port):
        page.locator("#table tbody tr", has_text="second").wait_for()
        page.locator("#live", has_text="last change").wait_for()
    context.close()


def test_live_during_the_demo_and_its_report_afterwards(visit, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    (tmp_path / "runs").mkdir()
    with watching(tmp_path / "runs") as address:
        page = visit(address)
        page.locator("#live", has_text="nothing is recorded yet").wait_for()
        with started(*FEDHALT, "run", *DEMO, "--out", tmp_path / "runs", "--workers", 1, stdout=None) as demo:
            rounds = 0
            for _ in range(3):
                wait_for("another round", lambda: sum(rounds_in(tmp_path / "runs")) > rounds, demo)  # noqa: B023
                demo.send_signal(signal.SIGSTOP)  # what the page must show is what is there
                rounds = sum(rounds_in(tmp_path / "runs"))
                page.locator("#lead", has_text=f"1 run, {rounds} recorded").wait_for()
                demo.send_signal(signal.SIGCONT)
            assert demo.wait() == 0
            (file,) = (tmp_path / "runs").glob("*/trajectory.jsonl")
            trajectory = Trajectory.load(file)  # whose rounds differ between kinds of processors
            page.locator("#lead", has_text=f"1 run, {len(trajectory)} recorded rounds").wait_for()
        live = page.locator("#tiles").text_content()
        stops = {name: stop_round(named_rule(name).rule, trajectory) for name in RULES}
        assert f"round {stops['growth']}" in live and None not in stops.values()
        page.close()  # before its server
    run("report", tmp_path / "runs", "-o", tmp_path / "page.html")
    page = visit((tmp_path / "page.html").as_uri())
    assert page.locator("#tiles").text_content() == live
    rows = page.locator("#detail table").first.locator("tbody tr").all_text_contents()
    assert "(watched)" not in rows[0] and rows[0].startswith("growth") and f"{stops['growth']}growth below" in rows[0]
    for name, saw in (("val-loss", "loss not"), ("val-accuracy", "accuracy not")):
        assert any(name in row and f"(watched){stops[name]}{saw}" in row for row in rows)


def test_the_terminal_shows_the_same(tmp_path):
    path = record(tmp_path / "runs" / "[red]first", 60)
    record(tmp_path / "runs" / "second", 3)
    (tmp_path / "runs" / "bad").mkdir()
    (tmp_path / "runs" / "bad" / "trajectory.jsonl").write_text("no\n")
    with started(*FEDHALT, "watch", tmp_path / "runs", "--terminal", "--threshold", 0.05, "--patience", 3) as process:
        shown = read_until(process, "runs stopped")
        stop = stop_round(GrowthRate(0.05, 3), Trajectory.load(path))
        assert re.search(
            rf"\[red\]first +60 +- +{stop} +{1 - stop / 60:.0%} +[0-9.]+% +growth below threshold", shown
        ), shown
        assert re.search(r"second +3 ", shown) and re.search(r"bad +- ", shown)
        assert "growth threshold=0.05 patience=3: 1 of 3 runs stopped" in shown
        record(tmp_path / "runs" / "second", 1, 4)
        assert re.search(r"second +4 ", read_until(process, "runs stopped"))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate()
        assert process.returncode == 0 and err == ""


def test_a_real_terminal_is_redrawn_in_place(tmp_path):
    record(tmp_path / "runs" / "only", 3)
    master, slave = os.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120", "LINES": "30"}
    terminal = {"stdout": slave, "stderr": slave, "stdin": slave, "env": environment}
    with (
        os.fdopen(master, "rb", buffering=0) as screen,
        started(*FEDHALT, "watch", tmp_path / "runs", "--terminal", **terminal) as process,
    ):
        os.close(slave)
        shown = b""
        for rounds in (3, 4):
            while not re.search(rb"only +%d " % rounds, shown):
                shown += screen.read(4096)  # an error once the process has ended
            record(tmp_path / "runs" / "only", 1, rounds + 1)
        assert b"\x1b[2K" in shown  # lines are erased, not repeated
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0
