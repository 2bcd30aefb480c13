"""A sweep: nothing is repeated and nothing is lost, whatever is killed; the two stages; the command line."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from fedhalt import Trajectory, TwoStages, plan, replay
from fedhalt.rules import motion
from fedhalt.run import run
from fedhalt.spec import RunSpec
from fedhalt.sweep import best, sweep

FEDHALT = [sys.executable, "-c", "from fedhalt.cli import main; main()"]
SMALL = {"data": "digits", "clients": 12, "cohort": 4, "epochs": 1, "c": 0.5}
SPACE = {**SMALL, "lr": [0.05, 2.0]}  # the second breaks training: its loss stays above that of guessing
SCREEN = {"threshold": 0.95, "patience": 3}  # early, for tests


def small(tmp_path, **settings):
    table = {"space": SPACE, "rounds": 8, "out": str(tmp_path / "runs"), "screen": SCREEN}
    return plan.plan({**table, **settings})


def toml(tmp_path, **settings):
    lines = {"rounds": 8, "out": str(tmp_path / "runs"), "screen": SCREEN, "space": SPACE, **settings}
    tables = {name: lines.pop(name) for name in ("screen", "space") if lines[name] is not False}
    text = "".join(f"{name} = {json.dumps(value)}\n" for name, value in lines.items())
    for name, table in tables.items():
        text += f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "sweep.toml").write_text(text)
    return tmp_path / "sweep.toml"


def records(out):
    return {
        path.parent.name: [{key: value for key, value in row.items() if key != "seconds"} for row in rows]
        for path in sorted(out.glob("*/trajectory.jsonl"))
        for rows in [Trajectory.load(path).rows]
    }


def test_bad_trials_are_screened_good_ones_end_and_the_best_is_named(tmp_path):
    read = small(tmp_path, converge={"threshold": 0.5, "patience": 3}, space={**SPACE, "method": ["fedavg", "fedsam"]})
    found = sweep(read)
    states = {trial.label: trial.state for trial in found}
    assert states == {
        "fedavg lr=0.05": "converged", "fedavg lr=2": "screened",
        "fedsam lr=0.05": "converged", "fedsam lr=2": "screened",
    }  # fmt: skip
    assert best(found, False).spec.lr == 0.05
    for trial in found:
        rows = Trajectory.load(tmp_path / "runs" / trial.spec.id / "trajectory.jsonl").rows
        cost, saved = trial.outcome["cost"], trial.outcome["saved"]
        assert cost["rounds"] == len(rows) == trial.outcome["rounds"] == 8 - saved["rounds"] < 8
        assert cost["bytes"] == sum(row["bytes_up"] + row["bytes_down"] for row in rows)
        stages = TwoStages(read.screen.rule, read.converge.rule)  # the adapters' rule says the same
        stop = next(status for status in replay(stages, rows) if status.stop)
        assert stop.round == len(rows) and (stop.reason in TwoStages.HOPELESS) == (trial.state == "screened")
        assert (trial.outcome["exponent"], trial.outcome["motion"]) == (stop.exponent, stop.motion)
        assert trial.value == (None if trial.state == "screened" else rows[-1]["val_loss"])


def test_runs_are_those_of_fedhalt_run_and_finished_ones_are_only_read(tmp_path):
    read = small(tmp_path, converge=False, screen=False)
    spec = RunSpec(**SMALL, lr=0.05)
    run(spec, tmp_path / "runs", rounds=3, stop="never", workers=1)  # by hand, not finished
    sweep(read)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*/trajectory.jsonl")}
    assert len(before) == 2 and all(len(rows) == 8 for rows in records(tmp_path / "runs").values())
    run(spec, tmp_path / "alone", rounds=8, stop="never", workers=1)
    assert records(tmp_path / "alone")[spec.id] == records(tmp_path / "runs")[spec.id]
    again = sweep(read)
    judged = sweep(small(tmp_path, converge={"threshold": 0.9, "patience": 2}, screen=False))
    assert [trial.state for trial in again] == ["complete"] * 2
    assert all(trial.state == "converged" and trial.outcome["rounds"] < 8 for trial in judged)
    assert {path: path.stat().st_mtime_ns for path in before} == before  # another rule is replayed, not trained


def begun(out, rounds):
    return sum(max(0, path.read_bytes().count(b"\n") - 1) for path in out.glob("*/trajectory.jsonl")) >= rounds


def until(condition, process, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None and time.monotonic() < end, process.communicate()
        time.sleep(0.01)


def start(file, *args):
    pipe = subprocess.PIPE
    return subprocess.Popen([*FEDHALT, "sweep", str(file), *map(str, args)], stdout=pipe, stderr=pipe, text=True)


@pytest.mark.parametrize("parallel", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_killed_at_any_moment_it_goes_on_to_the_same_records(parallel, tmp_path, fedhalt):
    sweep(small(tmp_path / "whole"))
    file, out = toml(tmp_path / "killed"), tmp_path / "killed" / "runs"
    for rounds in (2,) if parallel == 1 else (3, 9):
        process = start(file, "--parallel", parallel)
        until(lambda: begun(out, rounds), process)  # noqa: B023
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    code, stdout, _ = fedhalt("sweep", file, "--parallel", parallel, "--json")  # orphans may hold a folder: it waits
    assert code == 0 and records(out) == records(tmp_path / "whole" / "runs")
    assert {trial["state"] for trial in json.loads(stdout)["trials"]} == {"complete", "screened"}


def test_workers_killed_or_interrupted_lose_nothing(tmp_path):
    file = toml(tmp_path, rounds=400, screen=False, converge=False, space={**SMALL, "lr": [0.05, 0.06]})
    process = start(file, "--parallel", 2)

    def lengths():
        return [path.read_bytes().count(b"\n") for path in sorted((tmp_path / "runs").glob("*/trajectory.jsonl"))]

    until(lambda: len(lengths()) == 2 and min(lengths()) > 2, process)
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True).stdout
    os.kill(int(children.split()[0]), signal.SIGKILL)
    then = lengths()
    until(lambda: all(now > before + 1 for now, before in zip(lengths(), then, strict=True)), process)  # both went on
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "ending after this round" in err and "the same command goes on" in out, (
        out + err
    )
    assert "lost" in out and out.count("interrupted") >= 2 and "Traceback" not in err


def test_two_sweeps_on_one_folder_share_the_work(tmp_path):
    file = toml(tmp_path, rounds=25, screen=False, converge=False)
    both = [start(file, "--json"), start(file, "--json")]
    found = [process.communicate(timeout=240) for process in both]
    assert [process.returncode for process in both] == [0, 0], found
    first, second = ([trial["state"] for trial in json.loads(out)["trials"]] for out, _ in found)
    assert first == second == ["complete"] * 2


def test_the_lines_tell_a_stranger_what_happened(tmp_path, fedhalt):
    code, out, _ = fedhalt("sweep", toml(tmp_path))
    assert code == 0 and "trial 1/2  lr=0.05  running" in out
    assert "trial 2/2  lr=2  screened  after" in out and "(wandering; exponent " in out
    assert "saved so far" in out and "best val_loss" in out and "MB" in out


def test_a_live_table_shows_running_trials_and_the_best(tmp_path):
    from rich.console import Console

    from fedhalt.table import Screen

    read = small(tmp_path)
    console = Console(force_terminal=True, width=140, height=30, record=True)
    with Screen(console, read) as shown:
        shown.last = -1.0
        frames = []

        def seen(trials, total):
            shown.last = -1.0
            shown(trials, total)
            with console.capture() as text:
                console.print(shown.live.renderable)
            frames.append(text.get())

        sweep(read, seen)
    (third,) = {line for frame in frames for line in frame.splitlines() if "1  lr=0.05" in line and " 3/8 " in line}
    (first, _) = sorted(sweep(read), key=lambda trial: trial.number)
    rows = Trajectory.load(tmp_path / "runs" / first.spec.id / "trajectory.jsonl").rows
    assert "running" in third and motion.told(*motion.of(rows[:3])) in third
    assert motion.told(first.outcome["exponent"], first.outcome["motion"]) in frames[-1]
    assert "screened (wandering)" in frames[-1] and "best" in frames[-1] and "2 of 2 trials ended" in frames[-1]


def test_objectives_accuracy_clients_and_none(tmp_path):
    two = {**SMALL, "lr": [0.001, 0.05], "held_out": 0.3}
    for objective in ("val_accuracy", "client_loss"):
        found = sweep(small(tmp_path, space=two, objective=objective, screen=False, converge=False))
        rows = records(tmp_path / "runs")
        assert [trial.value for trial in found] == [rows[trial.spec.id][-1][objective] for trial in found]
        values = [trial.value for trial in found]
        assert best(found, objective == "val_accuracy").value == (max if objective == "val_accuracy" else min)(values)
    blind = {**SPACE, "evaluate_every": 0}
    found = sweep(small(tmp_path, space=blind, objective="none"))
    assert [trial.state for trial in found] == ["complete", "screened"] and best(found, False) is None


MANY = "sampler = 'tpe'\ntrials = 2\nstorage = '{}'\n[space]\nlr = [0.1, 0.2]"


@pytest.mark.parametrize("text, words", [
    ("", ["empty"]),
    ("[space]", ["empty"]),
    ("[space]\nlr = []", ["lr = []"]),
    ("[space]\nlr = {low = 1.0, high = 0.1}", ["contradictory"]),
    ("[space]\nmethod = 'fedavg'\nlam = [0.1]", ["lam", "fedavg"]),
    ("[space]\nlr = ", ["not a TOML file"]),
    ("[space]\ndata = 'bloood'\nlr = [0.1]", ["every trial failed", "bloood", "blood"]),
    ("[space]\nlr = [0.1]\n[compare]", ["compare"]),
    (MANY.format("sqlite:////nowhere/at/all/study.db"), ["not there", "/nowhere/at/all"]),
    (MANY.format("study.db"), ["sqlite:///study.db"]),
    (MANY.format("mongodb://x/y"), ["mongodb", "postgresql"]),
])  # fmt: skip
def test_mistakes_end_in_one_sentence(text, words, tmp_path, monkeypatch, fedhalt):
    if "storage" in text:
        pytest.importorskip("optuna")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweep.toml").write_text(text)
    code, _, err = fedhalt("sweep", "sweep.toml")
    assert code == 2 and all(word in err for word in words) and "Traceback" not in err, err


@pytest.mark.parametrize("args, words", [
    (["nothing.toml"], ["nothing.toml"]),
    (["sweep.toml", "--picture", "x.png"], ["--compare"]),
    (["sweep.toml", "--parallel", "many"], ["parallel", "many"]),
    (["sweep.toml", "--sampler", "tpe", "--trials", 2, "--compare"], ["grid or random", "tpe"]),
    (["sweep.toml", "--address", "auto"], ["ray"]),
])  # fmt: skip
def test_mistakes_on_the_command_line(args, words, tmp_path, monkeypatch, fedhalt):
    toml(tmp_path)
    monkeypatch.chdir(tmp_path)
    code, _, err = fedhalt("sweep", *args)
    assert code == 2 and all(word in err for word in words), err
