"""What a file is stays what it is: links are followed, pipes and devices written into, modes kept, secrets kept."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedhalt import EarlyStopper, Trajectory, files


def test_a_symbolic_link_is_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "target.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to("elsewhere/target.csv")
    record = Trajectory([{"distance": 1.0}])
    record.to_csv(tmp_path / "link.csv")
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "elsewhere" / "target.csv").read_text() == record.to_csv()


def test_a_link_to_nothing_yet_makes_its_target(tmp_path):
    (tmp_path / "link").symlink_to("target")
    files.write(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "target").read_bytes() == b"new"


def test_a_pipe_is_written_into(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        files.write(pipe, b"through")
        assert stat.S_ISFIFO(pipe.stat().st_mode) and os.read(reader, 100) == b"through"
    finally:
        os.close(reader)


def test_a_device_stays_a_device(tmp_path):
    device = tmp_path / "null"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        device.write_bytes(b"try")
    except OSError as error:
        pytest.skip(f"no device can be made here: {error}")
    files.write(device, b"gone")
    assert stat.S_ISCHR(device.stat().st_mode)


def test_what_is_open_already_is_written_through(tmp_path):
    """As `-o /dev/stdout` with the output in a file: whoever opened it must find what was written."""
    if not os.path.exists("/proc/self/fd"):
        pytest.skip("no /proc here")
    with open(tmp_path / "out", "w+b") as out:
        (tmp_path / "link").symlink_to(f"/proc/self/fd/{out.fileno()}")
        for path in (tmp_path / "link", Path(f"/proc/self/fd/{out.fileno()}")):
            files.write(path, b"through")
            out.seek(0)
            assert out.read() == b"through"
            out.truncate(0)
    assert (tmp_path / "link").is_symlink()


def test_a_file_keeps_its_mode(tmp_path):
    path = tmp_path / "table.csv"
    path.touch()
    path.chmod(0o640)
    files.write(path, b"new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640 and path.read_bytes() == b"new"


def test_a_new_file_has_the_usual_mode_and_a_private_one_its_owners(tmp_path):
    before = os.umask(0o022)
    try:
        files.write(tmp_path / "usual", b"")
        files.write(tmp_path / "private", b"", private=True)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "usual").stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o600


def test_what_a_stopper_saves_is_its_owners(tmp_path):
    stopper = EarlyStopper(start=np.zeros(3), keep_finite=True)
    stopper.update(np.ones(3))
    stopper.save(tmp_path)
    modes = {path.name.split("-")[0]: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"stopper.json": 0o600, "start": 0o600, "finite": 0o600}


def test_leftovers_of_killed_savers_go_and_those_of_living_ones_stay(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left, kept = tmp_path / f".stopper.json.{dead.pid}.part", tmp_path / f".stopper.json.{os.getppid()}.part"
    left.touch()
    kept.touch()
    EarlyStopper(start=np.zeros(3)).save(tmp_path)
    assert not left.exists() and kept.exists()


def test_hidden_files_of_other_programs_stay(tmp_path):
    """A trajectory may lie anywhere, beside what others have begun and not finished, however long ago."""
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    ours = [tmp_path / f".run.jsonl{rest}.{dead.pid}.part" for rest in ("", ".after-round-5")]
    theirs = [tmp_path / name for name in (".film.part", ".1.film.part", f".film.{dead.pid}.part", f".{dead.pid}.part")]
    for path in (*ours, *theirs):
        path.touch()
        os.utime(path, (0, 0))
    EarlyStopper(start=np.zeros(3), trajectory=tmp_path / "run.jsonl").save(tmp_path / "state")
    assert not any(path.exists() for path in ours) and all(path.exists() for path in theirs)


@pytest.mark.parametrize("name", ["missing/file", "folder"])
def test_what_cannot_be_written_names_the_file(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError) as error:
        files.write(tmp_path / name, b"")
    assert error.value.filename == str(tmp_path / name) and not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("name", ["", "/", ".."])
def test_a_folder_without_a_name_is_refused_too(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(IsADirectoryError) as error:
        files.write(Path(name), b"")
    assert error.value.filename == str(Path(name)) and not list(tmp_path.iterdir())
