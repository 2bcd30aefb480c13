"""`fedhalt replay` as a stranger uses it: real files, real mistakes."""

import json
import os
import subprocess
import time

import numpy as np
import pytest
from helpers.commands import FEDHALT, LIMIT, run, started
from hypothesis import given, settings
from hypothesis import strategies as st

from fedhalt import FedhaltError, GrowthRate, Trajectory, squared_distance, stop_round


@pytest.fixture
def replay(said):
    """What `fedhalt replay --json` finds."""
    return lambda *args: json.loads(said("replay", "--json", *args))


def listed(values):
    return ",".join(map(str, values))


@pytest.fixture
def recorded(tmp_path):
    trajectory = Trajectory.create(tmp_path / "run.jsonl")
    for r in range(1, 201):
        trajectory.append({"distance": r**0.7, "val_loss": 2 / r, "val_accuracy": 1 - 1 / r, "cohort": [1, 2]})
    return tmp_path / "run.jsonl"


def test_every_combination_of_every_file(recorded, tmp_path, replay):
    second = tmp_path / "second.csv"
    Trajectory.load(recorded).to_csv(second)
    thresholds, patiences = [0.005, 0.01, 0.05, 0.1], [1, 5, 10]
    found = replay(recorded, second, "--rule", "growth", "--threshold", listed(thresholds), "--patience",
                   listed(patiences))  # fmt: skip
    assert len(found) == 24
    distances = Trajectory.load(recorded).column("distance")
    for result in found:
        expected = stop_round(GrowthRate(result["threshold"], result["patience"]), distances)
        assert result["stop_round"] == expected and result["rounds"] == 200 and result["rule"] == "growth"
        assert result["used"] == (expected / 200 if expected else 1.0)
        assert result["reason"] == ("saturated" if expected else "")
        if expected:
            assert result["metrics"]["val_loss"] == pytest.approx(2 / expected)
            assert result["metrics"]["distance"] == pytest.approx(expected**0.7)
    assert {result["file"] for result in found} == {str(recorded), str(second)}
    assert {(r["threshold"], r["patience"]) for r in found} == {(t, p) for t in thresholds for p in patiences}


def test_every_rule_by_its_name(recorded, replay):
    names = ["growth", "growth-authors", "val-loss", "val-accuracy", "difference", "budget"]
    found = replay(recorded, "--rule", listed(names), "--rounds", 50)
    assert [result["rule"] for result in found] == names
    assert [result["stop_round"] for result in found][-1] == 50


def test_rounds_as_pandas_writes_them(tmp_path, replay):
    (tmp_path / "p.csv").write_text("round,distance\n1.0,5\n2.0,5\n3.0,5\n")
    assert replay(tmp_path / "p.csv", "--patience", 2)[0]["stop_round"] == 3


def test_options_may_stand_anywhere_and_be_repeated(recorded, replay):
    one = replay("--threshold", "0.1, 0.05", recorded, "--patience", 3)
    two = replay("--patience", 3, "--threshold", 0.1, "--threshold", 0.05, recorded)
    three = replay("--threshold=0.1,0.05", recorded, "--patience=3")
    assert one == two == three and len(one) == 2


def test_the_table_says_never_and_shows_the_metrics(recorded, said):
    text = said("replay", recorded, "--threshold", "0.1,1e-9")
    assert "never" in text and "val_accuracy" not in text and "growth below threshold" in text
    wide = said("replay", recorded, "--threshold", "0.1,1e-9", "--wide")
    assert "val_accuracy" in wide and "val_loss" in wide and str(recorded) in wide


def test_a_run_folder_and_another_column(recorded, tmp_path, replay):
    (tmp_path / "folder").mkdir()
    os.rename(recorded, tmp_path / "folder" / "trajectory.jsonl")
    direct = replay(tmp_path / "folder", "--threshold", 0.1)
    assert direct[0]["stop_round"] == stop_round(GrowthRate(0.1), [r**0.7 for r in range(1, 201)])
    other = replay(tmp_path / "folder", "--column", "val_loss", "--threshold", 0.1)
    assert other[0]["stop_round"] == stop_round(GrowthRate(0.1), [2 / r for r in range(1, 201)])


def test_a_pipe_is_read_as_a_file_is(recorded):
    expected = run("replay", "--json", recorded).stdout.replace(str(recorded), "/dev/stdin")
    assert run("replay", "--json", "/dev/stdin", input=recorded.read_text()).stdout == expected
    assert "is not a fedhalt trajectory" in run("replay", "/dev/stdin", input="distance\n1\n2\n", code=2).stderr


def test_a_pipe_in_a_run_folder_is_not_waited_for(tmp_path, said):
    os.mkfifo(tmp_path / "trajectory.jsonl")
    assert "is a pipe, not a file" in said("replay", tmp_path, code=2)


def test_names_that_are_no_text_are_shown(recorded, tmp_path):
    strange = tmp_path / os.fsdecode(b"caf\xe9.jsonl")
    recorded.rename(strange)
    assert "\\udce9.jsonl" in run("replay", strange).stdout
    assert json.loads(run("replay", "--json", strange).stdout)[0]["file"] == str(strange)


