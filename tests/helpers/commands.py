"""Programs as processes of their own: waited for with a generous limit, and ended whatever happens to the test."""

import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

FEDHALT = [sys.executable, "-c", "from fedhalt.cli import main; main()"]
LIMIT = 300.0
"""Seconds until a test gives up: many times what an idle machine needs."""


def run(*args, code=0, **options):
    """`fedhalt …` in a process of its own, with its output and errors as text."""
    done = subprocess.run([*FEDHALT, *map(str, args)], capture_output=True, text=True, timeout=LIMIT, **options)
    assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
    return done


@contextmanager
def started(*line, limit=LIMIT, **options):
    """A program for as long as the block lasts. Killed at the limit, so that whoever reads from it goes on too."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([str(word) for word in line], **{**pipes, **options}) as process:
        watchdog = threading.Timer(limit, process.kill)
        watchdog.start()
        try:
            yield process
        finally:
            watchdog.cancel()
            process.kill()


def wait_for(what, holds, process=None, seconds=LIMIT, every=0.01):
    """What `holds()` returns once it is true; says what was waited for, and ends early if the process has."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert process is None or process.poll() is None, f"ended before {what}: {process.communicate()}"
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(every)
    return found


def read_until(process, text):
    """The lines of a process up to the one that holds the text."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return "".join(lines)
    raise AssertionError(f"never said {text!r}: {''.join(lines)}{process.communicate()}")


def free_port():
    """A port of this machine that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
