"""The command line itself: help, spelling, completion, errors, pipes and signals."""

import json
import os
import re
import signal
import subprocess

import pytest
from helpers.commands import FEDHALT, read_until, run, started

from fedhalt import Trajectory
from fedhalt.cli.app import COMMANDS, SIMULATOR
from fedhalt.rules import RULES

needs_torch = pytest.mark.skipif(
    subprocess.run([*FEDHALT, "methods"], capture_output=True).returncode != 0, reason="needs the extra `sim`"
)


@pytest.fixture
def recorded(tmp_path):
    """A run of 60 rounds of the 200 that were planned."""
    trajectory = Trajectory.create(tmp_path / "runs" / "one" / "trajectory.jsonl", budget=200)
    for r in range(1, 61):
        trajectory.append({"distance": r**0.5, "test_accuracy": None if r % 2 else 1 - 1 / r})
    return tmp_path / "runs"


def words(text):
    return re.sub(r"[│╭╮╰╯─\s]+", " ", text)


def test_commands_stand_in_the_order_in_which_people_meet_them(said):
    shown = said("--help")
    places = [shown.index(f"│ {name} ") for name in COMMANDS]
    assert places == sorted(places) and "--install-completion" in shown


@needs_torch
@pytest.mark.parametrize("name", SIMULATOR)
def test_a_command_that_is_not_loaded_says_what_it_says_when_it_is(name, said):
    assert SIMULATOR[name] in words(said(name, "--help"))
    assert SIMULATOR[name] in words(said("--help"))


