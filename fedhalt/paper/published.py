"""The numbers of the paper's tables, from the CSV files beside this one."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "published"
SKEWS = {"L_d": "dirichlet c=0.1", "L_p": "pathological c=2", "Q": "quantity c=0.1"}


@cache
def rows(name: str) -> list[dict[str, str]]:
    with open(FOLDER / f"{name}.csv", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def find(name: str, **wanted: Any) -> dict[str, str] | None:
    """The line of a table with these values; the paper has none for what it did not run."""
    for row in rows(name):
        if all(row[key] == str(value) for key, value in wanted.items()):
            return row
    return None
