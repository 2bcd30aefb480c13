"""Every line of a record is sealed: a flipped bit anywhere is noticed, and what commits a round is not shown."""

import errno
import json
import math
import os
import warnings

import pytest

from fedhalt import FedhaltError, GrowthRate, Trajectory, replay
from fedhalt.records import lines
from fedhalt.records.tail import TrajectoryTail


def record(path, rounds=3):
    trajectory = Trajectory.create(path, seed=3)
    for r in range(1, rounds + 1):
        commit = {"state": "0123456789abcdef", "memory": {f"2-{r}": "ff"}}
        trajectory.append({"distance": r**0.5, "loss": math.nan, "name": "é"}, commit)
    return trajectory


def test_a_commit_travels_in_the_line_and_is_not_shown(tmp_path):
    written = record(tmp_path / "t.jsonl")
    read = Trajectory.load(tmp_path / "t.jsonl")
    assert read.commits == written.commits and read.commits[2]["memory"] == {"2-2": "ff"}
    assert read.columns == ["round", "distance", "loss", "name"] == list(read.rows[0])
    assert read.to_csv().splitlines()[0] == "round,distance,loss,name" and "_c" not in read.to_csv()
    assert len(list(replay(GrowthRate(), read))) == 3
    tail = TrajectoryTail(tmp_path / "t.jsonl").poll()
    assert tail["round"] == 3 and set(tail) == {"round", "distance", "loss", "name"}
    Trajectory.resume(tmp_path / "t.jsonl").append({"distance": 4.0}, {"state": "77"})
    assert Trajectory.load(tmp_path / "t.jsonl").commits[4] == {"state": "77"}


def test_half_a_line_that_a_broken_disk_kept_is_gone_before_the_next(tmp_path, monkeypatch):
    """Whoever catches the error may go on with the same record once the disk is well again."""
    trajectory, write = record(tmp_path / "t.jsonl"), os.write

    def broken(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda place, data: write(place, data[: len(data) // 2]))
        patch.setattr(os, "ftruncate", broken)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            trajectory.append({"distance": 2.0})
    trajectory.append({"distance": 2.0})
    trajectory.append({"distance": 2.5})
    assert Trajectory.load(tmp_path / "t.jsonl").rows == trajectory.rows and len(trajectory) == 5


def test_readers_of_other_tools_see_json_lines(tmp_path):
    record(tmp_path / "t.jsonl")
    parsed = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert [entry.get("round") for entry in parsed] == [None, 1, 2, 3]
    pandas = pytest.importorskip("pandas")
    assert pandas.read_json(tmp_path / "t.jsonl", lines=True)["distance"].tolist()[1:] == pytest.approx(
        [1, 2**0.5, 3**0.5]
    )


def test_any_flipped_bit_is_noticed(tmp_path):
    path = tmp_path / "t.jsonl"
    record(path)
    whole, rows = path.read_bytes(), Trajectory.load(path).to_csv()
    for place in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        path.write_bytes(damaged)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                read = Trajectory.load(path)
            except FedhaltError as error:
                assert str(path) in str(error)
            else:
                # the end of the last line: what is left is right, and it says that something is left out
                assert place // 8 == len(whole) - 1 and len(said) == 1 and len(read) == 2, place
                assert rows.startswith(read.to_csv())


def test_what_is_whole_before_the_damage_can_be_had(tmp_path):
    path = tmp_path / "t.jsonl"
    record(path, 5)
    path.write_bytes(path.read_bytes().replace(b'"round": 4', b'"round": 6'))
    salvaged, problem = Trajectory.salvage(path)
    assert len(salvaged) == 3 and "line 5" in problem and "checksum" in problem
    with pytest.raises(FedhaltError, match=r"line 5.*checksum"):
        Trajectory.resume(path)
    with pytest.raises(FedhaltError, match=r"line 5.*checksum"):
        Trajectory.resume(path, after=4)
    damaged = path.read_bytes()
    trajectory = Trajectory.resume(path, after=2)
    assert path.read_bytes() == damaged and len(trajectory) == 2
    with pytest.warns(UserWarning, match="after-round-2"):
        trajectory.append({"distance": 0.5})
    assert Trajectory.load(path).column("round").tolist() == [1, 2, 3]
    assert b'"round": 6' in (tmp_path / "t.jsonl.after-round-2").read_bytes()


def test_what_was_moved_aside_is_never_written_over(tmp_path):
    path = tmp_path / "t.jsonl"
    record(path, 2)
    for _ in range(3):
        with pytest.warns(UserWarning, match="after-round-1"):
            Trajectory.resume(path, after=1).append({"distance": 1.0})
    names = sorted(file.name for file in tmp_path.glob("*after*"))
    assert names == ["t.jsonl.after-round-1", "t.jsonl.after-round-1.2", "t.jsonl.after-round-1.3"]


def test_a_file_of_version_1_opens_and_is_sealed_when_it_goes_on(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"fedhalt": "trajectory", "version": 1, "seed": 3}\n{"round": 1, "distance": 1.0}\n')
    before = Trajectory.load(path)
    Trajectory.resume(path).append({"distance": 2.0})
    after = Trajectory.load(path)
    assert (after.header, after.rows) == (before.header, [*before.rows, {"round": 2, "distance": 2.0}])
    assert path.read_bytes().count(lines.CHECK) == 3


@pytest.mark.parametrize("name", ["_check", "_commit"])
def test_reserved_names_are_refused(tmp_path, name):
    trajectory = record(tmp_path / "t.jsonl", 1)
    with pytest.raises(FedhaltError, match=name):
        trajectory.append({name: 1.0})


def test_a_record_that_is_gone_is_not_begun_without_its_head(tmp_path):
    trajectory = record(tmp_path / "t.jsonl", 1)
    (tmp_path / "t.jsonl").unlink()
    with pytest.raises(FedhaltError, match="is gone"):
        trajectory.append({"distance": 1.0})
    assert not (tmp_path / "t.jsonl").exists()
