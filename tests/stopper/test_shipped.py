"""The model to ship from a stopper: the average of the last rounds, through saves, kills and bad rounds."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from fedhalt import Drift, EarlyStopper, FedhaltError, Trajectory

ROUNDS = 33


def models(rounds=ROUNDS, size=300):
    draw = np.random.default_rng(3)
    return [{"w": np.float32(5 + draw.standard_normal(size)), "n": np.int64([r])} for r in range(1, rounds + 1)]


def mean(chosen):
    return np.mean([model["w"].astype("f8") for model in chosen], 0)


def test_the_average_in_the_structure_that_was_given():
    made = models()
    stopper = EarlyStopper(made[0], average=10)
    for model in made:
        stopper.update(model)
    shipped = stopper.model("average")
    assert shipped["w"].dtype == np.float32 and shipped["w"] == pytest.approx(mean(made[-10:]), abs=1e-6)
    assert shipped["n"].tolist() == [ROUNDS]  # a counter is not averaged
    last = stopper.model("last")
    assert np.array_equal(last["w"], made[-1]["w"]) and last["w"] is not made[-1]["w"]


def test_columns_of_the_average_and_the_drift_are_recorded(tmp_path):
    made = models(45)
    stopper = EarlyStopper(made[0], average=10, trajectory=tmp_path / "t.jsonl")
    for model in made:
        stopper.update(model)
    rows = Trajectory.load(tmp_path / "t.jsonl").rows
    assert rows[18]["drift_10"] is None and rows[44]["drift_5"] == pytest.approx(1, rel=0.3)
    assert rows[44]["drift_20"] == pytest.approx(1, rel=0.3)
    expected = np.linalg.norm(mean(made[-10:]) - made[0]["w"])
    assert rows[44]["distance_average"] == pytest.approx(expected, rel=1e-5)
    assert rows[44]["distance_average"] < rows[44]["distance"]  # the scatter is averaged away


def test_averaging_changes_no_verdict():
    made = models()
    plain, averaging = EarlyStopper(made[0], 0.05, 3), EarlyStopper(made[0], 0.05, 3, average="running:6")
    assert [plain.update(model) for model in made] == [averaging.update(model) for model in made]


@pytest.mark.parametrize("average", [10, "running:10"])
def test_a_save_and_a_load_in_between_change_nothing(average, tmp_path):
    made = models()
    whole = EarlyStopper(made[0], average=average, rule=Drift(window=5))
    for model in made:
        whole.update(model)
    for cut in range(1, ROUNDS):
        stopper = EarlyStopper(made[0], average=average, rule=Drift(window=5))
        for r, model in enumerate(made, start=1):
            assert stopper.update(model).round == r
            if r == cut:
                stopper.save(tmp_path / "state")
                stopper = EarlyStopper.load(tmp_path / "state")
                held = stopper.model("average", like=model)["w"]
        assert stopper.status == whole.status and held.shape == (300,)
        assert stopper.model()["w"].tobytes() == whole.model()["w"].tobytes()


def test_a_second_save_writes_only_what_is_new(tmp_path):
    made = models(12)
    stopper = EarlyStopper(made[0], average=10)
    for model in made[:-1]:
        stopper.update(model)
    stopper.save(tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("average-*")}
    assert len(before) == 10
    stopper.update(made[-1])
    stopper.save(tmp_path)
    after = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("average-*")}
    assert len(after) == 10 and len(before.items() & after.items()) == 9


def test_damage_and_missing_files_are_refused(tmp_path):
    made = models(12)
    stopper = EarlyStopper(made[0], average=3)
    for model in made:
        stopper.update(model)
    stopper.save(tmp_path)
    for kind in ("average-", "drift-"):
        file = sorted(tmp_path.glob(f"{kind}*"))[0]
        whole = file.read_bytes()
        file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(FedhaltError, match="is damaged"):
            EarlyStopper.load(tmp_path)
        file.unlink()
        with pytest.raises(FedhaltError, match="is missing"):
            EarlyStopper.load(tmp_path)
        file.write_bytes(whole)
    assert EarlyStopper.load(tmp_path).round == 12


def test_a_round_that_is_not_finite_never_enters_the_average():
    made = models(6)
    stopper = EarlyStopper(made[0], average=3, check_finite=False)
    for model in made:
        stopper.update(model)
    stopper.update({"w": np.full(300, np.nan, np.float32), "n": np.int64([7])})
    assert stopper.model("average")["w"] == pytest.approx(mean(made[-3:]), abs=1e-6)


def test_a_round_that_could_not_be_recorded_did_not_take_place(tmp_path):
    made = models(6)
    stopper = EarlyStopper(made[0], average=3, trajectory=tmp_path / "t.jsonl")
    for model in made[:5]:
        stopper.update(model)
    with pytest.raises(FedhaltError, match="cannot be recorded"):
        stopper.update(made[5], note=object())
    assert stopper.round == 5 and stopper.model()["w"] == pytest.approx(mean(made[2:5]), abs=1e-6)
    stopper.update(made[5])
    assert stopper.model()["w"] == pytest.approx(mean(made[3:6]), abs=1e-6)


def test_what_cannot_be_had_is_said():
    with pytest.raises(FedhaltError, match="an average needs the models themselves"):
        EarlyStopper(average=10)
    stopper = EarlyStopper(np.zeros(3))
    with pytest.raises(FedhaltError, match=r"no average is kept: .*average=10"):
        stopper.model("average")
    with pytest.raises(FedhaltError, match="before the first finite round"):
        EarlyStopper(np.zeros(3), average=2).model()
    with pytest.raises(FedhaltError, match="model must be one of average, last, not 'mean'"):
        stopper.model("mean")


def test_batch_statistics_are_averaged_with_a_warning():
    torch = pytest.importorskip("torch")
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    stopper = EarlyStopper(net, average=2)
    with pytest.warns(UserWarning, match=r"BatchNorm statistics \(1.running_mean, …\).*docs/choosing.md"):
        stopper.update(net)
    net[1].running_mean.fill_(3.0)
    with torch.no_grad():
        net[0].weight.add_(1)
    stopper.update(net)  # it warns once
    shipped = stopper.model("average")
    assert shipped[1].running_mean.tolist() == [1.5, 1.5] and torch.allclose(shipped[0].weight, net[0].weight - 0.5)


KILLED = """
import sys
import numpy as np
from fedhalt import EarlyStopper
folder, state = sys.argv[1:]
draw = np.random.default_rng(0)
models = [np.float32(draw.standard_normal(200)) for _ in range(60)]
stopper = EarlyStopper.load(state) if len(sys.argv) and __import__("os").path.exists(state + "/stopper.json") else \\
    EarlyStopper(models[0], average=10, trajectory=folder + "/t.jsonl")
