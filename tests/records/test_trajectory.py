"""The record: what is written is read, what is damaged is named, nothing raises a stranger's error."""

import json
import math
import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhalt import FedhaltError, GrowthRate, Trajectory, replay


def record(path, rounds=5):
    trajectory = Trajectory.create(path, method="fedavg", seed=3)
    for r in range(1, rounds + 1):
        trajectory.append({"round": r, "distance": r**0.5, "cohort": [r, 2 * r]})
    return trajectory


def test_written_and_read_back(tmp_path):
    path = tmp_path / "deep" / "t.jsonl"
    written = record(path)
    read = Trajectory.load(path)
    assert read.header == {"method": "fedavg", "seed": 3}
    assert read.rows == written.rows and len(read) == 5
    assert read.columns == ["round", "distance", "cohort"]
    assert np.array_equal(read.column("distance"), [r**0.5 for r in range(1, 6)])
    assert read.column("cohort")[1] == [2, 4]
    assert "5 rounds" in repr(read)


def test_every_line_is_strict_json(tmp_path):
    trajectory = Trajectory.create(tmp_path / "t.jsonl")
    trajectory.append(
        {"distance": math.nan, "loss": -math.inf, "x": np.float32(0.5), "ids": np.arange(2), "name": "NaN?"}
    )
    line = (tmp_path / "t.jsonl").read_text().splitlines()[1]
    json.loads(line, parse_constant=pytest.fail)
    row = Trajectory.load(tmp_path / "t.jsonl").rows[0]
    assert math.isnan(row["distance"]) and row["loss"] == -math.inf
    assert (row["x"], row["ids"], row["name"]) == (0.5, [0, 1], "NaN?")


def test_columns_that_come_later_are_none_before(tmp_path):
    trajectory = Trajectory.create(tmp_path / "t.jsonl")
    for r in range(1, 5):
        trajectory.append({"distance": float(r)} if r % 2 else {"distance": float(r), "val_loss": 1.0 / r})
    read = Trajectory.load(tmp_path / "t.jsonl")
    assert [row["val_loss"] for row in read.rows] == [None, 0.5, None, 0.25]
    assert np.isnan(read.column("val_loss")).tolist() == [True, False, True, False]


def test_to_csv_and_to_pandas(tmp_path):
    trajectory = record(tmp_path / "t.jsonl", 2)
    assert (
        trajectory.to_csv(tmp_path / "t.csv")
        == 'round,distance,cohort\n1,1.0,"[1, 2]"\n2,1.4142135623730951,"[2, 4]"\n'
    )
    assert (tmp_path / "t.csv").read_text() == trajectory.to_csv()
    pytest.importorskip("pandas")
    frame = trajectory.to_pandas()
    assert frame["round"].tolist() == [1, 2] and frame["distance"].dtype == float


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_half_written_last_line_is_dropped_with_a_warning(tmp_path, cut):
    path = tmp_path / "t.jsonl"
    record(path)
    path.write_bytes(path.read_bytes()[:-cut] if cut > 1 else path.read_bytes()[:-2])
    with pytest.warns(UserWarning, match="line 6 is half-written"):
        assert len(Trajectory.load(path)) == 4
    trajectory = Trajectory.resume(path)
    trajectory.append({"distance": 9.0})
    assert Trajectory.load(path).column("distance").tolist()[-1] == 9.0


def test_a_missing_last_line_end_is_no_damage(tmp_path):
    path = tmp_path / "t.jsonl"
    record(path)
    path.write_bytes(path.read_bytes()[:-1])
    assert len(Trajectory.load(path)) == 5
    with pytest.warns(UserWarning, match=r"after round 3 is now in t\.jsonl\.after-round-3"):
        Trajectory.resume(path, after=3).append({"round": 4, "distance": 0.0})
    assert Trajectory.load(path).column("round").tolist() == [1, 2, 3, 4]
    assert Trajectory.load(tmp_path / "t.jsonl.after-round-3").column("round").tolist() == [4, 5]


