"""A sweep: nothing is repeated and nothing is lost, whatever is killed; the two stages; the command line."""

import json
import os
import signal
import subprocess

import pytest

pytest.importorskip("torch")
pytest.importorskip("sklearn")

from helpers.commands import FEDHALT, started, wait_for
from helpers.records import rounds_in, rows_of
from helpers.specs import SCREEN, SMALL, write_toml

from fedhalt import Trajectory, TwoStages, replay
from fedhalt.rules import is_hopeless, motion
from fedhalt.simulation.runner import run
from fedhalt.simulation.spec import RunSpec
from fedhalt.tuning import plans as plan
from fedhalt.tuning.sweeps import best, sweep
from fedhalt.views import words

SPACE = {**SMALL, "lr": [0.05, 2.0]}  # the second breaks training: its loss stays above that of guessing


def small(tmp_path, **settings):
    table = {"space": SPACE, "rounds": 8, "out": str(tmp_path / "runs"), "screen": SCREEN}
    return plan.plan({**table, **settings})


def toml(tmp_path, **settings):
    lines = {"rounds": 8, "out": str(tmp_path / "runs"), "screen": SCREEN, "space": SPACE, **settings}
    return write_toml(tmp_path / "sweep.toml", **lines)


def records(out):
    return {path.parent.name: rows_of(path) for path in sorted(out.glob("*/trajectory.jsonl"))}


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
        cost, saved = trial.outcome.cost, trial.outcome.saved
        assert cost.rounds == len(rows) == trial.outcome.rounds == 8 - saved.rounds < 8
        assert cost.bytes == sum(row["bytes_up"] + row["bytes_down"] for row in rows)
        stages = TwoStages(read.screen.rule, read.converge.rule)  # the adapters' rule says the same
        stop = next(status for status in replay(stages, rows) if status.stop)
        assert stop.round == len(rows) and is_hopeless(stop.reason) == (trial.state == "screened")
        assert (trial.outcome.exponent, trial.outcome.motion) == (stop.exponent, stop.motion)
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
    assert all(trial.state == "converged" and trial.outcome.rounds < 8 for trial in judged)
    assert {path: path.stat().st_mtime_ns for path in before} == before  # another rule is replayed, not trained


@pytest.mark.parametrize("parallel", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_killed_at_any_moment_it_goes_on_to_the_same_records(parallel, tmp_path, fedhalt):
    sweep(small(tmp_path / "whole"))
    file, out = toml(tmp_path / "killed"), tmp_path / "killed" / "runs"
    for rounds in (2,) if parallel == 1 else (3, 9):
        with started(*FEDHALT, "sweep", file, "--parallel", parallel) as process:
            wait_for(f"{rounds} rounds", lambda: sum(rounds_in(out)) >= rounds, process)  # noqa: B023
    code, stdout, _ = fedhalt("sweep", file, "--parallel", parallel, "--json")  # orphans may hold a folder: it waits
    assert code == 0 and records(out) == records(tmp_path / "whole" / "runs")
    assert {trial["state"] for trial in json.loads(stdout)["trials"]} == {"complete", "screened"}


def test_workers_killed_or_interrupted_lose_nothing(tmp_path):
    file = toml(tmp_path, rounds=400, screen=False, converge=False, space={**SMALL, "lr": [0.05, 0.06]})
    runs = tmp_path / "runs"

    def went_on(then):
        return all(now > before + 1 for now, before in zip(rounds_in(runs), then, strict=True))

    with started(*FEDHALT, "sweep", file, "--parallel", 2) as process:
        wait_for("both to begin", lambda: len(rounds_in(runs)) == 2 and min(rounds_in(runs)) > 1, process)
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(process.pid)], capture_output=True, text=True)
        os.kill(int(children.stdout.split()[0]), signal.SIGKILL)
        then = rounds_in(runs)
        wait_for("both to go on", lambda: went_on(then), process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (
        process.returncode == 130 and "stopping after this round" in err and "run the same command to resume" in out
    ), out + err
    assert "lost" in out and out.count("interrupted") >= 2 and "Traceback" not in err


def test_two_sweeps_on_one_folder_share_the_work(tmp_path):
    file = toml(tmp_path, rounds=25, screen=False, converge=False)
    line = [*FEDHALT, "sweep", file, "--json"]
    with started(*line) as one, started(*line) as other:
        found = [process.communicate() for process in (one, other)]
    assert (one.returncode, other.returncode) == (0, 0), found
    first, second = ([trial["state"] for trial in json.loads(out)["trials"]] for out, _ in found)
    assert first == second == ["complete"] * 2


def test_the_lines_tell_a_stranger_what_happened(tmp_path, fedhalt):
    code, out, _ = fedhalt("sweep", toml(tmp_path))
    assert code == 0 and "trial 1/2  lr 0.05  running" in out
    assert "trial 2/2  lr 2  screened  after" in out and "(updates cancel out; model " in out
    assert "saved so far" in out and "best val_loss" in out and "MB" in out


def test_a_live_table_shows_running_trials_and_the_best(tmp_path):
    from rich.console import Console

    from fedhalt.views.terminal.sweep import COLUMNS, SweepDisplay

    read = small(tmp_path)
    console = Console(force_terminal=True, width=240, height=30, record=True)
    with SweepDisplay(console, read, tuple(COLUMNS)) as shown:
        shown.drawn = -1.0
        frames = []

        def seen(trials, total):
            shown.drawn = -1.0
            shown(trials, total)
            with console.capture() as text:
                console.print(shown.live.renderable)
            frames.append(text.get())

        sweep(read, seen)
    (third,) = {line for frame in frames for line in frame.splitlines() if "lr 0.05 " in line and " 3/8 " in line}
    (first, _) = sorted(sweep(read), key=lambda trial: trial.number)
    rows = Trajectory.load(tmp_path / "runs" / first.spec.id / "trajectory.jsonl").rows
    assert "running" in third and words.format_motion(*motion.of(rows[:3])) in third
    assert words.format_motion(first.outcome.exponent, first.outcome.motion) in frames[-1]
    assert "updates cancel out" in frames[-1] and "best" in frames[-1] and "2 of 2 trials ended" in frames[-1]


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
