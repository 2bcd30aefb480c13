"""What must not matter: how tensors are split, what clients are called, in which order they come."""

import dataclasses

import pytest

torch = pytest.importorskip("torch")

from helpers.problems import NAMES, create, quadratics

from fedhalt import methods
from fedhalt.simulation import toy


def close(one, two):
    return torch.allclose(one, two, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_permuting_the_coordinates_permutes_the_result(name):
    """Another order or splitting of the tensors is another order of the flat vector."""
    task, order = quadratics(), [3, 0, 5, 1, 4, 2]
    A, b = ([[row[j] for j in order] for row in rows] for rows in (task.A, task.b))
    moved = dataclasses.replace(task, A=A, b=b, start=[task.start[j] for j in order])
    assert close(toy.run(create(name), moved, 6), toy.run(create(name), task, 6)[order])


@pytest.mark.parametrize("name", ["fedlesam", "fedwmsam"])
def test_which_the_authors_scalar_indexing_fails(name):
    task = quadratics()
    one, two = (
        toy.run(create(name, compat="authors", setting=methods.Setting(5.0, sizes)), task, 6)
        for sizes in ((3, 3), (1, 5))
    )
    assert not torch.allclose(one, two, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_permuting_the_clients_changes_nothing(name):
    task, order = quadratics(), [2, 0, 3, 1]
    renamed = dataclasses.replace(
        task,
        A=[task.A[i] for i in order],
        b=[task.b[i] for i in order],
        steps=[task.steps[i] for i in order],
        cohorts=[[order.index(i) for i in cohort] for cohort in task.cohorts],
    )
    assert close(toy.run(create(name), renamed, 6), toy.run(create(name), task, 6))


@pytest.mark.parametrize("name", NAMES)
def test_reordering_the_cohort_changes_nothing(name):
    task = quadratics(clients=7)
    turned = dataclasses.replace(task, cohorts=[cohort[::-1] for cohort in task.cohorts])
    assert close(toy.run(create(name), turned, 6), toy.run(create(name), task, 6))
