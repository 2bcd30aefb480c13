"""Where one method becomes another, exactly: the family tree in numbers."""

import pytest

torch = pytest.importorskip("torch")

from helpers.problems import create, quadratics

from fedhalt.simulation import toy

LIMITS = [
    ("fedsam", {"rho": 0}, "fedavg", {}),
    ("fedprox", {"lam": 0}, "fedavg", {}),
    ("fedlesam", {"rho": 0}, "fedavg", {}),
    ("fedlesam", {"rho": 0, "mode": "last_update"}, "fedavg", {}),
    ("fedgamma", {"rho": 0}, "scaffold", {}),
    ("fedspeed", {"rho": 0, "alpha": 1}, "feddyn", {}),
    ("fedspeed", {"alpha": 0}, "feddyn", {}),
    ("fedcm", {"alpha": 1}, "fedavg", {}),
    ("mofedsam", {"rho": 0}, "fedcm", {}),
    ("mofedsam", {"alpha": 1}, "fedsam", {}),
    ("fedavgm", {"beta": 0}, "fedavg", {}),
]


@pytest.mark.parametrize("name, settings, parent, parents", LIMITS)
def test_limit(name, settings, parent, parents):
    task = quadratics()
    for ours, theirs in zip(
        toy.rounds(create(name, **settings), task, 6), toy.rounds(create(parent, **parents), task, 6), strict=True
    ):
        assert torch.equal(ours.state["x"], theirs.state["x"])


@pytest.mark.parametrize("name, settings, parent", [(n, s, p) for n, s, p, _ in LIMITS if s != {"alpha": 0}])
def test_and_away_from_the_limit_they_differ(name, settings, parent):
    task = quadratics()
    kept = {"mode": settings["mode"]} if "mode" in settings else {}
    assert not torch.allclose(toy.run(create(name, **kept), task, 6), toy.run(create(parent), task, 6), atol=1e-6)


def test_scaffold_with_everybody_one_step_and_no_momentum_is_gradient_descent():
    task = quadratics(cohorts=None, steps=1, momentum=0.0, weight_decay=0.0, clip=None, lr_decay=1.0)
    x = task.theta0()
    for round in toy.rounds(create("scaffold", server_lr=1.0), task, 20):
        x = x - task.lr * torch.stack([task.gradient(i, x) for i in range(task.population)]).mean(0)
        assert torch.allclose(round.state["x"], x, rtol=0, atol=1e-12)
