"""Making methods: names, hyperparameters, optimisers, the printed table."""

import json
import subprocess
import sys
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from helpers.problems import NAMES, create, quadratics

import fedhalt
from fedhalt import FedhaltError, methods
from fedhalt.methods.local import Local, step_weight
from fedhalt.simulation import toy


@pytest.mark.parametrize("make, words", [
    (lambda: methods.create("scafold"), ["scafold", "scaffold", "fedavg", "fedadam"]),
    (lambda: methods.create("FedAvg"), ["FedAvg", "'fedavg'"]),
    (lambda: methods.create("fedprox", lamb=0.1), ["lamb", "'lam'", "server_lr"]),
    (lambda: methods.create("fedavg", rho=0.1), ["rho", "fedavg", "server_lr"]),
    (lambda: methods.create("fedprox", lam=-1), ["lam", "-1"]),
    (lambda: methods.create("fedsam", rho=float("nan")), ["rho", "nan"]),
    (lambda: methods.create("fedsam", rho="0.1"), ["rho", "'0.1'"]),
    (lambda: methods.create("fedcm", alpha=1.5), ["alpha", "1.5"]),
    (lambda: methods.create("fedwmsam", alpha=1.0), ["alpha", "1.0"]),
    (lambda: methods.create("fedwmsam", sign=2), ["sign", "2"]),
    (lambda: methods.create("fedadam", tau=0), ["tau", "0"]),
    (lambda: methods.create("fedavgm", beta=1), ["beta", "below 1", "1"]),
    (lambda: methods.create("fedspeed", dual_mean="most"), ["most", "all", "active"]),
    (lambda: methods.create("fedlesam", mode="last"), ["last", "last_update"]),
    (lambda: methods.create("scaffold", compat="author"), ["author", "authors"]),
    (lambda: methods.create("scaffold", compat="authors"), ["setting"]),
    (lambda: toy.Quadratics([[1.0]], [[1.0], [2.0]], [0.0]), ["1 clients", "2"]),
    (lambda: toy.Quadratics([[1.0, 2.0]], [[1.0]], [0.0]), ["client 0"]),
    (lambda: toy.Quadratics([[1.0]], [[1.0]], [0.0], steps=[1, 2]), ["steps", "[1, 2]"]),
    (lambda: toy.Quadratics([[1.0]], [[1.0]], [0.0], steps=0), ["steps", "0"]),
    (lambda: toy.Quadratics([[1.0]], [[1.0]], [0.0], cohorts=[[1]]), ["client 1"]),
    (lambda: toy.Quadratics([[1.0]], [[1.0]], [0.0], momentum=1.0), ["momentum", "1.0"]),
])  # fmt: skip
def test_mistakes_get_a_sentence(make, words):
    with pytest.raises(FedhaltError) as error:
        make()
    assert all(word in str(error.value) for word in words), str(error.value)


@pytest.mark.parametrize("name", NAMES)
def test_any_torch_optimiser_or_a_clear_refusal(name):
    task = quadratics(optimizer=torch.optim.Adam, clip=None)
    if methods.METHODS[name].facts.sgd_only:
        with pytest.raises(FedhaltError, match=r"SGD.*Adam"):
            toy.run(create(name), task, 1)
    else:
        assert torch.isfinite(toy.run(create(name), task, 5)).all()


@pytest.mark.parametrize("settings", [{"nesterov": True, "momentum": 0.9}, {"dampening": 0.5}, {"weight_decay": 0.1}])
def test_sgd_that_is_not_heavy_ball_is_refused_too(settings):
    with pytest.raises(FedhaltError, match="heavy-ball"):
        toy.run(create("scaffold"), quadratics(optimizer=partial(torch.optim.SGD, **settings)), 1)


@pytest.mark.parametrize("momentum", [0.0, 0.3, 0.9, 0.99])
@pytest.mark.parametrize("steps", [1, 2, 5, 37])
def test_the_step_weight_is_the_displacement_under_a_constant_gradient(steps, momentum):
    ones = torch.ones(3, dtype=torch.float64)
    local = Local([lambda w: ones] * steps, 0.01, optimizer=partial(torch.optim.SGD, momentum=momentum))
    y = torch.zeros(3, dtype=torch.float64)
    for grad in local:
        y = local.step(y, grad(y))
    assert torch.allclose(y, -0.01 * step_weight(steps, momentum) * ones, rtol=1e-12)
    assert torch.allclose(local.mean_gradient(y), ones, rtol=1e-12)


def test_one_step_clips_then_decays_then_moves():
    # direction (3, 4) of norm 5, clip 1 -> about (0.6, 0.8); plus 0.5 * w; rate 0.1
    local = Local([], 0.1, optimizer=torch.optim.SGD, weight_decay=0.5, clip=1.0)
    w = torch.tensor([2.0, -2.0], dtype=torch.float64)
    scale = 1 / (5 + 1e-6)
    expected = [2 - 0.1 * (3 * scale + 1), -2 - 0.1 * (4 * scale - 1)]
    assert local.step(w, torch.tensor([3.0, 4.0], dtype=torch.float64)).tolist() == pytest.approx(expected, abs=1e-12)
    assert w.tolist() == [2.0, -2.0] and local.clipped == 1


def test_the_paper_rule_stops_any_method():
    task = quadratics(cohorts=None)
    for name in NAMES:
        stopper = fedhalt.EarlyStopper(start=task.theta0(), threshold=0.05, patience=3)
        for round in toy.rounds(create(name), task, 200):
            if stopper.update(round.state["x"]).stop:
                break
        assert stopper.status.stop, name


def test_full_matrices_and_diagonals_agree():
    task = quadratics()
    full = toy.Quadratics([torch.diag(torch.tensor(a)).tolist() for a in task.A], task.b, task.start, momentum=0.5)
    diagonal = toy.Quadratics(task.A, task.b, task.start, momentum=0.5)
    assert torch.allclose(toy.run(create("fedsam"), full, 5), toy.run(create("fedsam"), diagonal, 5), atol=1e-12)
    assert torch.allclose(full.optimum(), diagonal.optimum(), atol=1e-10)


def test_the_printed_table(said):
    text = said("methods")
    assert all(name in text for name in NAMES) and "Karimireddy" in said("methods", "--wide")
    listed = json.loads(said("methods", "--json"))
    assert [entry["method"] for entry in listed] == NAMES
    assert next(e for e in listed if e["method"] == "fedsmoo")["up"] == 2


@pytest.mark.parametrize("module", ["methods", "simulation", "tuning"])
def test_without_torch_the_error_names_the_extra(module):
    code = f"import sys; sys.modules['torch'] = None; import fedhalt.{module}"
    error = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr
    assert "pip install '.[sim]'" in error
