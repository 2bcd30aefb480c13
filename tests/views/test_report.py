"""`fedhalt report` as a stranger uses it: every kind of record, hundreds of them, odd names, damaged files."""

import base64
import gzip
import math
import os
import re
import signal

import numpy as np
import pytest

from fedhalt import EarlyStopper, GrowthRate, Trajectory, files, replay, rules
from fedhalt.records import lines

EVIL = '<script>alert("1")</script><img src=x onerror=alert(1)>\'"&</title>'


def data(file):
    """What the page is given."""
    (text,) = re.findall(r'<script type="application/octet-stream" id="data">(.*?)</script>', file.read_text(), re.S)
    return files.from_json(gzip.decompress(base64.b64decode(text)).decode())["runs"]


def numbers(column):
    kind = np.dtype(column["kind"])
    planes = np.frombuffer(base64.b64decode(column["data"]), np.uint8).reshape(kind.itemsize, -1)
    found = np.ascontiguousarray(planes.T).view(kind)[:, 0]
    return column["low"] + found * column["step"] if column["kind"] == "u2" else found


def recorded(path, rounds=60, seed=0, **header):
    """A record with the columns of `fedhalt run`."""
    draw = np.random.default_rng(seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    names = ("val_loss", "val_accuracy", "val_balanced_accuracy", "val_f1", "test_loss", "test_accuracy",
             "test_balanced_accuracy", "test_f1", "client_loss", "client_accuracy", "seconds", "lr")  # fmt: skip
    rows = [
        {"round": r, "distance": r**0.6 * draw.random(), "update_norm": draw.random(), "parameter_norm": draw.random(),
         "alignment": draw.random(), "growth": None if r == 1 else draw.random(), "cohort": [1, 2], "steps": [3, 4],
         "bytes_down": 244_200, "bytes_up": 244_200, **{name: draw.random() for name in names}}
        for r in range(1, rounds + 1)
    ]  # fmt: skip
    # all lines at once: this is no test of appending
    path.write_bytes(lines.to_header(header) + b"".join(map(lines.to_line, rows)))
    return rows


def test_a_hundred_runs_of_five_hundred_rounds_stay_under_six_megabytes(tmp_path, said):
    spec = {"method": "fedavg", "skew": "dirichlet", "c": 0.1, "lr": 0.1, "hyperparameters": {"server_lr": 1.0}}
    for k in range(100):
        rows = recorded(tmp_path / "runs" / f"run-{k}" / "trajectory.jsonl", 500, k, spec=spec)
    said = said("report", tmp_path / "runs", "-o", tmp_path / "page.html")
    size = (tmp_path / "page.html").stat().st_size
    assert size < 6e6 and "100 runs" in said
    last = next(run for run in data(tmp_path / "page.html") if run["name"] == "run-99")
    for column in ("val_loss", "val_accuracy"):
        assert list(numbers(last["columns"][column])) == [row[column] for row in rows]  # to the last bit
    for name in ("growth", "forward", "wandering"):
        found = [status.signal for status in replay(rules.create(name), rows) if status.signal is not None]
        assert list(numbers(last["signals"][name])) == found
    largest = max(row["distance"] for row in rows)
    assert numbers(last["columns"]["distance"]) == pytest.approx([row["distance"] for row in rows], abs=1e-5 * largest)
    assert last["spec"] == spec and last["rounds"] == 500


def test_the_file_is_whole_in_itself(tmp_path, said):
    recorded(tmp_path / "run" / "trajectory.jsonl")
    said("report", tmp_path / "run", "-o", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "default-src 'none'" in text.replace("&#x27;", "'") and "connect-src 'none'" in text.replace("&#x27;", "'")
    links = (
        re.findall(r'(?:src|href)="([^"]*)"', text) + re.findall(r"url\(([^)]*)\)", text) + re.findall("@import", text)
    )
    assert [link for link in links if not link.startswith(("#", "data:"))] == []
    assert set(re.findall(r"https?://[^\s\"'`]+", text)) <= {"http://www.w3.org/2000/svg"}  # a name, no address


def test_every_kind_of_record(tmp_path, said):
    recorded(tmp_path / "runs" / "whole" / "trajectory.jsonl")
    stopper = EarlyStopper(np.zeros(2), 0.05, 3, trajectory=tmp_path / "runs" / "stopper" / "trajectory.jsonl")
    for r in range(1, 20):
        stopper.update(np.full(2, r**0.5))
    gaps = Trajectory.create(tmp_path / "gaps.jsonl")
    for r in (1, 2, 5, 9):
        gaps.append({"round": r, "distance": math.inf if r == 9 else float(r), "my_accuracy": None if r == 2 else 0.5})
    (tmp_path / "old.csv").write_text("round,distance,val_loss\n1,1.0,2.5\n2,1.5,\n3,NaN,n/a\n")
    (tmp_path / "runs" / "cut").mkdir()
    whole = (tmp_path / "runs" / "whole" / "trajectory.jsonl").read_bytes()
    (tmp_path / "runs" / "cut" / "trajectory.jsonl").write_bytes(whole[:-30])
    (tmp_path / "runs" / "begun").mkdir()
    (tmp_path / "runs" / "begun" / "trajectory.jsonl").write_bytes(whole.split(b"\n")[0] + b"\n")
    said("report", tmp_path / "runs", tmp_path / "gaps.jsonl", tmp_path / "old.csv", "-o", tmp_path / "page.html")
    runs = {run["name"]: run for run in data(tmp_path / "page.html")}
    assert set(runs) == {"whole", "stopper", "gaps.jsonl", "old.csv", "cut", "begun"}
    assert runs["stopper"]["watched"] == [{"rule": "growth", "threshold": 0.05, "patience": 3}]
    assert runs["gaps.jsonl"]["rounds"] == [1, 2, 5, 9] and runs["cut"]["rounds"] == 59 and runs["begun"]["rounds"] == 0
    assert runs["gaps.jsonl"]["columns"]["my_accuracy"]["at"] == [0, 2, 3]
    assert numbers(runs["gaps.jsonl"]["columns"]["distance"])[-1] == math.inf
    assert runs["old.csv"]["columns"]["val_loss"] == {
        "kind": "f8", "data": base64.b64encode(np.array([2.5]).tobytes()).decode(), "at": [0], "bad": 2,
    }  # fmt: skip
    assert math.isnan(numbers(runs["old.csv"]["columns"]["distance"])[2])


def test_runs_of_the_same_name_are_told_apart(tmp_path, said):
    for place in ("a", "b"):
        recorded(tmp_path / place / "run" / "trajectory.jsonl", 3)
    said("report", tmp_path, "-o", tmp_path / "page.html")
    assert [run["name"] for run in data(tmp_path / "page.html")] == [
        str(tmp_path / place / "run" / "trajectory.jsonl") for place in ("a", "b")
    ]


def test_names_and_titles_cannot_leave_their_place(tmp_path, said):
    recorded(tmp_path / "runs" / EVIL.replace("/", "_") / "trajectory.jsonl", 3, spec={"method": EVIL})
    said("report", tmp_path / "runs", "-o", tmp_path / "page.html", "--title", EVIL)
    text = (tmp_path / "page.html").read_text()
    assert text.count("<script") == 3 and text.count("</script>") == 3 and "<img" not in text and "&lt;script" in text
    assert data(tmp_path / "page.html")[0]["spec"] == {"method": EVIL}


def test_a_damaged_file_is_named_and_the_others_are_shown(tmp_path, said):
    recorded(tmp_path / "runs" / "good" / "trajectory.jsonl", 3)
    (tmp_path / "runs" / "bad").mkdir()
    (tmp_path / "runs" / "bad" / "trajectory.jsonl").write_text("no record\n")
    assert "2 runs, 1 of them unreadable" in said("report", tmp_path / "runs", "-o", tmp_path / "page.html")
    bad, good = data(tmp_path / "page.html")
    assert "is not a fedhalt trajectory" in bad["problem"] and "problem" not in good and good["rounds"] == 3
    error = said("report", tmp_path / "runs" / "bad", "-o", tmp_path / "none.html", code=2)
    assert "is not a fedhalt trajectory" in error and not (tmp_path / "none.html").exists()


@pytest.mark.parametrize("paths, says", [
    (["nowhere"], "nowhere does not exist"), (["empty"], "no trajectory.jsonl under empty"),
    (["model.npz"], "is a saved model"),
])  # fmt: skip
def test_what_is_no_record_is_refused_with_a_sentence(tmp_path, monkeypatch, paths, says, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "model.npz").touch()
    assert says in said("report", *paths, code=2)


@pytest.mark.parametrize("arguments, says", [
    ([".", "--port", "x"], "port must be a whole number"),
    ([".", "--rule", "grow"], "did you mean 'growth'"), ([".", "--threshold", "0"], "threshold must be"),
    ([".", "--patience", "many"], "patience must be a whole number"),
])  # fmt: skip
def test_watch_checks_what_it_is_given(tmp_path, monkeypatch, arguments, says, said):
    monkeypatch.chdir(tmp_path)
    assert says in said("watch", *arguments, code=2)


def test_a_place_that_cannot_be_written_is_named(tmp_path, said):
    recorded(tmp_path / "run" / "trajectory.jsonl", 3)
    assert "nowhere" in said("report", tmp_path / "run", "-o", tmp_path / "nowhere" / "page.html", code=2)


def test_every_rule_reads_what_is_kept_exactly():
    from fedhalt.views.page.data import EXACT
    from fedhalt.views.page.signals import on_page

    made = [rules.create(name) for name in on_page()]
    assert all(isinstance(rule, rules.OnSignal) or set(rule.reads) <= set(EXACT) for rule in made)


def test_rules_that_a_page_cannot_repeat_are_not_called_watched(tmp_path):
    from fedhalt.views.page.data import loaded

    for k, (rule, listed) in enumerate([
        (GrowthRate(0.05, 3), True), (GrowthRate(0.05, 3, start_from_round=9), False),
        (rules.Plateau("my_loss", higher_is_better=False), False), (rules.AnyOf(GrowthRate(), rules.Budget(9)), False),
        (rules.Budget(9), True), (rules.Plateau("val_loss", 0.2, 4), True),
    ]):  # fmt: skip
        path = tmp_path / f"{k}.jsonl"
        EarlyStopper(rule=rule, trajectory=path)
        assert len(loaded(path, "it")["watched"]) == listed, rule


def test_many_runs_are_read_by_several_processes_to_the_same_page(tmp_path, said, monkeypatch):
    for index in range(5):
        made = Trajectory.create(tmp_path / f"run-{index}" / "trajectory.jsonl")
        for r in range(1, 4):
            made.append({"distance": r**0.5 + index})
    (tmp_path / "run-4" / "trajectory.jsonl").write_text("no record")
    said("report", tmp_path, "-o", tmp_path / "one.html")
    monkeypatch.setattr("fedhalt.cli.report.MANY", 2)
    assert "5 runs, 1 of them unreadable" in said("report", tmp_path, "-o", tmp_path / "several.html")
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "several.html").read_bytes()


def kill_this_process(file, name):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_reader_is_named(tmp_path, said, monkeypatch):
    for index in range(2):
        Trajectory.create(tmp_path / f"run-{index}" / "trajectory.jsonl").append({"distance": 1.0})
    monkeypatch.setattr("fedhalt.cli.report.MANY", 2)
    monkeypatch.setattr("fedhalt.views.page.written", kill_this_process)
    assert "was killed" in said("report", tmp_path, "-o", tmp_path / "page.html", code=2)
