"""A pipe in the place of a file: whoever reads it waits until somebody writes."""

import contextlib
import os
import threading


@contextlib.contextmanager
def pipe_at(path):
    """Within the block the file is a pipe. It is fed, so that a reader that does not refuse it goes on."""
    path.unlink()
    os.mkfifo(path)

    def feed():
        with contextlib.suppress(OSError):
            path.write_bytes(b"fed")

    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        yield
    finally:
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # lets the feeder go, however late it comes
        feeding.join()
        os.close(reader)
