"""The search space: what it proposes, and what it refuses before anything trains."""

import pytest

pytest.importorskip("torch")

from hypothesis import given
from hypothesis import strategies as st

from fedhalt import FedhaltError
from fedhalt.methods import METHODS, hyperparameters
from fedhalt.simulation.spec import FIELDS, HYPERPARAMETERS, RunSpec
from fedhalt.tuning import plans as plan
from fedhalt.tuning.space import Space


def labels(table):
    space = Space(table)
    return [space.label(spec) for spec in space.grid()]


@pytest.mark.parametrize("table, expected", [
    ({"lr": [0.1, 0.2]}, ["lr=0.1", "lr=0.2"]),
    ({"lr": 0.1}, ["fedavg"]),
    ({"lr-decay": [0.9, 1.0]}, ["lr_decay=0.9", "lr_decay=1"]),
    ({"method": ["fedavg", "fedprox"], "lam": [0.1, 0.01]}, ["fedavg", "fedprox lam=0.1", "fedprox lam=0.01"]),
    ({"method": ["fedavg", "fedsam", "fedspeed"], "phi": [0.1, 0.2]},
     ["fedavg", "fedsam rho=0.1", "fedsam rho=0.2", "fedspeed lam=0.1 rho=0.1", "fedspeed lam=0.2 rho=0.2"]),
    ({"epochs": {"low": 1, "high": 6, "step": 2}}, ["epochs=1", "epochs=3", "epochs=5"]),
    ({"epochs": {"low": 1, "high": 3}}, ["epochs=1", "epochs=2", "epochs=3"]),
    ({"lr": {"low": 0.1, "high": 0.35, "step": 0.1}}, ["lr=0.1", "lr=0.2", "lr=0.3"]),
    ({"skew": ["iid", "dirichlet"], "c": [0.1, 1.0]}, ["skew=iid c=1", "skew=dirichlet c=0.1", "skew=dirichlet c=1"]),
    ({"pretrained": [True, False]}, ["pretrained=True", "pretrained=False"]),
])  # fmt: skip
def test_a_grid_is_every_combination_once(table, expected):
    assert labels(table) == expected


def test_every_field_and_every_hyperparameter_may_stand_in_a_space():
    for name in FIELDS:
        value = getattr(RunSpec(), name)
        if name != "key" and value is not None:
            assert Space({name: [value]}).grid() == [RunSpec(**{name: value})]
    for name in HYPERPARAMETERS:
        method = next(method for method in METHODS if name in hyperparameters(method))
        assert len(Space({"method": method, name: hyperparameters(method)[name]}).grid()) == 1


@pytest.mark.parametrize("table, words", [
    ({}, ["empty", "lr"]),
    ({"lr": []}, ["lr = []"]),
    ({"method": []}, ["method = []"]),
    ({"lrr": [0.1]}, ["lrr", "did you mean 'lr'"]),
    ({"method": ["fedavg", "fedproxx"]}, ["fedproxx", "fedprox"]),
    ({"method": "fedavg", "lam": [0.1]}, ["lam", "fedavg", "fedprox"]),
    ({"method": ["fedavg", "scaffold"], "phi": [0.1]}, ["phi", "fedavg or scaffold", "fedprox"]),
    ({"method": "fedprox", "phi": 0.1, "lam": 0.1}, ["phi is lam for fedprox"]),
    ({"lr": {"low": 1.0, "high": 0.1}}, ["contradictory", "low = 1", "high = 0.1"]),
    ({"lr": {"low": 0.1, "high": 0.1}}, ["contradictory"]),
    ({"lr": {"low": 0, "high": 1, "log": True}}, ["logarithmic", "above 0"]),
    ({"lr": {"low": 0.1, "high": 1, "log": True, "step": 0.1}}, ["logarithmic", "no step"]),
    ({"lr": {"low": 0.1, "high": 1, "step": 0}}, ["step", "0"]),
    ({"lr": {"low": 0.1, "high": 1, "step": 5}}, ["step", "5"]),
    ({"lr": {"low": 0.1}}, ["needs low and high"]),
    ({"lr": {"low": "a", "high": 1}}, ["low", "'a'"]),
    ({"lr": {"low": 0.1, "hihg": 1}}, ["hihg", "high"]),
    ({"lr": {"low": 0.1, "high": float("inf")}}, ["high", "inf"]),
    ({"lr": {"low": -1.0, "high": 1.0}}, ["lr = -1.0", "above 0"]),
    ({"epochs": {"low": 0.5, "high": 3}}, ["whole number"]),
    ({"method": {"low": 0, "high": 1}}, ["method", "list"]),
    ({"pretrained": {"low": 0, "high": 1}}, ["pretrained", "list"]),
    ({"lr": [0.1, 0.1]}, ["0.1 twice"]),
    ({"lr": [[0.1]]}, ["[0.1]"]),
    ({"lr": "fast"}, ["lr", "'fast'"]),
    ({"lr": [0.1, -1]}, ["contradicts", "1 of 2", "lr = -1"]),
    ({"clients": [5, 20], "cohort": 10}, ["contradicts", "clients = 5", "cohort of 10"]),
    ({"method": ["fedavg", "scaffold"], "optimizer": ["sgd", "adam"]}, ["1 of 4", "scaffold", "adam"]),
    ({"hyperparameters": {"low": 1, "high": 2}}, ["hyperparameters"]),
])  # fmt: skip
def test_empty_and_contradictory_spaces_are_refused_in_a_sentence(table, words):
    with pytest.raises(FedhaltError) as error:
        Space(table)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_a_grid_needs_values_and_an_end():
    with pytest.raises(FedhaltError, match="lr is a range without a step"):
        Space({"lr": {"low": 0.1, "high": 1}}).grid()
    with pytest.raises(FedhaltError, match="1000000001 configurations"):
        Space({"seed": {"low": 0, "high": 10**9}}).grid()


