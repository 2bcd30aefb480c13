"""Which runs StopBench 2 is made of, in the order of their worth: a beginning of the list is already useful."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from ..paper import plan
from ..paper.setting import CNN, MAIN_SKEWS, METHODS, PHI, SITES, SMALL, Need, Scale, phis

if TYPE_CHECKING:
    from ..simulation.spec import RunSpec

AVERAGE = 10
ROUNDS, LONG = 300, 400
"""Longer where accuracy still rises at 300: rates that are too small, and networks from scratch."""
TASKS = ("blood", "derma", "digits", "fashion")
SERVER: dict[str, tuple[tuple[str, float], ...]] = {
    "fedadam": (("server_lr", 0.01),),
    "fedavgm": (("beta", 0.9), ("server_lr", 0.1)),
}
"""The server optimizers; a steady update moves FedAvgM as far as FedAvg."""
EVERY = (*METHODS, *SERVER)
VARIED = ("fedavg", "scaffold", "feddyn", "fedsam", *SERVER)
"""The methods whose cohorts and decay are varied."""
WHOLE = ("fedavg", "scaffold", "fedavgm", "feddyn")
"""The methods that train the small CNN."""
SEEDS = (1, 2)
"""Besides 0."""
MANY: dict[str, Any] = {"clients": 500, "evaluate_every": 5}
"""Fashion-MNIST: two models on its 20,000 images take three times as long as the round itself."""


def needs(network: Scale | None = None) -> Iterator[Need]:
    """Every run once. The network scale takes part once its pilot has chosen its rates."""
    seen: set[str] = set()
    for need in _lines(network):
        if need.spec.id not in seen:
            seen.add(need.spec.id)
            yield need


def _lines(network: Scale | None) -> Iterator[Need]:
    yield from _probes(EVERY)
    yield from _probes(EVERY, "too large")
    yield from _on_digits("good", WHOLE)
    yield from _on_digits("too large", WHOLE[:3])
    for varied in ({"cohort": 5}, {"cohort": 50}, {"lr_decay": 1.0}):
        for task in TASKS:
            for method in VARIED:
                yield _probe(task, method, **varied)
    yield from _probes(WHOLE, "too small")
    yield from _on_digits("too small", WHOLE[:1])
    for seed in SEEDS:
        yield from _probes(EVERY, seed=seed)
    if network is not None:
        yield from plan.lines(network)
    for word, methods in (("good", WHOLE), ("too large", WHOLE[:3]), ("too small", WHOLE[:1])):
        yield from _on_images(word, methods)


def rate(task: str, model: str, word: str) -> float:
    """What is a good, too small or too large local rate; committed before any run was scored."""
    gray = task in ("digits", "fashion")
    if model == "cnn":
        return {"too small": 0.001, "good": 0.05 if gray else 0.01, "too large": 1.0}[word]
    return {"too small": 1e-4, "good": 0.1, "too large": 100.0 if gray else 10.0}[word]


def _probes(methods: Iterable[str], word: str = "good", **settings: Any) -> Iterator[Need]:
    """Skew by skew, all tasks; then skin lesions by site."""
    chosen = list(methods)
    for skew, c in MAIN_SKEWS:
        for task in TASKS:
            for method in chosen:
                yield _probe(task, method, word, skew=skew, c=c, **settings)
    for method in chosen:
        yield _probe("derma", method, word, **SITES, **settings)


def _probe(task: str, method: str, word: str = "good", **settings: Any) -> Need:
    many = MANY if task == "fashion" else {}
    made = _spec(SMALL, task, method, word, gradient="closed", **many, **settings)
    return Need(made, LONG if word == "too small" else ROUNDS, average=AVERAGE)


def _on_digits(word: str, methods: Iterable[str]) -> Iterator[Need]:
    """The small CNN on digits, which are quick, under every skew."""
    for skew, c in MAIN_SKEWS:
        for method in methods:
            few = {"clients": 20, "cohort": 5}  # 1,078 images are too few for a hundred clients
            yield Need(_spec(CNN, "digits", method, word, skew=skew, c=c, **few), ROUNDS, average=AVERAGE)


def _on_images(word: str, methods: Iterable[str]) -> Iterator[Need]:
    """The small CNN on the other tasks, a quarter of an hour of a core each and more."""
    chosen = list(methods)
    for method in chosen:
        for task in ("derma", "fashion", "blood"):
            yield Need(_spec(CNN, task, method, word, **(MANY if task == "fashion" else {})), LONG, average=AVERAGE)
    for method in chosen[:2]:  # every image takes part in every round, so one epoch
        yield Need(_spec(CNN, "derma", method, word, epochs=1, **SITES), ROUNDS, average=AVERAGE)


def _spec(scale: Scale, task: str, method: str, word: str, **settings: Any) -> RunSpec:
    own: dict[str, Any] = {"hyperparameters": SERVER[method]} if method in SERVER else {}
    phi = None if own else phis(method, (PHI,))[0]
    return scale.spec(task, method, lr=rate(task, str(scale.model["model"]), word), phi=phi, **own, **settings)