print("from", stopper.round, flush=True)
while stopper.round < 60:
    stopper.update(models[stopper.round])
    stopper.save(state)
print("sum", stopper.model("average", like=models[0]).tobytes().hex(), flush=True)
"""


def test_kill_minus_nine_in_between_changes_nothing(tmp_path):
    (tmp_path / "whole").mkdir()
    line = [sys.executable, "-c", KILLED]
    whole = subprocess.run([*line, tmp_path / "whole", tmp_path / "whole" / "state"], capture_output=True, text=True)
    expected = whole.stdout.splitlines()[-1]
    (tmp_path / "killed").mkdir()
    again, begun = [*line, tmp_path / "killed", tmp_path / "killed" / "state"], []
    for after in (7, 20, 41):
        with subprocess.Popen(again, stdout=subprocess.PIPE, text=True) as process:
            begun.append(process.stdout.readline())
            while not _round(tmp_path / "killed") >= after:
                assert process.poll() is None
            os.kill(process.pid, signal.SIGKILL)
    last = subprocess.run(again, capture_output=True, text=True)
    assert last.stdout.splitlines()[-1] == expected, last.stderr
    assert int(last.stdout.split()[1]) >= 41 and [line.split()[0] for line in begun] == ["from"] * 3


def _round(folder):
    try:
        return json.loads(json.loads((folder / "state" / "stopper.json").read_text())["saved"])["status"]["round"]
    except FileNotFoundError:
        return 0
