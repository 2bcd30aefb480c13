"""Table 3: bad configurations (the bad rate) under a large threshold: accuracy, stop round, what it costs more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from . import published, render
from .gains import pairs, runs
from .rows import Results, mean, spread
from .setting import METHODS, RHO, TASKS, TAU_BAD, TITLES, Need, Scale, needs

TITLE = "Table 3: bad configurations"
COLUMNS = ("Acc. (%)", "plain (%)", "r*", "Δ Acc.", "Δ r", "r*/R (%)", "stopped")
PUBLISHED = ("accuracy_percent", "", "stop_round", "accuracy_gain_points", "extra_rounds", "used_round_percent", "")


def specs(scale: Scale) -> Iterator[Need]:
    yield from needs(scale, skews=[("dirichlet", 0.1)], rates=["bad"])


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    rows = []
    for task in scale.tasks:
        for method in METHODS:
            rows.append([TASKS[task], TITLES[method], "ours", *_ours(results, scale, task, method)])
            paper = published.find("table3_bad_configurations", task=TASKS[task], method=TITLES[method])
            if paper:
                rows.append(["", "", "paper", *(paper[name] if name else "" for name in PUBLISHED)])
    text, written = render.table(folder / "table3", ["task", "method", "", *COLUMNS], rows)
    note = (
        f"τ = {TAU_BAD}, ρ = {RHO}, rate {scale.rates['bad']:g}, Dirichlet 0.1, Φ = 0.001, R = {scale.rounds} (the "
        "paper's R is 500, its rounds count from 0 and its rates are other ones). Δ against the better of the two "
        "validation rules (accuracy) and the earlier one (rounds), at the same τ and ρ. Mean ± standard deviation over "
        "seeds."
    )
    return [render.page(folder / "table3.md", TITLE, note, text), *written]


def _ours(results: Results, scale: Scale, task: str, method: str) -> list[str]:
    where = {"task": task, "skew": "dirichlet", "c": 0.1, "lr": scale.rates["bad"]}
    there, found = runs(results, scale, method, **where), pairs(results, scale, method, TAU_BAD, **where)
    stops = [float(each.proposed.round) for each in found]
    gains = [gain for each in found if (gain := each.gain()) is not None]
    extra = [float(rounds) for each in found if (rounds := each.extra()) is not None]
    balanced, plain = [each.proposed.balanced for each in found], [each.proposed.plain for each in found]
    return [
        render.number(mean(balanced), spread(balanced)), render.number(mean(plain), spread(plain)),
        render.number(mean(stops), spread(stops)), render.number(mean(gains), spread(gains), sign=True),
        render.number(mean(extra), spread(extra), sign=True), render.number(100 * mean(stops) / scale.rounds),
        f"{len(found)} of {len(there)}",
    ]  # fmt: skip
