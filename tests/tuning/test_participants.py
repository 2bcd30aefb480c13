"""The processes of one search: none is taken for dead while it is just beginning."""

import threading

import pytest

pytest.importorskip("torch")

from fedhalt.tuning.samplers.participants import Participants


def test_one_that_begins_is_not_taken_for_one_that_died(tmp_path):
    """Others look for the dead all the time, by trying the locks of all."""
    first, done, problems = Participants(tmp_path), threading.Event(), []

    def look():
        while not done.is_set():
            with first.alone():
                first.forget_gone()

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(200):
            begun = Participants(tmp_path)
            if not first.is_alive(begun.me):
                problems.append(begun.me)
            begun.close()
    finally:
        done.set()
        looking.join()
        first.close()
    assert problems == []
