"""The one list of tables and figures: names on the command line and their modules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from ..errors import FedhaltError, require_one_of
from . import (
    claims,
    clock,
    collapse,
    inequalities,
    intro,
    method,
    network,
    pilot,
    problem,
    reason,
    result1,
    result2,
    result3,
    result4,
    subset,
    table0,
    table1,
    table2,
    table3,
)
from .rows import Results
from .setting import Need, Scale


class Item(Protocol):
    """A table or figure: what each of the modules offers."""

    TITLE: str

    def specs(self, scale: Scale) -> Iterator[Need]:
        """The runs that it needs."""

    def draw(self, results: Results, scale: Scale, folder: Path) -> list[Path]:
        """Writes its files from the rows alone."""


ITEMS: dict[str, Item] = {
    "table0": table0,
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "fig-intro": intro,
    "fig-problem": problem,
    "fig-method": method,
    "fig-reason": reason,
    "fig-result1": result1,
    "fig-result2": result2,
    "fig-result3": result3,
    "fig-result4": result4,
    "collapse": collapse,
    "clock": clock,
    "inequalities": inequalities,
    "subset": subset,
    "claims": claims,
    "pilot": pilot,
    "network": network,
}
"""Names on the command line and their modules; from collapse on they are ours."""
ONLY_NETWORK = ("pilot", "network")
"""What the other scales have no such runs for."""


def named(names: list[str], scale: Scale) -> dict[str, Item]:
    """The items of these names; for `all` those that the scale has."""
    for name in names:
        require_one_of("table or figure", name, [*ITEMS, "all"])
        if name in ONLY_NETWORK and scale.name != "network":
            raise FedhaltError(f"{name} belongs to --scale network, not to {scale.name!r}")
    chosen = [name for name in ITEMS if scale.name == "network" or name not in ONLY_NETWORK]
    return {name: ITEMS[name] for name in (chosen if "all" in names else dict.fromkeys(names))}
