"""Every table and figure of the paper: one short module each, with its runs (`specs`) and its drawing (`draw`)."""

from __future__ import annotations

from importlib import import_module
from typing import Any

ITEMS = {
    "table0": "table0",
    "table1": "table1",
    "table2": "table2",
    "table3": "table3",
    "fig-intro": "intro",
    "fig-problem": "problem",
    "fig-method": "method",
    "fig-reason": "reason",
    "fig-result1": "result1",
    "fig-result2": "result2",
    "fig-result3": "result3",
    "fig-result4": "result4",
    "collapse": "collapse",
    "clock": "clock",
    "inequalities": "inequalities",
    "subset": "subset",
}
"""Names on the command line and their modules; the last four are ours."""


def item(name: str) -> Any:
    """The module of an item: TITLE, specs(scale), draw(results, scale, folder)."""
    return import_module(f"{__name__}.{ITEMS[name]}")
