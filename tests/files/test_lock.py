"""A folder is one process's at a time; where that cannot be had, or is lost, a sentence says so."""

import errno
import os
import shutil
import subprocess
import sys

import pytest

from fedhalt import FedhaltError
from fedhalt.files import InUse, Lock

HOLDER = "import sys; from pathlib import Path; from fedhalt.files import Lock; held = Lock(Path(sys.argv[1])); "
HOLDER += "print('held', flush=True); sys.stdin.read()"


def test_another_process_is_waited_for_or_named(tmp_path):
    line = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InUse, match="in use by another process"):
            Lock(tmp_path)
        holder.kill()
    with Lock(tmp_path, wait=True):
        with pytest.raises(InUse):
            Lock(tmp_path)
    Lock(tmp_path).close()


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EIO])
def test_a_file_system_without_locks_is_no_other_process(tmp_path, monkeypatch, code):
    fcntl = pytest.importorskip("fcntl")

    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(FedhaltError, match=r"cannot be locked.*file system that has locks") as error:
        Lock(tmp_path)
    assert not isinstance(error.value, InUse) and os.strerror(code) in str(error.value)


def test_a_folder_that_was_removed_or_begun_again_is_noticed(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    lock = Lock(folder)
    lock.check()
    shutil.rmtree(folder)
    with pytest.raises(FedhaltError, match="removed or replaced"):
        lock.check()
    folder.mkdir()
    with Lock(folder) as other:
        with pytest.raises(FedhaltError, match="removed or replaced"):
            lock.check()
        other.check()
    lock.close()
