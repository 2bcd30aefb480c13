"""A saved stopper and its record belong together: nothing is lost by loading, and a gap is refused."""

import os
from pathlib import Path

import numpy as np
import pytest
from helpers.pipes import pipe_at

from fedhalt import EarlyStopper, FedhaltError, RelativeUpdate, Trajectory
from fedhalt.measure import tensors


def saved(tmp_path, rounds=5, more=0, **settings):
    """A stopper that was saved after these rounds and recorded more."""
    stopper = EarlyStopper(start=np.zeros(4), trajectory=tmp_path / "t.jsonl", **settings)
    for r in range(1, rounds + more + 1):
        stopper.update(np.full(4, float(r)))
        if r == rounds:
            stopper.save(tmp_path / "state")
    return stopper


def listed(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_loading_changes_nothing_on_disk(tmp_path):
    saved(tmp_path, 5, more=35)
    before = listed(tmp_path)
    stopper = EarlyStopper.load(tmp_path / "state")
    assert listed(tmp_path) == before and stopper.round == len(stopper.trajectory) == 5
    with pytest.warns(UserWarning, match=r"t\.jsonl: what it held after round 5 is now in t\.jsonl\.after-round-5"):
        stopper.update(np.full(4, 6.0))
    assert Trajectory.load(tmp_path / "t.jsonl").column("round").tolist() == [1, 2, 3, 4, 5, 6]
    assert Trajectory.load(tmp_path / "t.jsonl.after-round-5").column("round").tolist() == [*range(6, 41)]


def test_a_record_shorter_than_the_saved_round_is_refused(tmp_path):
    saved(tmp_path, 5)
    lines = (tmp_path / "t.jsonl").read_bytes().splitlines(keepends=True)
    for kept in (lines[:-1], lines[:1], lines[:3] + lines[4:]):
        (tmp_path / "t.jsonl").write_bytes(b"".join(kept))
        before = listed(tmp_path)
        with pytest.raises(FedhaltError, match=r"holds \d rounds up to round 5.*lost some"):
            EarlyStopper.load(tmp_path / "state")
        assert listed(tmp_path) == before


def test_the_record_of_another_stopper_is_refused(tmp_path):
    """It has as many rounds, and every line of it is whole."""
    saved(tmp_path, 5)
    other = EarlyStopper(start=np.zeros(4), trajectory=tmp_path / "other.jsonl")
    for r in range(1, 6):
        other.update(np.full(4, r + 0.5))
    with pytest.raises(FedhaltError, match=r"round 5 in .*other\.jsonl is not the one that was saved"):
        EarlyStopper.load(tmp_path / "state", trajectory=tmp_path / "other.jsonl")
    (tmp_path / "t.jsonl").rename(tmp_path / "moved.jsonl")
    assert EarlyStopper.load(tmp_path / "state", trajectory=tmp_path / "moved.jsonl").round == 5


def test_a_column_that_comes_later_does_not_change_the_saved_round(tmp_path):
    stopper = saved(tmp_path, 5)
    stopper.update(np.full(4, 6.0), val_loss=1.0)
    loaded = EarlyStopper.load(tmp_path / "state")
    loaded.save(tmp_path / "state")
    assert EarlyStopper.load(tmp_path / "state").round == 5


@pytest.mark.parametrize("name", ["stopper.json", "start-*", "../t.jsonl"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, name):
    saved(tmp_path, 5)
    (path,) = (tmp_path / "state").glob(name) if ".." not in name else [tmp_path / "t.jsonl"]
    with pipe_at(path), pytest.raises(FedhaltError, match=rf"{path.name} is a pipe, not a file"):
        EarlyStopper.load(tmp_path / "state")


def test_the_record_is_on_disk_before_the_state_says_so(tmp_path, monkeypatch):
    stopper = saved(tmp_path, 2)
    stopper.update(np.full(4, 3.0))
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda place: (synced.append(os.readlink(f"/proc/self/fd/{place}")), fsync(place)))
    if not os.path.exists("/proc/self/fd"):
        pytest.skip("no /proc here: it cannot be seen which file is synced")
    stopper.save(tmp_path / "state")
    state = next(place for place, name in enumerate(synced) if ".stopper.json." in name)
    assert str(tmp_path / "t.jsonl") in synced[:state] and str(tmp_path / "state") in synced[state:]


@pytest.mark.parametrize("rule", [None, RelativeUpdate(1e-9, 3)])
def test_the_last_finite_parameters_are_kept_if_asked(tmp_path, rule):
    stopper = EarlyStopper(start={"w": np.zeros(2)}, rule=rule, keep_finite=True)
    assert stopper.last_finite["w"].tolist() == [0, 0]
    params = np.ones(2)
    stopper.update({"w": params})
    params *= 7
    assert stopper.last_finite["w"].tolist() == [1, 1]
    stopper.update({"w": np.array([np.nan, 1.0])})
    stopper.save(tmp_path)
    again = EarlyStopper.load(tmp_path)
    assert again.last_finite["w"].tolist() == stopper.last_finite["w"].tolist() == [1, 1]
    again.update({"w": np.full(2, 3.0)})
    assert again.last_finite["w"].tolist() == [3, 3]
    with pytest.raises(FedhaltError, match="keep_finite=True"):
        _ = EarlyStopper(start=np.zeros(2)).last_finite


def test_a_save_does_not_remove_what_it_needs(tmp_path):
    stopper = EarlyStopper(start=np.zeros(2), rule=RelativeUpdate(), keep_finite=True)
    for r in range(3):
        stopper.update(np.full(2, float(r)))
        stopper.save(tmp_path)
        assert sorted(path.name.split("-")[0] for path in tmp_path.iterdir()) == [
            "finite", "previous", "start", "stopper.json",
        ]  # fmt: skip
        EarlyStopper.load(tmp_path)


def test_a_save_removes_nothing_of_others(tmp_path):
    names = ("average-model.safetensors", "start-weights.safetensors", "update-5.safetensors")
    for name in names:
        (tmp_path / name).touch()
    stopper = EarlyStopper(start=np.zeros(2), rule=RelativeUpdate(), average=2)
    for r in range(3):
        stopper.update(np.full(2, float(r)))
        stopper.save(tmp_path)
    assert all((tmp_path / name).exists() for name in names)
    assert len(list(tmp_path.glob("previous-*"))) == 1  # ours go


def test_the_bytes_of_saved_arrays_do_not_depend_on_the_order_of_metadata():
    arrays = {"w": np.arange(3.0), "é": np.ones((2, 2), np.float32)}
    metadata = {f"key {k}": str(k) for k in range(20)}
    made = {tensors.from_arrays(arrays, metadata) for _ in range(9)}
    assert len(made) == 1
    read = tensors.to_arrays(made.pop(), Path("x"))
    assert read["w"].tolist() == [0, 1, 2] and read["é"].shape == (2, 2)


def test_the_planned_rounds_are_in_the_record(tmp_path):
    saved(tmp_path, 2, budget=40)
    assert Trajectory.load(tmp_path / "t.jsonl").header["budget"] == 40
    with pytest.raises(FedhaltError, match="budget must be a whole number"):
        EarlyStopper(start=np.zeros(2), budget=0)
