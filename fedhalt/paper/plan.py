"""The runs of the network scale: a list in the order of their worth, because each takes half an hour of a core."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from . import pilot
from .setting import METHODS, PHI, SEEDS, SITES, Need, Scale, phis

BAD_ROUNDS = 40
COMPARED = ("fedavg", "scaffold", "fedsam", "feddyn")
OTHER_SKEWS = (
    ("dirichlet", 0.01), ("dirichlet", 1.0), ("pathological", 1.0), ("pathological", 3.0), ("quantity", 0.1),
)  # fmt: skip


def lines(scale: Scale) -> Iterator[Need]:
    """The four lines of runs, in the order in which they are trained."""
    yield from _blood(scale, 0)
    for method in METHODS:
        yield _need(scale, "blood", method, rate="bad", rounds=BAD_ROUNDS)
    for method in COMPARED[:3]:
        yield _need(scale, "derma", method)
    yield _need(scale, "derma", "fedavg", **SITES)
    for seed in SEEDS[1:]:
        yield from _blood(scale, seed)


def planned(found: Iterable[Need], scale: Scale) -> list[Need]:
    """Those of the runs that are in the list, in its order and no longer than it says; before them the pilot's."""
    asked: dict[str, int] = {}
    for need in found:
        asked[need.spec.id] = max(need.rounds, asked.get(need.spec.id, 0))
    listed = {need.spec.id: need for need in lines(scale)}
    tried = [need for need in pilot.specs(scale) if need.spec.id in asked]
    first = [need for need in tried if need.spec.id not in listed or asked[need.spec.id] <= need.rounds]
    short = {need.spec.id for need in first}
    rest = [need for name, need in listed.items() if name in asked and name not in short]
    return [*first, *(need._replace(rounds=min(need.rounds, asked[need.spec.id])) for need in rest)]


def _blood(scale: Scale, seed: int) -> Iterator[Need]:
    """Blood cells at the good rate: methods under one skew, then FedAvg under others, then the authors' step count."""
    for method in COMPARED:
        yield _need(scale, "blood", method, seed=seed)
    for skew, c in OTHER_SKEWS:
        yield _need(scale, "blood", "fedavg", skew=skew, c=c, seed=seed)
    yield _need(scale, "blood", "scaffold", skew="quantity", c=0.1, compat="authors", seed=seed)


def _need(scale: Scale, data: str, method: str, rate: str = "good", rounds: int = 0, **settings: object) -> Need:
    skew = {} if "skew" in settings else {"skew": "dirichlet", "c": 0.1}
    phi = phis(method, (PHI,))[0]
    return scale.need(scale.spec(data, method, lr=scale.rates[rate], phi=phi, **skew, **settings), rounds=rounds)
