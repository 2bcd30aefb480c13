"""The claims of the paper (abstract, sections II and III), one by one, against the recorded rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from . import claims_results as results_of
from . import claims_setting as setting_of
from . import clock, intro, plan, reason, render, result4, table0, table1, table2
from .claim import Claim
from .rows import Results
from .setting import SMALL, Need, Scale

TITLE = "The claims of the paper, one by one"
CLAIMS: tuple[Callable[[Results, Scale], Claim], ...] = (
    setting_of.comparable,
    setting_of.later_and_better,
    setting_of.screening,
    setting_of.cost,
    setting_of.scale_free,
    setting_of.inequalities,
    setting_of.condition,
    results_of.best_method,
    results_of.collapsed,
    results_of.no_pattern,
    results_of.smaller_rate,
    results_of.used_rounds,
    results_of.severe_skew,
    results_of.no_clock,
    results_of.threshold,
    results_of.patience,
)


def specs(scale: Scale) -> Iterator[Need]:
    for item in (table0, table1, table2, result4, reason, clock, intro):
        yield from item.specs(scale)


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    found = [make(results, scale) for make in CLAIMS]
    where = "" if scale.name == SMALL.name else f" --scale {scale.name}"  # the command's default
    rows = [
        [str(number), claim.words, claim.ours, claim.verdict, f"`fedhalt reproduce {claim.item}{where}`"]
        for number, claim in enumerate(found, 1)
    ]
    header = ["", "the paper", f"here (scale {scale.name})", "verdict", "command"]
    text, written = render.table(folder / "claims", header, rows)
    there = sum(results.has(need) for need in plan.lines(scale)) if scale.name == "network" else None
    counted = "" if there is None else f" Answered by the {there} runs of the list that are recorded."
    tests = "`fedhalt/paper/claims_setting.py` and `claims_results.py`"
    note = f"A claim holds if all its tests are met (they are in {tests}), partly if some are.{counted}"
    return [render.page(folder / "claims.md", TITLE, note, text), *written]
