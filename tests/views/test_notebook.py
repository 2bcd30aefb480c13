"""What a notebook shows of a record and of a sweep, and the figures from one call."""

import math

import pytest
from helpers.commands import LIMIT

from fedhalt import GrowthRate, Trajectory, stop_round

ROWS = [{"distance": r**0.5, "test_accuracy": None if r % 2 else 1 - 1 / r, "cohort": [1]} for r in range(1, 101)]


def test_a_record_shows_curves_its_stop_and_its_last_round():
    shown = Trajectory(ROWS)._repr_html_()
    assert (
        shown.count("<svg") == 2
        and shown.count("<polyline") == 2
        and f"stops at round {stop_round(GrowthRate(), ROWS)}" in shown
    )
    assert "<td>100</td>" in shown and "<td>10</td>" in shown and "<script" not in shown


@pytest.mark.parametrize("rows, says", [
    ([], "without rounds"), ([{"distance": 1.0}], "does not stop"), ([{"loss": 1.0}], "no distance"),
    ([{"distance": math.nan, "accuracy": math.inf}], "stops at round 1"), ([{"distance": "far"}] * 3, "does not stop"),
    ([{"distance": 0.0}] * 30, "stops at round 11"),
])  # fmt: skip
def test_odd_records_are_shown_too(rows, says):
    assert says in Trajectory(rows)._repr_html_()


def test_names_are_escaped():
    shown = Trajectory([{"distance": 1.0, '<b>"accuracy': 0.5}] * 3)._repr_html_()
    assert "<b>" not in shown and "&lt;b&gt;" in shown and '"accuracy' not in shown.replace('="accuracy', "")


def test_one_call_gives_a_figure(tmp_path):
    pytest.importorskip("matplotlib")
    figure = Trajectory(ROWS).plot()
    titles = [axis.get_title() for axis in figure.axes]
    assert titles == ["distance from the start", "growth, threshold 0.01", "accuracy"]
    assert list(figure.axes[0].lines[0].get_ydata()) == [row["distance"] for row in ROWS]
    assert len(figure.axes[2].lines[-1].get_ydata()) == 50 and figure.axes[1].get_yscale() == "log"
    figure.savefig(tmp_path / "figure.png")
    Trajectory([{"loss": 1.0}]).plot()


def test_without_matplotlib_it_says_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[report\]'"):
        Trajectory(ROWS).plot()


def test_an_executed_notebook_shows_a_record_and_a_sweep(tmp_path):
    for package in ("torch", "sklearn", "matplotlib", "nbclient", "ipykernel"):
        pytest.importorskip(package)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jupyter's own
        import nbformat
        from nbclient import NotebookClient

        cells = [
            "from fedhalt import Trajectory\nfrom fedhalt.tuning import plan, sweep",
            "space = {'data': 'digits', 'clients': 12, 'cohort': 4, 'epochs': 1, 'c': 0.5, 'lr': [0.05, 2.0]}\n"
            "found = sweep(plan({'rounds': 3, 'objective': 'val_accuracy', 'space': space}))\nfound",
            "record = Trajectory.load(f'runs/{found.best.spec.id}/trajectory.jsonl')\nrecord",
            "record.plot()",
            "found.plot()",
        ]
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        limits = {"timeout": int(LIMIT), "startup_timeout": int(LIMIT)}
        NotebookClient(notebook, **limits, resources={"metadata": {"path": str(tmp_path)}}).execute()
    _, sweep, record, *figures = [cell.outputs for cell in notebook.cells]
    shown = sweep[-1]["data"]["text/html"]
    assert "2 trials used 6 of 6 rounds" in shown and "lr=0.05" in shown and "(best)" in shown and "<svg" in shown
    assert "3 rounds" in record[-1]["data"]["text/html"] and "<polyline" in record[-1]["data"]["text/html"]
    assert all("image/png" in figure[-1]["data"] for figure in figures)