@given(low=st.floats(1e-6, 1.0), factor=st.floats(1.001, 1e6), log=st.booleans(), seed=st.integers(0, 10**6))
def test_random_draws_stay_inside_and_repeat(low, factor, log, seed):
    space = Space({"method": ["fedavg", "fedprox"], "lam": [0.5, 0.7],
                   "lr": {"low": low, "high": low * factor, "log": log}, "epochs": {"low": 2, "high": 4}})  # fmt: skip
    drawn = space.random(5, seed)
    assert drawn == space.random(5, seed) and len({spec.id for spec in drawn}) == 5
    for spec in drawn:
        assert low <= spec.lr <= low * factor and spec.epochs in (2, 3, 4)
        assert ("lam" in dict(spec.hyperparameters)) == (spec.method == "fedprox")


def test_a_random_sample_of_a_small_space_is_all_of_it():
    space = Space({"lr": [0.1, 0.2, 0.3], "seed": [0, 1]})
    assert {spec.id for spec in space.random(50, 0)} == {spec.id for spec in space.grid()}


SPACE = {"lr": [0.1, 0.2]}


@pytest.mark.parametrize("table, words", [
    ({}, ["empty"]),
    ({"space": SPACE, "roudns": 5}, ["roudns", "rounds"]),
    ({"space": SPACE, "rounds": 0}, ["rounds", "0"]),
    ({"space": SPACE, "sampler": "tpee", "trials": 3}, ["tpee", "tpe"]),
    ({"space": SPACE, "sampler": "random"}, ["random", "trials"]),
    ({"space": SPACE, "trials": 5}, ["grid", "trials = 5"]),
    ({"space": SPACE, "objective": "growth"}, ["growth", "val_loss"]),
    ({"space": SPACE, "objective": "none", "sampler": "tpe", "trials": 3}, ["tpe", "objective"]),
    ({"space": SPACE, "objective": "client_loss"}, ["client_loss", "held_out"]),
    ({"space": {**SPACE, "evaluate_every": 0}}, ["evaluate_every"]),
    ({"space": SPACE, "screen": {"rule": "wanderin"}}, ["wanderin", "wandering"]),
    ({"space": SPACE, "screen": {"treshold": 1}}, ["treshold", "threshold"]),
    ({"space": SPACE, "converge": {"threshold": -1}}, ["threshold", "-1"]),
    ({"space": SPACE, "screen": "growth"}, ["screen", "table"]),
    ({"space": SPACE, "storage": "sqlite:///x.db"}, ["storage", "grid"]),
    ({"space": SPACE, "address": "auto"}, ["address", "ray"]),
    ({"space": SPACE, "executor": "slurm"}, ["slurm", "ray"]),
    ({"space": SPACE, "out": 3}, ["out", "3"]),
    ({"space": SPACE, "parallel": "two"}, ["parallel", "two"]),
    ({"space": [1]}, ["empty"]),
])  # fmt: skip
def test_a_plan_refuses_what_it_cannot_do(table, words):
    with pytest.raises(FedhaltError) as error:
        plan.plan(table)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_the_stages_have_defaults_and_can_be_left_out():
    assert [str(stage) for stage in plan.plan({"space": SPACE}).stages.values()] == [
        "wandering threshold=0.5 patience=15", "growth threshold=0.01 patience=10",
    ]  # fmt: skip
    only = plan.plan({"space": {**SPACE, "evaluate_every": 0}, "objective": "none", "converge": False})
    assert [stage.name for stage in only.stages.values()] == ["wandering"]
    named = plan.plan({"space": SPACE, "screen": {"rule": "growth", "threshold": 0.1}})
    assert named.stages["screen"].settings["threshold"] == 0.1
