"""`run(average=…)`: the mean of the last global models, evaluated and kept beside the last one, resumed to the bit."""

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

import numpy as np
from helpers.commands import FEDHALT, started, wait_for
from helpers.records import rounds_in, rows_of
from helpers.specs import SMALL, as_options, write_toml
from safetensors.torch import load_file

from fedhalt import FedhaltError
from fedhalt.methods import METHODS
from fedhalt.rules import named_rules
from fedhalt.simulation.federation import Federation
from fedhalt.simulation.runner import run
from fedhalt.simulation.spec import RunSpec
from fedhalt.tuning import plans, sweep

SPEC = RunSpec(**SMALL, lr=0.05)
NEVER = {"stop": "never", "workers": 1}


def kept_models(tmp_path, rounds):
    """The global model of every round."""
    budgets = named_rules(["budget"], {"rounds": [*range(1, rounds + 1)]})
    summary = run(SPEC, tmp_path / "each", rounds=rounds, watch=budgets, **NEVER)
    return [load_file(rule.model) for rule in summary.rules]


@pytest.fixture(scope="module")
def federation():
    return Federation(SPEC)


def mean_of(models):
    names = models[0]
    return {name: torch.stack([model[name].double() for model in models]).mean(0).float() for name in names}


def test_the_average_is_evaluated_and_kept_at_every_stop(tmp_path, federation):
    models = kept_models(tmp_path, 7)
    watch = named_rules(["budget"], {"rounds": [2, 6]})
    summary = run(SPEC, tmp_path / "runs", rounds=7, watch=watch, average=4, **NEVER)
    for rule, rounds in zip(summary.rules, (models[:2], models[2:6]), strict=True):
        expected, found = mean_of(rounds), load_file(rule.average)
        assert found.keys() == expected.keys()
        for name, tensor in found.items():
            assert torch.allclose(tensor, expected[name], atol=1e-6)
        last = load_file(rule.model)
        assert all(torch.equal(last[name], rounds[-1][name]) for name in found)
        row = rows_of(next((tmp_path / "runs").glob("*/trajectory.jsonl")))[rule.stop_round - 1]
        scores = federation.evaluate(*federation.vectors(found))
        assert {f"{name}_average": value for name, value in scores.items()} == {
            name: value for name, value in row.items() if name.endswith("_average") and name != "distance_average"
        }


def test_training_does_not_notice(tmp_path):
    run(SPEC, tmp_path / "plain", rounds=4, **NEVER)
    run(SPEC, tmp_path / "average", rounds=4, average=3, **NEVER)
    plain, average = (rows_of(tmp_path / name / SPEC.id / "trajectory.jsonl") for name in ("plain", "average"))
    for before, after in zip(plain, average, strict=True):
        assert {name: value for name, value in after.items() if not name.endswith("_average")} == before


