"""Every view that says what the model does says what its rounds do: drift_10 with its word, beside the exponent."""

import json

import pytest

from fedhalt import Trajectory
from fedhalt.records.judging import judge
from fedhalt.rules import named_rule
from fedhalt.views.page.data import described
from fedhalt.views.page.document import page
from fedhalt.views.terminal import watch

VALUES = {20: 2.6, 40: 11.2, 60: 123.4}
"""drift_10 from these rounds on."""


def rows(rounds=60, drift=lambda value: value):
    made = []
    for r in range(1, rounds + 1):
        value = next((value for first, value in reversed(VALUES.items()) if r >= first), None)
        made.append({"round": r, "distance": r**0.9, "test_accuracy": 1 - 0.9**r, "drift_10": drift(value)})
    return made


def recorded(path, made):
    record = Trajectory.create(path)
    for row in made:
        record.append(row)
    return path


@pytest.mark.parametrize("rounds, word", [(19, "-"), (20, "scattering (2.6)"), (59, "settling (11)"),
                                          (60, "drifting (123)")])  # fmt: skip
def test_the_tables_of_replay_and_watch(rounds, word, tmp_path, said):
    path = recorded(tmp_path / "run.jsonl", rows(rounds))
    shown = said("replay", path, "--columns", "model,drift", "--threshold", "0.000001")
    assert shown.splitlines()[1].rstrip().endswith(word)
    run = watch.judged(path, "run", named_rule("growth", threshold=1e-6))
    assert watch.COLUMNS["drift"].cell(run) == word


def test_the_averaged_model_is_the_one_evaluated_last_up_to_the_stop(tmp_path):
    made = [{**row, "test_accuracy_average": 0.5 + row["round"] / 1000 if row["round"] % 4 == 0 else None}
            for row in rows(50)]  # fmt: skip
    named = named_rule("budget", rounds=30)
    assert judge("run", Trajectory(made), named).average == 0.528
    assert judge("run", Trajectory(rows(50)), named).average is None


def test_a_column_of_that_name_that_is_no_number_disturbs_nobody(tmp_path, fedhalt):
    odd = Trajectory(rows(30, drift=lambda value: "far"))
    assert judge("run", odd, named_rule("growth")).drift is None
    path = recorded(tmp_path / "run.jsonl", odd.rows)
    assert watch.judged(path, "run", named_rule("growth"))["drift"] is None
    code, _, told = fedhalt("replay", path, "--wide")
    assert not code and not told
    assert "drift" not in odd._repr_html_().split("<svg")[0]


def test_a_notebook_and_a_figure():
    assert "at the end rounds settling (drift 11)" in Trajectory(rows(50))._repr_html_()
    pytest.importorskip("matplotlib")
    short = [{**row, "distance": float(row["round"])} for row in rows(50)]
    assert Trajectory(short).plot().get_suptitle().endswith("rounds settling (drift 11))")


def test_a_stopper_that_a_tracker_or_ray_reads_reports_it():
    pytest.importorskip("ray")
    from fedhalt.integrations.ray import DistanceStopper

    stopper = DistanceStopper()
    for row in rows(50):
        stopper("trial", {**row, "update_norm": 1.0, "training_iteration": row["round"]})
    assert stopper.drift == {"trial": "settling (11)"}


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_has_a_chart_a_column_and_words(visit, tmp_path, width):
    file = tmp_path / "page.html"
    file.write_text(page("title", {"live": False, "runs": [described(Trajectory(rows(50)), "run")]}))
    shown = visit(file.as_uri(), viewport={"width": width, "height": 900})
    cells = shown.locator("#detail tbody tr").first.inner_text().split("\t")
    assert cells[4] == "settling (11)" and shown.locator("#detail thead th").all_inner_texts()[4].startswith("drift")
    assert shown.locator("figure", has_text="Drift: 1 scattering").count() == 1
    assert "drift settling (11)" in shown.locator(".reader output").inner_text()


def test_the_page_compares_runs_by_it_where_it_is_recorded(visit, tmp_path):
    file, plain = tmp_path / "page.html", [{**row, "drift_10": None} for row in rows(30)]
    runs = [described(Trajectory(rows(30)), "a"), described(Trajectory(plain), "b")]
    file.write_text(page("title", {"live": False, "runs": runs}))
    shown = visit(file.as_uri())
    assert "scattering (2.6)" in shown.locator("#table tbody").inner_text()
    file.write_text(page("title", {"live": False, "runs": [runs[1], {**runs[1], "name": "c"}]}))
    assert "drift" not in visit(file.as_uri()).locator("#table thead").inner_text()


def test_the_live_display_of_a_run_and_a_sweep(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    from rich.console import Console

    from fedhalt.rules import Stepper
    from fedhalt.simulation.runner import Progress
    from fedhalt.tuning.trial import Outcome
    from fedhalt.views.terminal.run import RunDisplay

    named, stepper = named_rule("growth"), Stepper([named_rule("growth").rule])
    for row in rows(50):
        stepper.step(row)
    console = Console(width=160, record=True)
    display = RunDisplay(console, [named])
    display.seconds.append(1.0)
    console.print(display._view(Progress({**rows(50)[-1], "seconds": 1.0}, stepper.statuses, {}, 100)))
    assert "model still moving (0.90), rounds settling (drift 11)" in console.export_text()
    assert Outcome.from_json(Outcome("complete", run="x", drift=11.2).to_json()).drift == 11.2


def test_a_sweep_counts_it_among_its_columns(tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    from helpers.specs import SMALL

    from fedhalt.tuning import plans, sweep
    from fedhalt.views.terminal.sweep import COLUMNS, sweep_table

    plan = plans.plan({"space": {**SMALL, "lr": [0.05]}, "rounds": 21, "out": str(tmp_path), "screen": False,
                       "converge": False})  # fmt: skip
    found = sweep(plan)
    (file,) = tmp_path.glob("*/trajectory.jsonl")
    drift = Trajectory.load(file).rows[-1]["drift_10"]
    assert drift is not None and found[0].outcome.drift == drift and "drift" in COLUMNS
    made, _ = sweep_table(list(found), 1, plan, chosen=["drift"])
    (shown,) = made.columns[0].cells
    assert str(shown).endswith(f"({drift:.0f})" if drift >= 10 else f"({drift:.1f})")
    assert f'"drift": {json.dumps(drift)}' in json.dumps(found[0].outcome.to_json())