HEAD = '{"fedhalt": "trajectory", "version": 1}\n'


@pytest.mark.parametrize("text, words", [
    (HEAD + '{"round": 1}\nnonsense\n{"round": 2}\n', ["line 3", "nonsense"]),
    (HEAD + '{"round": 1}\n[1, 2]\n', ["line 3", "[1, 2]"]),
    (HEAD + '{"round": 1}\n\n{"round": 2}\n', ["line 3"]),
    (HEAD + '{"round": 2}\n{"round": 2}\n', ["line 3", "round 2 after round 2"]),
    (HEAD + '{"round": "1"}\n', ["line 2", "'1'"]),
    (HEAD + '{"round": 1.5}\n', ["line 2", "1.5"]),
    (HEAD + '{"round": 0}\n', ["line 2", "round 0"]),
    (HEAD + '{"distance": 1' + "0" * 400 + "}\n", ["line 2", "too large"]),
    (HEAD + "[" * 100_000 + "\n", ["line 2"]),
    ('{"round": 1}\n', ["not a fedhalt trajectory"]),
    ('{"fedhalt": "trajectory", "version": 9}\n', ["version 9"]),
    ("", ["not a fedhalt trajectory"]),
    ('{"fedhalt": "traj', ["not a fedhalt trajectory"]),
])  # fmt: skip
def test_damage_is_an_error_with_its_line(tmp_path, text, words):
    path = tmp_path / "t.jsonl"
    path.write_text(text)
    with pytest.raises(FedhaltError) as error:
        Trajectory.load(path)
    assert str(path) in str(error.value) and all(word in str(error.value) for word in words), str(error.value)


def test_what_cannot_be_recorded_is_refused_and_not_written(tmp_path):
    trajectory = record(tmp_path / "t.jsonl", 2)
    for row in ({"x": object()}, {"round": 1}, {"round": True}, {"x": 2**80}):
        with pytest.raises(FedhaltError):
            trajectory.append(row)
    assert len(trajectory) == len(Trajectory.load(tmp_path / "t.jsonl")) == 2
    with pytest.raises(FedhaltError, match=r"'distanc'.*'distance'"):
        trajectory.column("distanc")
    with pytest.raises(FedhaltError, match="resume"):
        Trajectory.create(tmp_path / "t.jsonl")


@given(st.data())
def test_fuzzed_files_give_a_trajectory_or_a_sentence(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("fuzz") / "t.jsonl"
    record(path, 3)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content)))
        junk = data.draw(
            st.one_of(st.binary(max_size=9), st.sampled_from([b"\n", b"{", b"NaN", b"[[", b"null", b"1e999"]))
        )
        content[at : at + data.draw(st.integers(0, 9))] = junk
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            trajectory = Trajectory.load(path)
            trajectory.to_csv()
            list(replay(GrowthRate(), trajectory))
        except FedhaltError:
            pass


def test_a_full_disk_loses_nothing_recorded(tmp_path):
    script = """
import resource, sys, fedhalt
trajectory = fedhalt.Trajectory.create(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (500, 500))
try:
    for r in range(100):
        trajectory.append({"distance": float(r)})
except OSError as error:
    assert error.filename == sys.argv[1]
    print(len(trajectory))
"""
    run = [sys.executable, "-c", f"import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN){script}"]
    out = subprocess.run([*run, tmp_path / "t.jsonl"], capture_output=True, text=True, check=True).stdout
    assert 5 < int(out) == len(Trajectory.load(tmp_path / "t.jsonl"))


def test_a_loaded_trajectory_never_writes(tmp_path):
    path = tmp_path / "t.jsonl"
    record(path, 3)
    path.write_bytes(path.read_bytes()[:-5])
    before = path.read_bytes()
    with pytest.warns(UserWarning, match="half-written"):
        Trajectory.load(path).append({"distance": 1.0})
    assert path.read_bytes() == before
