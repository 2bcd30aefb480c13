"""What a person sees of a comparison: each way of stopping with its cost and the quality of its pick."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from ...tuning.compare import LAST, Compared
from ...tuning.plans import Plan
from ..plots import bars_and_dots
from ..words import format_duration, format_percent
from .display import Column, columns_table, print_table
from .sweep import short_label

USUAL = ("stopping", "rounds", "share", "screened", "picks", "accuracy", "regret")
COLUMNS: dict[str, Column[Compared]] = {
    "stopping": Column("stopping", lambda row: row.strategy, words=True),
    "rounds": Column("rounds", lambda row: f"{row.cost.rounds:,.0f}"),
    "share": Column("of full", lambda row: f"{row.share.rounds:.0%}"),
    "screened": Column("screened", lambda row: str(row.screened)),
    "picks": Column("picks", lambda row: short_label(row.pick) if row.pick else "-", words=True),
    "accuracy": Column("accuracy", lambda row: format_percent(row.quality)),
    "regret": Column("below best", lambda row: format_percent(row.regret)),
    "spread": Column("±", lambda row: format_percent(row.spread)),
    "best_screened": Column("best screened", lambda row: format_percent(row.best_screened)),
    "seconds": Column("time", lambda row: format_duration(row.cost.seconds)),
    "MB": Column("MB", lambda row: f"{row.cost.bytes / 1e6:,.0f}"),
}
"""What there is to say of a way of stopping: the first seven usually, all with `--wide`."""


def show_comparison(console: Console, rows: Sequence[Compared], plan: Plan, wide: bool = False) -> None:
    """The table, and what its columns are."""
    columns = [COLUMNS[name] for name in (COLUMNS if wide else USUAL)]
    print_table(columns_table(rows, columns), console, wide)
    console.print(
        f"\n{rows[0].trials} configurations of {plan.rounds} rounds, picked by {plan.objective} at the stop.\n"
        f"accuracy: balanced test accuracy at the full budget, mean of the last {LAST} evaluations",
        markup=False,
    )


def draw_comparison(rows: Sequence[Compared], path: Path) -> None:
    """Cost on the left, quality of the pick on the right."""
    bars_and_dots(
        [row.strategy for row in rows],
        [row.share.rounds for row in rows],
        [(row.quality, row.spread, row.pick or "") for row in rows],
        (f"rounds, share of {rows[0].cost.rounds:.0f}", "balanced test accuracy of the pick at the full budget"),
        path,
    )