def test_a_half_written_line_is_noted_and_the_rest_judged(recorded):
    recorded.write_bytes(recorded.read_bytes()[:-9])
    done = run("replay", "--json", recorded)
    assert json.loads(done.stdout)[0]["rounds"] == 199 and "line 201 is half-written" in done.stderr


@pytest.mark.parametrize("args, words", [
    (["run.jsonl", "--rule", "growht"], ["growht", "growth"]),
    (["run.jsonl", "--threshold", "0"], ["threshold", "0"]),
    (["run.jsonl", "--threshold", "nan"], ["threshold", "nan"]),
    (["run.jsonl", "--patience", "-1"], ["patience", "-1"]),
    (["run.jsonl", "--patience", "2.5"], ["2.5"]),
    (["run.jsonl", "--rounds", "9"], ["growth", "rounds", "9"]),
    (["run.jsonl", "--rule", "relative-update"], ["update_norm", "distance"]),
    (["run.jsonl", "--column", "loss"], ["'loss'", "val_loss"]),
    (["run.jsonl", "--start", "x"], ["--start", "--checkpoints"]),
    (["run.jsonl", "--follow"], ["--follow", "--checkpoints"]),
    (["missing.jsonl"], ["missing.jsonl", "No such file"]),
    (["."], ["no round"]),
    (["models"], ["--checkpoints"]),
    (["models/0.npy"], ["saved model", "--checkpoints"]),
    (["runs"], ["runs/a holds no round"]),
    (["bad.csv"], ["bad.csv", "line 3"]),
    (["words.csv"], ["words.csv", "round 2", "'two'"]),
    (["empty.csv"], ["empty"]),
    (["noise.bin"], ["noise.bin"]),
    (["header.csv"], ["no round"]),
    (["twice.csv"], ["two columns of the same name"]),
    (["zero.csv"], ["line 2", "round 0", "count from 1"]),
    (["run.jsonl", "--rule", "budget", "--column", "nothere"], ["nothere"]),
    (["run.jsonl", "--checkpoints"], ["not a folder"]),
    (["models", "--checkpoints"], ["no round"]),
    ([], ["Missing argument"]),
])  # fmt: skip
def test_mistakes_end_in_one_sentence(recorded, tmp_path, monkeypatch, args, words, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_text("round,distance\n1,1.0\n2\n")
    (tmp_path / "words.csv").write_text("distance\n1.0\ntwo\n")
    (tmp_path / "header.csv").write_text("distance\n")
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "twice.csv").write_text("distance,distance\n1,2\n")
    (tmp_path / "zero.csv").write_text("round,distance\n0,2\n")
    (tmp_path / "noise.bin").write_bytes(bytes(range(256)))
    (tmp_path / "models").mkdir()
    Trajectory.create(tmp_path / "runs" / "a" / "trajectory.jsonl")
    np.save(tmp_path / "models" / "0.npy", np.zeros(3))
    error = said("replay", *args, code=2)
    assert all(word in error for word in words), error


def save_models(folder, kind, count=30):
    """Models of a run that slows down, as any framework would save them."""
    torch = pytest.importorskip("torch")
    folder.mkdir()
    for r in range(count):
        params = {"w": np.full((3, 2), r**0.5, np.float32), "b": np.zeros(2, np.float32)}
        path = folder / f"round-{r}.{kind}"
        if kind == "npz":
            np.savez(path, **params)
        elif kind == "npy":
            np.save(path, params["w"])
        elif kind == "safetensors":
            from safetensors.numpy import save_file

            save_file(params, path)
        else:
            tensors = {name: torch.tensor(array) for name, array in params.items()}
            torch.save({"model": tensors, "epoch": r, "rates": [0.1]}, path)


def test_a_model_and_its_optimiser_are_not_measured_together(tmp_path, said, replay):
    torch = pytest.importorskip("torch")
    (tmp_path / "m").mkdir()
    for r in range(3):
        groups = {
            "model": {"w": torch.full((4,), float(r))},
            "opt": {"state": {0: {"exp_avg": torch.full((4,), 9.0 * r)}}},
        }
        torch.save(groups, tmp_path / "m" / f"{r}.pt")
    error = said("replay", tmp_path / "m", "--checkpoints", code=2)
    assert "several groups of arrays (model, opt)" in error and "--include 'model.*'" in error
    args = ["--checkpoints", "--include", "model.*", "--rule", "budget", "--rounds", 2]
    (found,) = replay(tmp_path / "m", *args)
    assert found["metrics"]["distance"] == 4.0 and found["checkpoint"] == "2.pt"
    assert "2  2.pt" in said("replay", tmp_path / "m", *args) and "budget 2" in said("replay", tmp_path / "m", *args)