@needs_torch
@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_80_columns_and_states_types(name, said, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = said(name, "--help")
    assert max(map(len, shown.splitlines())) <= 80 and " TEXT " not in shown


@needs_torch
def test_the_help_of_run_begins_with_a_first_run_and_lists_the_rules(said, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = said("run", "--help")
    first = shown.index("fedhalt run --clients 20")
    assert first < shown.index("growth-authors") < shown.index("─ Data ─")
    for name in RULES:
        assert re.search(rf"^ {name} +\w", shown, re.MULTILINE)
    assert shown.count("(needs validation data)") == 2
    panels = ["Data", "Model", "Federation", "Method", "Local training", "Stopping", "Running"]
    assert [name for name in re.findall(r"╭─ ([A-Za-z ]+) ─", shown) if name != "Options"] == panels
    for line in ("--rounds INTEGER [x>=1]", "--lr FLOAT [x>0]", "--stop [all|first|never]", "--rule RULE,…"):
        assert line in words(shown)


@pytest.mark.parametrize("args, sentence", [
    (["replay", "x.jsonl", "--rule", "growth", "val-loss"], "commas between them: --rule growth,val-loss"),
    (["replay", "x.jsonl", "--threshold=0.1", "0.2"], "commas between them: --threshold 0.1,0.2"),
    (["replay", "x.jsonl", "--threshold", "0.1,"], "--threshold takes values with commas between them"),
    (["replay", "x.jsonl", "--tau", "0.1"], "No such option --tau; use --threshold"),
    (["watch", "x.jsonl", "--rho", "3"], "No such option --rho; use --patience"),
    (["replay"], "Missing argument 'PATH...' (try fedhalt replay --help)"),
    (["watch", ".", "--port", "65536"], "--port must be at most 65535"),
    (["nothing"], "No such command 'nothing'"),
    (["reporte"], "No such command 'reporte'. Did you mean 'report', 'reproduce'? (try fedhalt --help)"),
])  # fmt: skip
def test_old_spellings_and_mistakes_end_in_one_line(args, sentence, said):
    error = said(*args, code=2)
    assert error.startswith("fedhalt: ") and sentence in error and error.count("\n") == 1


@needs_torch
@pytest.mark.parametrize("args, sentence", [
    (["--watch", "growth"], "--watch is called --rule now: --rule growth,val-loss"),
    (["--rule", "growth", "val-loss"], "--rule growth,val-loss"),
    (["--method", "fedavg", "--rho", "10"], "fedavg has no hyperparameter rho; the rule's patience is --patience"),
    (["--method", "fedsam", "--tau", "1"], "fedsam has no hyperparameter tau; the rule's threshold is --threshold"),
    (["--method", "fedavgg"], "did you mean 'fedavg'?"),
    (["--momentum", "1"], "--momentum must be below 1"),
    (["--average", "many"], "average must be a number of rounds such as 10, or 'running:10', not 'many'"),
    (["--track", "mlfow"], "--track must be one of"),
])  # fmt: skip
def test_mistakes_of_a_run_name_the_option(args, sentence, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sentence in said("run", *args, code=2) and not list(tmp_path.iterdir())


def test_a_path_that_is_called_as_a_rule_is_a_path(recorded, monkeypatch, said):
    (recorded / "one").rename(recorded / "val-loss")
    monkeypatch.chdir(recorded)
    (found,) = json.loads(said("replay", "--rule", "growth", "val-loss", "--json"))
    assert found["rule"] == "growth" and found["file"] == "val-loss"


@pytest.mark.parametrize("line, expected", [
    ("fedhalt r", "run replay report reproduce"),
    ("fedhalt replay --rule val", "val-loss val-accuracy"),
    ("fedhalt replay --rule growth,val-l", "growth,val-loss"),
    pytest.param("fedhalt run --method fedp", "fedprox", marks=needs_torch),
    pytest.param("fedhalt run --skew path", "pathological pathological-authors", marks=needs_torch),
    pytest.param("fedhalt run --data d", "digits derma", marks=needs_torch),
])  # fmt: skip
def test_the_shell_completes(line, expected):
    number = len(line.split()) - 1
    environment = {**os.environ, "_FEDHALT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(number)}
    line = [*FEDHALT[:2], "import sys; sys.argv[0] = 'fedhalt'; from fedhalt.cli import main; main()"]
    done = subprocess.run(line, capture_output=True, text=True, env=environment)
    assert done.stdout.split() == expected.split(), done


def test_a_closed_pipe_is_no_error(recorded):
    many = [recorded / "one"] * 3000  # more than a pipe holds
    with started(*FEDHALT, "replay", *many, "--rule", "growth") as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait() == 141


def test_no_escape_codes_without_a_terminal_or_with_no_color(recorded):
    assert "\x1b" not in run("replay", recorded).stdout
    colourless = {**os.environ, "NO_COLOR": "1", "FORCE_COLOR": ""}
    assert "\x1b[3" not in run("replay", recorded, env=colourless).stdout


def test_watch_waits_for_a_folder_that_is_not_there_yet(recorded, tmp_path):
    later = tmp_path / "later"
    with started(*FEDHALT, "watch", later, "--terminal") as process:
        assert f"waiting for {later}" in process.stderr.readline()
        recorded.rename(later)
        assert "one" in read_until(process, "runs stopped")
        process.send_signal(signal.SIGINT)
        assert process.wait() == 0


def test_a_background_job_leaves_ctrl_c_to_what_is_in_front(recorded):
    ignored = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)}
    with started(*FEDHALT, "watch", recorded, "--terminal", **ignored) as process:
        read_until(process, "runs stopped")
        process.send_signal(signal.SIGINT)
        trajectory = Trajectory.resume(recorded / "one" / "trajectory.jsonl")
        trajectory.append({"distance": 9.0, "test_accuracy": 1.0})
        assert re.search(r"one +61", read_until(process, "runs stopped"))
        process.terminate()
        assert process.wait() == -signal.SIGTERM


@needs_torch
def test_a_run_in_the_background_leaves_ctrl_c_alone():
    from fedhalt.cli.interrupt import end_after_this_round

    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        stopping = end_after_this_round()
        signal.raise_signal(signal.SIGINT)
        assert not stopping() and signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
