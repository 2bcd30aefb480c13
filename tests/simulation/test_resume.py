"""A saved stopper goes on as if never interrupted, and a damaged folder is refused with a sentence."""

import dataclasses
import json
import math
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest
from helpers.commands import started
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import fedhalt
from fedhalt import EarlyStopper, FedhaltError, Trajectory


def walk(rounds=40, seed=0):
    rng = np.random.default_rng(seed)
    theta = [rng.standard_normal(7).astype(np.float32)]
    for r in range(1, rounds + 1):
        theta.append(theta[-1] + rng.standard_normal(7).astype(np.float32) / r)
    return theta


RULES = [
    fedhalt.GrowthRate(0.05, 3),
    fedhalt.RelativeUpdate(0.5, 3),
    fedhalt.WeightDiff(0.1, 2),
    fedhalt.ForwardGrowth(0.05, 3),
    fedhalt.AnyOf(fedhalt.GrowthRate(0.001, 5), fedhalt.AllOf(fedhalt.RelativeUpdate(0.3, 2), fedhalt.Budget(9))),
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("cut", [0, 1, 2, 7, 20])
def test_saved_in_the_middle_equals_uninterrupted(rule, cut, tmp_path):
    theta = walk()
    whole = EarlyStopper(start=theta[0], rule=rule)
    expected = [whole.update(params) for params in theta[1:]]
    stopper = EarlyStopper(start=theta[0], rule=rule)
    got = [stopper.update(params) for params in theta[1 : cut + 1]]
    stopper.save(tmp_path)
    stopper = EarlyStopper.load(tmp_path)
    assert stopper.status == (got[-1] if got else None)
    got += [stopper.update(params) for params in theta[cut + 1 :]]
    assert got == expected


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_any_precision_survives(dtype, tmp_path):
    torch = pytest.importorskip("torch")
    theta = [torch.tensor(params).to(getattr(torch, dtype)) for params in walk(10)]
    stopper = EarlyStopper(start={"w": theta[0], "n": torch.tensor(3)}, include="w")
    for params in theta[1:6]:
        stopper.update({"w": params})
    stopper.save(tmp_path)
    assert EarlyStopper.load(tmp_path).update({"w": theta[6]}) == stopper.update({"w": theta[6]})


def test_the_start_is_written_once_and_old_files_go(tmp_path):
    theta = walk(6)
    stopper = EarlyStopper(start=theta[0], rule=fedhalt.RelativeUpdate())
    stopper.save(tmp_path)
    written = next(tmp_path.glob("start-*")).stat().st_mtime_ns
    for params in theta[1:]:
        stopper.update(params)
        stopper.save(tmp_path)
    assert next(tmp_path.glob("start-*")).stat().st_mtime_ns == written
    assert len(list(tmp_path.iterdir())) == 3  # stopper.json, start, previous


def test_loading_changes_nothing_and_the_next_round_moves_later_ones_aside(tmp_path):
    theta = walk(10)
    stopper = EarlyStopper(start=theta[0], trajectory=tmp_path / "t.jsonl")
    for r, params in enumerate(theta[1:], start=1):
        stopper.update(params, val_loss=1 / r)
        if r == 6:
            stopper.save(tmp_path / "s")
    expected = (tmp_path / "t.jsonl").read_bytes()
    stopper = EarlyStopper.load(tmp_path / "s")
    assert stopper.round == len(stopper.trajectory) == 6
    stopper.save(tmp_path / "s")
    assert (tmp_path / "t.jsonl").read_bytes() == expected
    with pytest.warns(UserWarning, match=r"t\.jsonl\.after-round-6"):
        stopper.update(theta[7], val_loss=1 / 7)
    assert len(Trajectory.load(tmp_path / "t.jsonl")) == 7
    for r, params in enumerate(theta[8:], start=8):
        stopper.update(params, val_loss=1 / r)
    assert (tmp_path / "t.jsonl").read_bytes() == expected
    later = Trajectory.load(tmp_path / "t.jsonl.after-round-6")
    assert later.rows == Trajectory.load(tmp_path / "t.jsonl").rows[6:] and later.header == stopper.trajectory.header
    shutil.move(tmp_path / "t.jsonl", tmp_path / "u.jsonl")
    with pytest.raises(FedhaltError, match=r"gone.*trajectory="):
        EarlyStopper.load(tmp_path / "s")
    assert EarlyStopper.load(tmp_path / "s", trajectory=tmp_path / "u.jsonl").round == 6


def test_a_rule_of_ones_own_is_passed_again(tmp_path):
    class Mine(fedhalt.GrowthRate):
        pass

    stopper = EarlyStopper(start=np.zeros(2), rule=Mine(0.5, 2))
    stopper.update(np.ones(2))
    stopper.save(tmp_path)
    with pytest.raises(FedhaltError, match="Mine"):
        EarlyStopper.load(tmp_path)
    with pytest.raises(FedhaltError, match=r"0\.25"):
        EarlyStopper.load(tmp_path, rule=Mine(0.25, 2))
    assert EarlyStopper.load(tmp_path, rule=Mine(0.5, 2)).round == 1


def test_a_rule_with_a_window_of_numbers_survives(tmp_path):
    @dataclasses.dataclass(frozen=True)
    class Window:
        sizes: tuple[int, ...] = (2, 3)
        reads = ("distance",)

        def begin(self):
            return {"round": 0, "window": [math.inf]}

        def step(self, state, row):
            window = [*state["window"], row["distance"]][-3:]
            r = state["round"] + 1
            return {"round": r, "window": window}, fedhalt.Status(r, max(window), None, 0, False, "")

    stopper = EarlyStopper(start=np.zeros(1), rule=Window())
    stopper.update(np.ones(1))
    stopper.save(tmp_path)
    assert EarlyStopper.load(tmp_path, rule=Window()).update(np.ones(1)).value == math.inf


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved")
    stopper = EarlyStopper(start={"a": np.zeros(3), "b": np.zeros((2, 2))}, rule=fedhalt.RelativeUpdate())
    stopper.update({"a": np.ones(3), "b": np.zeros((2, 2))})
    stopper.save(folder)
    return folder


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(st.data())
def test_damaged_folders_are_refused_or_whole(saved, tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("damaged")
    shutil.copytree(saved, folder, dirs_exist_ok=True)
    victim = data.draw(st.sampled_from(sorted(folder.iterdir())))
    content = victim.read_bytes()
    change = data.draw(st.sampled_from(["cut", "flip", "replace", "gone"]))
    if change == "gone":
        victim.unlink()
    elif change == "cut":
        victim.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    elif change == "flip":
        at = data.draw(st.integers(0, len(content) - 1))
        victim.write_bytes(content[:at] + bytes([content[at] ^ data.draw(st.integers(1, 255))]) + content[at + 1 :])
    else:
        victim.write_bytes(data.draw(st.binary(max_size=200)))
    try:
        stopper = EarlyStopper.load(folder)
    except FedhaltError as error:
        assert str(folder) in str(error)
    else:
        assert victim.name == "stopper.json" and json.loads(victim.read_bytes()) == json.loads(content), (
            "went unnoticed"
        )
        assert stopper.update({"a": np.ones(3), "b": np.zeros((2, 2))}).round == 2


SERVER = """
import sys, numpy as np, fedhalt
folder, rng = sys.argv[1], np.random.default_rng(0)
steps = rng.standard_normal((400, 50)).cumsum(0)
try:
    stopper = fedhalt.EarlyStopper.load(folder)
except fedhalt.FedhaltError:
    stopper = fedhalt.EarlyStopper(start=np.zeros(50), rule=fedhalt.RelativeUpdate(1e-9, 3), trajectory=sys.argv[2])
while stopper.round < 400:
    stopper.update(steps[stopper.round])
    stopper.save(folder)
    print(stopper.round, flush=True)
"""


@pytest.mark.parametrize("seed", range(3))
def test_a_killed_server_goes_on_to_the_same_record(tmp_path, seed):
    rng = np.random.default_rng(seed)
    whole, killed = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl"
    subprocess.run([sys.executable, "-c", SERVER, tmp_path / "a", whole], check=True, stdout=subprocess.DEVNULL)
    deaths = 0
    for _ in range(20):
        with started(sys.executable, "-c", SERVER, tmp_path / "b", killed) as server:
            server.stdout.readline()  # it lives and has saved at least once
            time.sleep(rng.uniform(0, 0.25))
            if server.poll() == 0:
                break
            deaths += 1
    subprocess.run([sys.executable, "-c", SERVER, tmp_path / "b", killed], check=True, stdout=subprocess.DEVNULL)
    assert deaths > 0 and killed.read_bytes() == whole.read_bytes()


def test_two_writers_never_leave_a_half_file(tmp_path):
    stopper = EarlyStopper(start=np.zeros(1000))
    for _ in range(50):
        stopper.update(np.ones(1000))
        stopper.save(tmp_path)
        assert EarlyStopper.load(tmp_path).status == stopper.status
