"""Which runs StopBench is made of: breadth by probes, depth by a few networks that are trained whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..paper.setting import CNN, MAIN_SKEWS, METHODS, PHI, SMALL, Need, Scale, phis

if TYPE_CHECKING:
    from ..simulation.spec import RunSpec

ROUNDS = 300
RATES = (1e-4, 1e-3, 0.1, 10.0)
"""Of a probe: too small, small, good, too large (0.01 and 1 end within a few points of 0.1)."""
GOOD = 0.1
TASKS = ("blood", "derma", "digits")
SEEDS = (0, 1, 2)
DEPTH = {
    "blood": (("fedavg", 0.01), ("feddyn", 0.01)),
    "derma": (("fedavg", 0.01),),
    "digits": tuple((method, rate) for method in ("fedavg", "scaffold", "fedsam") for rate in (0.001, 0.01, 0.1)),
}
"""The networks: methods and rates by task, all at Dirichlet 0.1."""


def needs() -> Iterator[Need]:
    """Every run: the good rate with three seeds, the other rates with one, then the networks."""
    for task in TASKS:
        for skew, c in MAIN_SKEWS:
            for method in METHODS:
                for seed in SEEDS:
                    yield Need(_spec(SMALL, task, method, GOOD, skew=skew, c=c, seed=seed), ROUNDS)
    for rate in RATES:
        for task in TASKS:
            for skew, c in MAIN_SKEWS:
                for method in METHODS:
                    if rate != GOOD:
                        yield Need(_spec(SMALL, task, method, rate, skew=skew, c=c), ROUNDS)
    for task, pairs in DEPTH.items():
        few = {"clients": 20, "cohort": 5} if task == "digits" else {}  # 1,078 images are too few for a hundred
        for method, rate in pairs:
            yield Need(_spec(CNN, task, method, rate, **few), ROUNDS)


def _spec(scale: Scale, task: str, method: str, rate: float, **settings: object) -> RunSpec:
    return scale.spec(task, method, lr=rate, phi=phis(method, (PHI,))[0], **settings)
