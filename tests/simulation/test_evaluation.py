"""Evaluating only the models at stops: the same training and ids, fewer evaluations, and never a rule without data."""

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("sklearn")

from helpers.records import rows_of
from helpers.specs import SMALL, as_options

from fedhalt import FedhaltError
from fedhalt.rules import named_rules
from fedhalt.simulation import RunSpec, run
from fedhalt.simulation.federation import EVALUATED, HELD_OUT, Federation, in_batches

SPEC = RunSpec(**SMALL, lr=0.05)
WATCH = named_rules(["growth", "budget"], {"threshold": [0.5], "patience": [2], "rounds": [7]})


def record(summary):
    return rows_of(Path(summary.run) / "trajectory.jsonl")


def evaluated_rounds(rows):
    return [row["round"] for row in rows if row["val_loss"] is not None]


def without_metrics(rows):
    return [{name: value for name, value in row.items() if not name.startswith(("val_", "test_"))} for row in rows]


def test_only_kept_models_are_evaluated_and_nothing_else_changes(tmp_path, monkeypatch):
    curves = run(SPEC, tmp_path / "rounds", rounds=9, watch=WATCH, stop="never", workers=1)
    calls = []
    evaluate = Federation.evaluate
    monkeypatch.setattr(Federation, "evaluate", lambda *args: calls.append(1) or evaluate(*args))
    stops = run(SPEC, tmp_path / "stops", rounds=9, watch=WATCH, stop="never", workers=1, evaluate="stops")
    (every, few) = record(curves), record(stops)
    kept = [*(rule.stop_round for rule in stops.rules), 9]
    assert evaluated_rounds(few) == kept and len(calls) == 3
    assert without_metrics(few) == without_metrics(every) and list(few[0]) == list(every[0])
    assert [few[r - 1] for r in kept] == [every[r - 1] for r in kept]
    assert Path(stops.run).name == Path(curves.run).name == SPEC.id
    for rule in stops.rules:
        assert rule.accuracy is not None and rule.metrics["test_loss"] == every[rule.stop_round - 1]["test_loss"]
    for name in ("spec.json", "origin.json", *(f"models/{file.name}" for file in Path(stops.run, "models").iterdir())):
        assert Path(stops.run, name).read_bytes() == Path(curves.run, name).read_bytes()


def test_it_resumes_and_a_finished_run_is_only_read(tmp_path):
    growth = named_rules(["growth"], {"threshold": [1e-9]})
    options = {"watch": growth, "workers": 1, "evaluate": "stops"}
    whole = run(SPEC, tmp_path / "whole", rounds=6, **options)
    for rounds in (2, 4, 6):
        parts = run(SPEC, tmp_path / "parts", rounds=rounds, **options)
    assert evaluated_rounds(record(whole)) == [6] and evaluated_rounds(record(parts)) == [2, 4, 6]
    assert without_metrics(record(parts)) == without_metrics(record(whole)) and parts.metrics == {
        **whole.metrics, "seconds": parts.metrics["seconds"]
    }  # fmt: skip
    before = Path(parts.run, "trajectory.jsonl").read_bytes()
    assert run(SPEC, tmp_path / "parts", rounds=6, **options) == parts
    longer = run(SPEC, tmp_path / "parts", rounds=8, watch=growth, workers=1)  # with curves from here on
    assert evaluated_rounds(record(longer)) == [2, 4, 6, 7, 8]
    assert Path(longer.run, "trajectory.jsonl").read_bytes().startswith(before)


def test_averages_and_held_out_data_are_evaluated_at_stops_too(tmp_path):
    spec = RunSpec(**SMALL, lr=0.05, held_out=0.2, evaluate_every=3)
    summary = run(spec, tmp_path, rounds=4, workers=1, evaluate="stops", average=2)
    rows = record(summary)
    assert evaluated_rounds(rows) == [4] and all(rows[0].get(name) is None for name in (*EVALUATED, *HELD_OUT))
    assert all(0 <= rows[-1][f"{name}{end}"] for name in (*EVALUATED, *HELD_OUT) for end in ("", "_average"))


def test_a_diverged_run_ends_as_ever(tmp_path):
    spec = RunSpec(**{**SMALL, "lr": 1e30}, clip=None, momentum=0.0)
    options = {"rounds": 50, "workers": 1, "average": 3}
    curves = run(spec, tmp_path / "rounds", **options)
    stops = run(spec, tmp_path / "stops", **options, evaluate="stops")
    assert stops.reason == "diverged" == curves.reason and stops.rounds == curves.rounds


def test_what_needs_curves_is_refused(tmp_path):
    loss = named_rules(["growth", "val-loss"], {})
    with pytest.raises(FedhaltError, match=r"val-loss reads validation metrics, and evaluate 'stops' leaves"):
        run(SPEC, tmp_path, watch=loss, evaluate="stops")
    with pytest.raises(FedhaltError, match="evaluate_every 0, which is never"):
        run(RunSpec(**SMALL, evaluate_every=0), tmp_path, evaluate="stops")
    with pytest.raises(FedhaltError, match="one of rounds, stops, not 'stop'"):
        run(SPEC, tmp_path, evaluate="stop")
    assert not list(tmp_path.iterdir())
    done = run(SPEC, tmp_path, rounds=3, workers=1, evaluate="stops")
    before = Path(done.run, "trajectory.jsonl").read_bytes()
    for rounds in (3, 5):  # read only, or resumed
        with pytest.raises(FedhaltError, match=r"evaluated only at stops: val-loss has .* round 1 to read"):
            run(SPEC, tmp_path, rounds=rounds, watch=loss, workers=1)
    assert Path(done.run, "trajectory.jsonl").read_bytes() == before


def test_on_the_command_line_and_in_a_file(tmp_path, said):
    line = ["run", "--out", tmp_path, *as_options({**SMALL, "lr": 0.05}), "--rounds", 3, "--json"]
    summary = json.loads(said(*line, "--evaluate", "stops"))
    assert evaluated_rounds(rows_of(Path(summary["run"], "trajectory.jsonl"))) == [3]
    assert 0 <= summary["accuracy"] <= 1 and SPEC.id in summary["run"]
    (tmp_path / "run.toml").write_text('evaluate = "stops"\n')
    assert json.loads(said(*line, "--config", tmp_path / "run.toml")) == summary
    assert "val-loss reads validation metrics" in said(*line, "--evaluate", "stops", "--rule", "val-loss", code=2)
    assert "stops" in said(*line, "--evaluate", "never", code=2)


@pytest.mark.parametrize("count, shape, sizes", [
    (0, (3, 8, 8), [0]), (256, (3, 8, 8), [256]), (257, (3, 8, 8), [129, 128]), (1025, (3, 8, 8), [205] * 5),
    (1024, (40,), [1024]), (1025, (40,), [513, 512]),
])  # fmt: skip
def test_batches_are_of_about_the_same_size_and_in_order(count, shape, sizes):
    samples = torch.arange(count).reshape(count, *[1] * len(shape)).expand(count, *shape)
    batches = in_batches(samples)
    assert [len(batch) for batch in batches] == sizes and torch.equal(torch.cat(list(batches)), samples)


def test_the_size_of_the_batches_changes_no_score(monkeypatch):
    federation = Federation(RunSpec(**SMALL | {"model": "cnn"}))
    found = []
    for size in (64, 128, 1024):
        monkeypatch.setattr("fedhalt.simulation.federation.IMAGES", size)
        found.append(federation.evaluate(federation.theta0(), federation.shared()))
    assert found[0] == found[1] == found[2]
