"""Every table and figure of the paper, one short module each: its TITLE, its runs (`specs`), its drawing (`draw`)."""

from __future__ import annotations

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
    "claims": "claims",
}
"""Names on the command line and their modules; the last five are ours."""
