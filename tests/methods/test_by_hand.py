"""One weight, two clients, one round: every number can be redone on paper.

F_0(x) = 1/2 (x - 1)^2,  F_1(x) = 1/2 (2x - 0)^2,  start x = 1,  rate 0.1,  two local steps, no momentum.
grad F_0 = x - 1,  grad F_1 = 4x.
"""

from functools import partial

import pytest

torch = pytest.importorskip("torch")

from fedhalt import methods
from fedhalt.methods.local import Local
from fedhalt.simulation import toy

TASK = toy.Quadratics(A=[[1.0], [2.0]], b=[[1.0], [0.0]], start=[1.0], steps=2, lr=0.1)


def x_after(name, rounds=1, task=TASK, **settings):
    return toy.run(methods.create(name, **settings), task, rounds).item()


def test_fedavg():
    # client 0: 1 -> 1 - 0.1 * 0 = 1 -> 1;  client 1: 1 -> 1 - 0.1 * 4 = 0.6 -> 0.6 - 0.1 * 2.4 = 0.36
    # mean update: (0 + (0.36 - 1)) / 2 = -0.32
    assert x_after("fedavg") == pytest.approx(0.68, abs=1e-12)
    assert x_after("fedavg", server_lr=0.5) == pytest.approx(0.84, abs=1e-12)


def test_fedprox():
    # client 1, lam = 1: 1 -> 0.6;  then 4 * 0.6 + 1 * (0.6 - 1) = 2.0, so 0.6 - 0.2 = 0.4.  Client 0 stays at 1.
    assert x_after("fedprox", lam=1.0) == pytest.approx(0.7, abs=1e-12)


def test_fedsam():
    # client 1, rho = 0.5: the gradient's sign is +, so it is taken at x + 0.5: 4 * 1.5 = 6, 1 -> 0.4;
    # then 4 * 0.9 = 3.6, 0.4 -> 0.04.  Client 0: the gradient at 1 is 0, so e = 0 and it stays.
    assert x_after("fedsam", rho=0.5) == pytest.approx(1 - 0.96 / 2, abs=1e-6)


def test_scaffold():
    # round 1 as FedAvg (all c are 0): x = 0.68.  c_0 = 0, c_1 = 0.64 / (2 * 0.1) = 3.2, c = 1.6.
    # round 2, client 0: grad + c - c_0 = (0.68 - 1) + 1.6 = 1.28, 0.68 -> 0.552; (0.552 - 1) + 1.6 = 1.152 -> 0.4368
    #          client 1: 4 * 0.68 + 1.6 - 3.2 = 1.12, 0.68 -> 0.568;  4 * 0.568 - 1.6 = 0.672 -> 0.5008
    assert x_after("scaffold") == pytest.approx(0.68, abs=1e-12)
    assert x_after("scaffold", 2) == pytest.approx((0.4368 + 0.5008) / 2, abs=1e-12)


def test_feddyn():
    # lam = 1, round 1: the clients move as in FedProx, to 1 and 0.4; h = (0 - 0.6) / 2 = -0.3
    # x = mean (1, 0.4) + h = 0.7 - 0.3 = 0.4
    assert x_after("feddyn", lam=1.0) == pytest.approx(0.4, abs=1e-12)


def test_fedcm():
    # alpha = 0.5, m = 0: half steps.  Client 1: 1 -> 0.8 -> 0.64;  x = 0.82, m = mean(0, 0.36 / 0.2) = 0.9
    *_, last = toy.rounds(methods.create("fedcm", alpha=0.5), TASK, 1)
    assert (last.state["x"].item(), last.state["m"].item()) == (pytest.approx(0.82), pytest.approx(0.9))


def test_fedadam():
    # D = -0.32: m = -0.032, v = 0.01 * 0.1024 = 0.001024, sqrt(v) = 0.032: x = 1 - 0.032 / (0.032 + 0.01)
    assert x_after("fedadam") == pytest.approx(1 - 0.032 / 0.042, abs=1e-12)


def test_fedavgm():
    # round 1: m = D = -0.32, x = 0.68.  Round 2, client 0: 0.68 -> 0.68 + 0.1 * 0.32 = 0.712 -> 0.7408;
    # client 1: 0.68 * 0.6 * 0.6 = 0.2448;  D = (0.0608 - 0.4352) / 2 = -0.1872, m = 0.5 * -0.32 - 0.1872 = -0.3472
    *_, last = toy.rounds(methods.create("fedavgm", beta=0.5), TASK, 2)
    assert last.state["m"].item() == pytest.approx(-0.3472, abs=1e-12)
    assert last.state["x"].item() == pytest.approx(0.3328, abs=1e-12)
    # half steps along the momentum: x = 1 - 0.16 = 0.84;  client 0: 0.84 -> 0.8704, client 1: 0.84 * 0.36 = 0.3024
    # D = (0.0304 - 0.5376) / 2 = -0.2536, m = -0.16 - 0.2536 = -0.4136, x = 0.84 - 0.2068
    assert x_after("fedavgm", 2, beta=0.5, server_lr=0.5) == pytest.approx(0.6332, abs=1e-12)


def test_momentum_and_the_step_weight():
    # mu = 0.5: client 1: b = 4, x = 0.6;  b = 0.5 * 4 + 2.4 = 4.4, x = 0.16.  S_2(0.5) = 1 + 1.5 = 2.5:
    # c_1 = 0.84 / (2.5 * 0.1) = 3.36 = (1.5 * 4 + 1 * 2.4) / 2.5, the weighted mean of its two gradients.
    task = toy.Quadratics(A=[[1.0], [2.0]], b=[[1.0], [0.0]], start=[1.0], steps=2, lr=0.1, momentum=0.5)
    *_, last = toy.rounds(methods.create("scaffold"), task, 1)
    assert last.memory[1]["ci"].item() == pytest.approx(3.36, abs=1e-12)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_a_step_is_torchs_sgd_to_the_bit(momentum):
    draw = torch.Generator().manual_seed(0)
    w, directions = torch.randn(1000, generator=draw), torch.randn(6, 1000, generator=draw)
    local = Local([], lr=0.03, optimizer=partial(torch.optim.SGD, momentum=momentum))
    parameter = torch.nn.Parameter(w.clone())
    optimizer = torch.optim.SGD([parameter], lr=0.03, momentum=momentum)
    for direction in directions:
        w = local.step(w, direction)
        parameter.grad = direction.clone()
        optimizer.step()
        assert torch.equal(w, parameter.data)


@pytest.mark.parametrize("optimizer", [torch.optim.Adam, partial(torch.optim.SGD, momentum=0.9, nesterov=True)])
def test_any_other_optimizer_steps_itself(optimizer):
    local, parameter = Local([], lr=0.03, optimizer=optimizer), torch.nn.Parameter(torch.ones(5))
    other = optimizer([parameter], lr=0.03)
    w = torch.ones(5)
    for scale in (1.0, -2.0):
        w = local.step(w, scale * torch.arange(5.0))
        parameter.grad = scale * torch.arange(5.0)
        other.step()
    assert torch.equal(w, parameter.data)