@pytest.mark.parametrize("kind", ["npz", "npy", "safetensors", "pt", "pth"])
def test_a_folder_of_models_of_any_tool(tmp_path, kind, replay):
    save_models(tmp_path / "models", kind)
    (tmp_path / "models" / "notes.txt").write_text("not a model")
    distances = [(6 * r) ** 0.5 for r in range(1, 30)]
    expected = stop_round(GrowthRate(0.05, 3), distances)
    (found,) = replay(tmp_path / "models", "--checkpoints", "--threshold", 0.05, "--patience", 3)
    assert (found["stop_round"], found["rounds"]) == (expected, 29)  # round-2 came before round-10
    assert found["metrics"]["distance"] == pytest.approx(distances[expected - 1])
    start = tmp_path / "models" / f"round-3.{kind}"
    (other,) = replay(tmp_path / "models", "--checkpoints", "--start", start, "--rule", "relative-update")
    assert other["rounds"] == 29


def test_bfloat16_models_and_patterns(tmp_path, replay):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    (tmp_path / "m").mkdir()
    for r in range(4):
        tensors = {"w": torch.full((4,), float(r)).bfloat16(), "bn.running_mean": torch.full((4,), 100.0 * r)}
        save_file(tensors, tmp_path / "m" / f"{r}.safetensors")
    (found,) = replay(tmp_path / "m", "--checkpoints", "--exclude", "*.running_*", "--rule", "budget", "--rounds", 3)
    assert found["stop_round"] == 3 and found["metrics"]["distance"] == 6.0


def test_a_model_that_would_run_code_is_refused(tmp_path, said):
    torch = pytest.importorskip("torch")
    (tmp_path / "m").mkdir()

    class Trap:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "trapped"),)

    torch.save({"w": torch.zeros(2), "x": Trap()}, tmp_path / "m" / "0.pt")
    np.savez(tmp_path / "m" / "1.npz", w=np.array([Trap()], dtype=object))
    assert "0.pt" in said("replay", tmp_path / "m", "--checkpoints", code=2)
    (tmp_path / "m" / "0.pt").unlink()
    assert "1.npz" in said("replay", tmp_path / "m", "--checkpoints", code=2)
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize("kind", ["npz", "npy", "safetensors", "pt"])
@settings(max_examples=60)
@given(st.data())
def test_fuzzed_models_give_arrays_or_a_sentence(tmp_path_factory, kind, data):
    from fedhalt.records.checkpoints import read

    folder = tmp_path_factory.mktemp("fuzz") / "m"
    save_models(folder, kind, count=1)
    path = folder / f"round-0.{kind}"
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content)))
        content[at : at + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=20))
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content)
    try:
        squared_distance(read(path), read(path))
    except FedhaltError as error:
        assert "\n" not in str(error)


def test_follow_says_when_to_stop_while_models_are_being_written(tmp_path):
    folder = tmp_path / "models"
    folder.mkdir()
    args = ["replay", folder, "--checkpoints", "--follow", "--interval", 0.05, "--threshold", 0.2, "--patience", 2]
    with started(*FEDHALT, *args) as watcher:
        distances = []
        for r in range(100):
            np.save(tmp_path / "next.npy", np.full(4, float(r)))
            content = (tmp_path / "next.npy").read_bytes()
            with open(folder / f"{r}.npy", "wb") as file:  # slowly: half a file is there for a while
                file.write(content[: len(content) // 2])
                file.flush()
                time.sleep(0.08)
                file.write(content[len(content) // 2 :])
            distances.append(2.0 * r)
            if watcher.poll() is not None:
                break
        out, err = watcher.communicate()
    expected = stop_round(GrowthRate(0.2, 2), distances[1:])
    assert watcher.returncode == 0, err
    why = "(growth below threshold; model still moving)"
    assert f"stop now: growth threshold=0.2 patience=2 at round {expected} {why}" in out
    assert f"round {expected}  {expected}.npy  distance {2 * expected}" in out


def test_thousands_of_files_replay_in_one_call(recorded, tmp_path, replay):
    lines = recorded.read_bytes()
    for index in range(1500):
        (tmp_path / f"{index}.jsonl").write_bytes(lines)
    found = replay(*sorted(tmp_path.glob("[0-9]*.jsonl")), "--threshold", "0.01,0.1")
    assert len(found) == 3000 and len({(r["threshold"], r["stop_round"]) for r in found}) == 2


@pytest.mark.parametrize("words", [["run.jsonl"], ["run/"], ["--checkpoints", "models"]], ids=lambda words: words[-1])
def test_a_file_that_does_not_fit_into_memory_is_named(words, tmp_path):
    for name in ("run.jsonl", "run/trajectory.jsonl", "models/0.safetensors", "models/1.safetensors"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        with open(tmp_path / name, "wb") as file:
            file.truncate(2**34)  # holes, which need no space
    limited = ["bash", "-c", 'ulimit -v 8000000; exec "$@"', "-", *FEDHALT, "replay", *words]
    done = subprocess.run(limited, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 2 and "does not fit into the memory" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and words[-1].rstrip("/") in done.stderr
