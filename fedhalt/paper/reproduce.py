"""What `fedhalt reproduce` does with the items: counts their runs, and draws them from recorded rows alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..views.plots import pyplot
from . import plan, render
from .items import Item
from .rows import RECORDED, Results
from .setting import Need, Scale, cost, merged


def results_in(folder: Path, scale: Scale) -> Results:
    """The rows of a scale: those in a folder of results, over those that come with the package."""
    return Results(folder / scale.name, RECORDED / scale.name, scale.model.get("gradient"))


def needs_of(items: Iterable[Item], scale: Scale) -> list[Need]:
    """Every run of these items, once; at the network scale only those of its list."""
    found = (need for item in items for need in item.specs(scale))
    return plan.planned(found, scale) if scale.name == "network" else merged(found)


def draw(items: Mapping[str, Item], results: Results, scale: Scale) -> Iterator[tuple[str, Path]]:
    """Draws every item into the folder of the results; yields its name with each file that it wrote."""
    plt = pyplot("agg")
    results.folder.mkdir(parents=True, exist_ok=True)
    for name, item in items.items():
        with plt.rc_context(render.STYLE):
            paths = item.draw(results, scale, results.folder)
        yield from ((name, path) for path in paths)


def drawable(items: Mapping[str, Item], results: Results, scale: Scale) -> tuple[dict[str, Item], list[str]]:
    """The items that there is something to draw of, and for each other one a sentence that says what is missing."""
    there, said = {}, []
    for name, item in items.items():
        needs = needs_of([item], scale)
        if needs and len(results.missing(needs)) < len(needs):
            there[name] = item
        elif needs:
            said.append(f"{name}: none of its {len(needs)} runs is recorded at scale {scale.name}")
        elif any(True for _ in item.specs(scale)):
            said.append(f"{name}: the scale {scale.name} has no runs for it")
        else:  # a drawing
            there[name] = item
    return there, said


def overview(items: Mapping[str, Item], results: Results, scale: Scale, cores: int) -> list[dict[str, Any]]:
    """For --list: each item's runs, how many are recorded and left, the hours of one core, and those that the rest
    takes on this many; last all items together, each run once."""
    found = []
    lists = {name: needs_of([item], scale) for name, item in items.items()}
    titles = {name: item.TITLE for name, item in items.items()}
    for name, needs in {**lists, "together": needs_of(items.values(), scale)}.items():
        missing = results.missing(needs)
        left = sum(map(cost, missing)) / 3600
        found.append({
            "item": name, "title": titles.get(name, "each run once"), "runs": len(needs),
            "recorded": len(needs) - len(missing), "left": len(missing),
            "hours": round(sum(map(cost, needs)) / 3600, 4), "hours_left": round(left, 4),
            "hours_here": round(left / cores, 4),
        })  # fmt: skip
    return found