@pytest.mark.parametrize("average", [3, "running:4", None])
@pytest.mark.parametrize("cut", [1, 5, 11])
def test_resumed_at_any_round_it_records_the_same(average, cut, tmp_path):
    watch = named_rules(["budget"], {"rounds": [13]})
    whole = run(SPEC, tmp_path / "whole", rounds=13, watch=watch, average=average, **NEVER)
    run(SPEC, tmp_path / "cut", rounds=cut, watch=watch, average=average, **NEVER)
    again = run(SPEC, tmp_path / "cut", rounds=13, watch=watch, average=average, **NEVER)
    rows = [rows_of(tmp_path / name / SPEC.id / "trajectory.jsonl") for name in ("whole", "cut")]
    assert rows[0] == rows[1] and rows[0][9]["drift_5"] is not None
    if average is not None:
        first, second = (load_file(summary.rules[0].average) for summary in (whole, again))
        assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_resumed_records_and_ships_the_same(method, tmp_path):
    spec = RunSpec(**SMALL, lr=0.05, method=method)
    whole = run(spec, tmp_path / "whole", rounds=6, average=3, **NEVER)
    run(spec, tmp_path / "cut", rounds=4, average="3", **NEVER)
    again = run(spec, tmp_path / "cut", rounds=6, average=3, **NEVER)
    rows = [rows_of(tmp_path / name / spec.id / "trajectory.jsonl") for name in ("whole", "cut")]
    assert rows[0] == rows[1]
    for file in ("model", "average"):
        first, second = (load_file(getattr(summary, file)) for summary in (whole, again))
        assert all(torch.equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize("epochs", [1, 3])
def test_a_run_that_diverges_ships_the_average_of_what_was_finite_if_anything_was(epochs, tmp_path):
    summary = run(RunSpec(**{**SMALL, "epochs": epochs}, lr=1e38), tmp_path, rounds=6, average=3, workers=1)
    assert summary.reason == "diverged"
    assert (summary.average is not None) is (summary.rounds > 1) and summary.rules[0].average == summary.average
    for file in filter(None, (summary.model, summary.average)):
        assert all(bool(tensor.isfinite().all()) for tensor in load_file(file).values())


def test_an_average_that_is_asked_for_later_begins_then(tmp_path):
    run(SPEC, tmp_path, rounds=3, **NEVER)
    run(SPEC, tmp_path, rounds=5, average=4, **NEVER)
    rows = rows_of(tmp_path / SPEC.id / "trajectory.jsonl")
    assert rows[2]["distance_average"] is None
    assert rows[3]["distance_average"] == pytest.approx(rows[3]["distance"], rel=1e-5)
    run(SPEC, tmp_path, rounds=12, **NEVER)  # and one that is not asked for any more is not evaluated
    rows = rows_of(tmp_path / SPEC.id / "trajectory.jsonl")
    assert rows[6]["distance_average"] is None and rows[9]["drift_5"] is not None


def test_the_other_columns_of_a_round(tmp_path):
    models = [{name: tensor.double().numpy() for name, tensor in model.items()} for model in kept_models(tmp_path, 3)]
    flat = [np.concatenate([model[name].ravel() for name in sorted(model)]) for model in models]
    row = rows_of(tmp_path / "each" / SPEC.id / "trajectory.jsonl")[2]
    assert row["turn"] == pytest.approx((flat[2] - flat[1]) @ (flat[1] - flat[0]), rel=1e-3, abs=1e-6)
    assert (
        row["cohort_squares"] >= row["update_norm"] ** 2
    )  # the mean of squares is no less than the square of the mean


def test_the_training_loss_before_and_after_local_training(tmp_path):
    spec = RunSpec(**{**SMALL, "epochs": 4}, lr=0.05, method="fedsam")
    run(spec, tmp_path, rounds=2, **NEVER)
    for row in rows_of(tmp_path / spec.id / "trajectory.jsonl"):
        assert row["train_loss_before"] > row["train_loss_after"] > 0


def test_a_killed_command_goes_on_to_the_same_average(tmp_path):
    line = [*FEDHALT, "run", *as_options(SMALL), "--lr", 0.05, "--rounds", 30, "--stop", "never", "--average", 5,
            "--workers", 1, "--out"]  # fmt: skip
    with started(*line, tmp_path / "whole") as process:
        assert process.communicate() and process.returncode == 0
    for after in (4, 15):
        with started(*line, tmp_path / "killed") as process:
            wait_for("rounds", lambda: sum(rounds_in(tmp_path / "killed")) >= after or process.poll() == 0)  # noqa: B023
            process.kill()
    with started(*line, tmp_path / "killed") as process:
        assert process.communicate() and process.returncode == 0
    (whole,), (killed,) = ([*(tmp_path / name).glob("*/trajectory.jsonl")] for name in ("whole", "killed"))
    assert rows_of(whole) == rows_of(killed) and "test_accuracy_average" in rows_of(whole)[0]


def test_a_sweep_may_be_scored_by_the_average(tmp_path):
    table = {"space": {**SMALL, "lr": [0.05, 0.1]}, "rounds": 4, "out": str(tmp_path), "screen": False,
             "converge": False, "objective": "val_loss_average", "average": 3}  # fmt: skip
    found = sweep(plans.plan(table))
    rows = {path.parent.name: rows_of(path) for path in tmp_path.glob("*/trajectory.jsonl")}
    expected = {name: each[-1]["val_loss_average"] for name, each in rows.items()}
    assert {trial.spec.id: trial.value for trial in found} == expected
    with pytest.raises(FedhaltError, match="needs an average: average = 10"):
        plans.plan({**table, "average": None})
    file = write_toml(tmp_path / "sweep.toml", **{**table, "average": "ten"})
    with pytest.raises(FedhaltError, match=r"average must be .* not 'ten'"):
        plans.load(file, {})


def test_a_wrong_average_leaves_no_folder(tmp_path, said):
    with pytest.raises(FedhaltError, match="average must be a whole number of at least 1, not 0"):
        run(SPEC, tmp_path / "runs", average=0)
    assert not (tmp_path / "runs").exists()
    assert "not 'ten'" in said("run", "--average", "ten", "--out", tmp_path / "runs", code=2)
