"""The paper's rule on the averaged model: by hand, live, resumed, and on saved models."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fedhalt import AverageGrowth, EarlyStopper, FedhaltError, GrowthRate, stop_round


def rows(distances, averages):
    return [{"distance": d, "distance_average": a} for d, a in zip(distances, averages, strict=True)]


@pytest.mark.parametrize("threshold, patience, averages, expected", [
    (0.1, 1, [1.0, 2.0, 2.1, 2.2], 3),  # 0.05 is the first growth below 0.1
    (0.1, 2, [1.0, 2.0, 2.1, 2.2], 4),
    (0.1, 2, [1.0, 1.05, 2.0, 2.1, 2.2], 5),  # a jump breaks the streak
    (0.1, 1, [2.0, 1.9, 1.0], 2),  # shrinking counts by its size
    (0.1, 1, [0.0, 0.0, 1.0], 2),  # 0 after 0 is growth 0
    (0.1, 1, [None, None, 1.0, 1.05], 4),  # no average yet: no signal
    (0.1, 1, [1.0, 2.0, 4.0], None),
])  # fmt: skip
def test_by_hand(threshold, patience, averages, expected):
    assert stop_round(AverageGrowth(threshold, patience), rows([1.0] * len(averages), averages)) == expected


def test_a_model_that_is_not_finite_ends_the_run_though_the_average_is():
    found = rows([1.0, math.nan, 1.0], [1.0, 1.0, 1.0])
    assert stop_round(AverageGrowth(1e-9, 5), found) == 2
    assert stop_round(AverageGrowth(0.5, 1, check_finite=False), found) == 3, "that round has no growth"


def jumping(r):
    """A model near 1 that jumps with every cohort: its mean over ten rounds hardly moves."""
    return {"w": np.full(100, 1.0 + 0.5 * (-1) ** r)}


def test_an_average_is_kept_though_nobody_asked_for_one():
    stopper, papers = (
        EarlyStopper(start={"w": np.zeros(100)}, rule=rule) for rule in (AverageGrowth(0.06, 3), GrowthRate(0.06, 3))
    )
    for r in range(1, 40):
        stopper.update(jumping(r))
        papers.update(jumping(r))
        if stopper.status.stop:
            break
    assert stopper.round == 11, "the means of 8, 9 and 10 rounds are 1, 17/18 and 1, and all later ones 1"
    assert not papers.status.stop, "its own distance goes up and down by 10 of 15 and more"
    assert stopper.average == 10 and stopper.model("average")["w"] == pytest.approx(1.0)
    assert papers.average is None
    asked = EarlyStopper(start=np.zeros(2), rule=AverageGrowth(), average="running:4")
    assert asked.average == "running:4"
    with pytest.raises(FedhaltError, match="distance_average"):
        EarlyStopper(rule=AverageGrowth()).observe(1.0)


def test_a_saved_stopper_goes_on_with_its_average(tmp_path):
    whole, first = (EarlyStopper(start={"w": np.zeros(100)}, rule=AverageGrowth(0.06, 3)) for _ in range(2))
    for r in range(1, 8):
        whole.update(jumping(r))
        first.update(jumping(r))
    first.save(tmp_path)
    again = EarlyStopper.load(tmp_path)
    assert again.average == 10
    for r in range(8, 20):
        assert again.update(jumping(r)) == whole.update(jumping(r))


def test_saved_models_are_judged_as_the_live_run_was(fedhalt, tmp_path):
    models = tmp_path / "models"
    models.mkdir()
    np.savez(models / "model-0.npz", w=np.zeros(100))
    stopper = EarlyStopper(start={"w": np.zeros(100)}, rule=AverageGrowth(0.06, 3))
    for r in range(1, 20):
        np.savez(models / f"model-{r}.npz", **jumping(r))
        if not (stopper.status and stopper.status.stop):
            stopper.update(jumping(r))
    asked = ("replay", models, "--checkpoints", "--rule", "growth-average", "--threshold", 0.06, "--patience", 3)
    code, out, errors = fedhalt(*asked)
    assert code == 0, errors
    assert f" {stopper.round} " in out, out


def test_a_round_that_is_no_part_of_the_average_has_no_growth():
    """An array that is not watched stops being finite: the average stands still, but the model does not."""
    start = {"w": np.zeros(3), "bn.scale": np.ones(3)}
    stopper = EarlyStopper(start=start, exclude="bn.*", rule=AverageGrowth(1e-3, 3))
    for r in range(1, 20):
        other = np.ones(3) if r < 5 else np.full(3, np.inf)
        assert not stopper.update({"w": np.full(3, 2.0**r), "bn.scale": other}).stop


def test_saved_models_may_hold_more_than_is_chosen(tmp_path):
    from fedhalt.records.checkpoints import Checkpoints

    for r in range(4):
        np.savez(tmp_path / f"{r}.npz", **{"model.w": np.full(3, float(r)), "opt.x": np.zeros(r + 1)})
    found = list(Checkpoints(tmp_path, ("distance", "distance_average"), include="model.*", average=2).rows())
    assert [row["distance_average"] for row in found] == pytest.approx([3**0.5 * mean for mean in (1.0, 1.5, 2.5)])


def test_what_is_missing_is_named():
    with pytest.raises(FedhaltError, match=r"keep an average from round 1 on: average=10"):
        stop_round(AverageGrowth(), [{"distance": 1.0}])


def test_a_resumed_run_goes_on_with_the_average_that_it_was_begun_with(tmp_path):
    pytest.importorskip("torch")
    from fedhalt.rules import named_rule
    from fedhalt.simulation import RunSpec, run
    from fedhalt.simulation.store import RunFolder

    spec = RunSpec(data="digits", clients=10, cohort=2, epochs=1, lr=0.05, c=1.0)
    watch = [named_rule("growth-average", threshold=1e-6)]
    run(spec, tmp_path / "cut", rounds=8, watch=watch, average=3, workers=1)
    with pytest.raises(FedhaltError, match=r"begun with an average of 3, which a rule reads, not of 5"):
        run(spec, tmp_path / "cut", rounds=12, watch=watch, average=5, workers=1)
    run(spec, tmp_path / "cut", rounds=12, watch=watch, workers=1)
    run(spec, tmp_path / "whole", rounds=12, watch=watch, average=3, workers=1)
    columns = []
    for name in ("cut", "whole"):
        folder = RunFolder(tmp_path / name / spec.id, spec, 12)
        columns.append([row["distance_average"] for row in folder.trajectory.rows])
        folder.close()
    assert columns[0] == columns[1]
