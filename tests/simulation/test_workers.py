"""Workers hand over several visits at a time where there are many, in order; a head is visited without them."""

import dataclasses
import threading

import pytest

pytest.importorskip("torch")

from fedhalt.simulation import RunSpec
from fedhalt.simulation.federation import Federation
from fedhalt.simulation.workers import PIECE, started_workers


@pytest.mark.parametrize("count, size", [(0, 1), (1, 1), (10, 1), (24, 3), (100, PIECE)])
def test_results_come_in_order_and_pieces_stay_small(count, size):
    taken = []
    with started_workers(2, "cpu") as (each, place):
        found = each(lambda item: taken.append((threading.get_ident(), item)) or 2 * item, range(count))
        assert list(found) == [2 * item for item in range(count)] and place == "cpu"
    by_thread = {thread: [item for whose, item in taken if whose == thread] for thread, _ in taken}
    assert len(by_thread) <= 2 and threading.get_ident() not in by_thread
    for begin in range(0, count, size):  # a piece is one worker's
        assert any(set(range(begin, min(begin + size, count))) <= set(mine) for mine in by_thread.values())


def test_one_worker_is_the_caller():
    with started_workers(1, "cpu") as (each, _):
        assert each is map


def test_a_mistake_in_a_visit_is_raised_where_its_result_is_taken():
    with started_workers(2, "cpu") as (each, _):
        found = each(lambda item: 1 // (item - 50), range(100))
        assert next(found) == -1
        with pytest.raises(ZeroDivisionError):
            list(found)


def test_a_head_is_visited_by_the_caller():
    cnn = Federation(RunSpec(data="digits", clients=10, cohort=2))
    assert cnn.visiting(zip) is zip
    cnn.spec = dataclasses.replace(cnn.spec, model="probe:resnet18", pretrained=True, gradient="closed")
    assert cnn.visiting(zip) is map
