"""What every method promises: inputs untouched, states closed, only sums go up, costs as declared."""

import dataclasses
import pickle

import pytest

torch = pytest.importorskip("torch")

from helpers.problems import NAMES, create, quadratics

from fedhalt import methods
from fedhalt.methods import METHODS
from fedhalt.methods.replies import Replies
from fedhalt.simulation import toy

SETTING = methods.Setting(local_iteration=2.5, sizes=(2, 4))
EVERY = [pytest.param(create(name), id=name) for name in NAMES]
EVERY += [pytest.param(create("fedspeed", dual_mean="active"), id="fedspeed-active")]
EVERY += [pytest.param(create("fedlesam", mode="last_update"), id="fedlesam-last_update")]
EVERY += [pytest.param(create(name, compat="authors", setting=SETTING), id=f"{name}-authors") for name in NAMES]


def clones(vectors):
    return {name: vector.clone() for name, vector in vectors.items()}


def same(one, two):
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


@pytest.mark.parametrize("method", EVERY)
def test_inputs_are_untouched_and_states_closed(method):
    task = quadratics()
    state, memory = method.server_init(task.theta0()), {}
    form = {name: vector.shape for name, vector in state.items()}
    for r in range(1, 5):
        up = Replies(task.population)
        down = {name: state[name] for name in method.down}
        for position, client in enumerate(task.cohort(r)):
            kept = memory.get(client) or method.client_init(down["x"])
            before = clones(down), clones(kept)
            reply, memory[client] = method.client(task.visit(client, r), **down, **kept)
            assert same(down, before[0]) and same(kept, before[1])
            again = method.client(task.visit(client, r), **down, **kept)
            assert same(again[0], reply) and same(again[1], memory[client])
            assert memory[client].keys() == kept.keys()
            up.add(position, reply)
        before = clones(state)
        after = method.server(up, **state)
        assert same(state, before)
        assert {name: vector.shape for name, vector in after.items()} == form
        state = after


@pytest.mark.parametrize("method", EVERY)
def test_the_server_sees_only_sums(method):
    """Replacing every reply by the mean of all leaves the server's result as it is."""
    task = quadratics()
    *_, last = toy.rounds(method, task, 3)
    down = {name: last.state[name] for name in method.down}
    replies = []
    for client in range(task.population):
        kept = last.memory.get(client) or method.client_init(down["x"])
        replies.append(method.client(task.visit(client, 4), **down, **kept)[0])
    mean = {name: torch.stack([reply[name] for reply in replies]).mean(0) for name in replies[0]}
    one, two = Replies(task.population), Replies(task.population)
    for position, reply in enumerate(replies):
        one.add(position, reply)
        two.add(position, mean)
    for name, vector in method.server(one, **last.state).items():
        assert torch.allclose(vector, method.server(two, **last.state)[name], rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_costs_are_as_declared(name):
    task, method, facts = quadratics(steps=4), create(name), METHODS[name].facts
    evaluations = []

    class Counting(toy.Quadratics):
        def gradient(self, client, w):
            evaluations.append(client)
            return super().gradient(client, w)

    counting = Counting(**{field.name: getattr(task, field.name) for field in dataclasses.fields(task) if field.init})
    *_, last = toy.rounds(method, counting, 2)
    assert len(evaluations) == facts.gradients * 4 * sum(len(task.cohort(r)) for r in (1, 2))
    d = len(task.start)
    count = lambda vectors: sum(vector.shape == (d,) for vector in vectors.values())  # noqa: E731
    down = {name: last.state[name] for name in method.down}
    reply, memory = method.client(task.visit(0, 3), **down, **method.client_init(down["x"]))
    assert (count(down), count(memory), count(reply)) == (facts.down, facts.keeps, facts.up)
    assert set(facts.phi) <= set(methods.hyperparameters(name)) and bool(facts.phi) == bool(facts.half)


@pytest.mark.parametrize("name", NAMES)
def test_a_client_has_memory_only_after_its_first_visit(name):
    task = quadratics(clients=50, cohorts=[[3, 7], [7, 11]])
    visited = [set(round.memory) for round in toy.rounds(create(name), task, 2)]
    assert visited == ([{3, 7}, {3, 7, 11}] if METHODS[name].facts.keeps else [set(), set()])


@pytest.mark.parametrize("method", EVERY)
def test_methods_travel_between_processes(method):
    assert pickle.loads(pickle.dumps(method)) == method


def test_replies_do_not_depend_on_who_finished_first():
    values = [{"dx": torch.randn(5, generator=torch.Generator().manual_seed(i))} for i in range(6)]
    orders = [range(6), reversed(range(6)), [3, 0, 5, 1, 4, 2]]
    sums = []
    for order in orders:
        up = Replies(10)
        for position in order:
            up.add(position, values[position])
        sums.append((up.mean("dx"), up.spread("dx")))
    assert all(torch.equal(a, b) for other in sums[1:] for a, b in zip(other, sums[0], strict=True))


def test_replies_may_be_weighted_and_must_be_complete():
    up = Replies(4)
    up.add(0, {"dy": torch.tensor([1.0])})
    with pytest.raises(ValueError, match="no reply has 'dx'; the replies have dy"):
        up.mean("dx")
    up = Replies(4, weighted=True)
    up.add(0, {"dx": torch.tensor([1.0])}, weight=3)
    up.add(2, {"dx": torch.tensor([7.0])})
    with pytest.raises(ValueError, match="wait"):
        up.mean("dx")
    up.add(1, {"dx": torch.tensor([2.0])})
    assert up.mean("dx").item() == pytest.approx((3 * 1 + 2 + 7) / 5)
    assert up.spread("dx").item() == pytest.approx((1 + 2 + 7) / 4)
