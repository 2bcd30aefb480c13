"""Hypothesis without deadlines: a loaded machine is no failure. The command line in this process."""

import signal
import sys

import pytest
from hypothesis import settings

settings.register_profile("fedhalt", deadline=None)
settings.load_profile("fedhalt")


@pytest.fixture
def fedhalt(monkeypatch, capsys):
    """The command in this process: its status, output and errors."""
    from fedhalt.cli import main

    before = signal.getsignal(signal.SIGINT)

    def call(*args):
        monkeypatch.setattr(sys, "argv", ["fedhalt", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, *capsys.readouterr()

    yield call
    signal.signal(signal.SIGINT, before)
