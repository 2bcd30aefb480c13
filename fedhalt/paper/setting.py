"""The paper's setting and its small counterpart: tasks, methods, skews, rates, and the runs that they make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fedhalt.judge import Candidate, candidate
from fedhalt.methods import METHODS as CLASSES
from fedhalt.spec import RunSpec

METHODS = (
    "fedavg", "fedprox", "feddyn", "scaffold", "fedsam", "fedspeed", "fedsmoo", "fedgamma", "fedlesam", "fedwmsam",
)  # fmt: skip
TITLES = {name: CLASSES[name].facts.title for name in METHODS}
TASKS = {"derma": "skin lesion", "blood": "blood cell", "path": "colon pathology", "digits": "digits"}
CHANCE = {"derma": 1 / 7, "blood": 1 / 8, "path": 1 / 9}
PHIS = (0.1, 0.01, 0.001)
PHI = 0.001
"""The one value of the items that do not search over it (Table 2 and what follows)."""
SKEWS = {"dirichlet": (0.01, 0.1, 1.0), "pathological": (1.0, 2.0, 3.0), "quantity": (0.01, 0.1, 1.0)}
SYMBOLS = {"dirichlet": "L_d", "pathological": "L_p", "quantity": "Q", "dirichlet-authors": "L_d, authors' split"}
SEEDS = (0, 1, 2)
TAU, TAU_BAD, RHO = 0.01, 0.1, 10
TAUS = (0.005, 0.01, 0.05, 0.1)
RHOS = (1, 5, 10)
VALIDATION = ("val-loss", "val-accuracy")

RULES: tuple[Candidate, ...] = (
    *(candidate("growth", threshold=tau, patience=RHO) for tau in TAUS),
    *(candidate("growth", threshold=TAU_BAD, patience=rho) for rho in RHOS if rho != RHO),
    *(candidate(name, threshold=tau, patience=RHO) for name in VALIDATION for tau in TAUS),
)
"""Every rule and setting that a table or figure asks about; all are judged on one trajectory."""


@dataclass(frozen=True)
class Scale:
    """How large the runs are; the questions are the same."""

    name: str
    tasks: tuple[str, ...]
    rounds: int
    rates: dict[str, float]
    """What is a good, a middle and a bad local rate for this model."""
    model: dict[str, Any]
    words: str

    def spec(self, data: str, method: str, **settings: Any) -> RunSpec:
        """A run of this scale; `phi` is the method's own key hyperparameter."""
        phi = settings.pop("phi", None)
        named = tuple((name, phi) for name in CLASSES[method].facts.phi) if phi is not None else ()
        return RunSpec(data=data, method=method, hyperparameters=named, **{**self.model, **settings})


PAPER = Scale(
    "paper", ("derma", "blood", "path"), 500, {"good": 0.001, "middle": 0.01, "bad": 0.1},
    {"model": "convnextv2_nano", "pretrained": True, "size": 64},
    "ConvNeXtV2-nano, 64 pixels, N = 100, M = 10, R = 500, three seeds, three tasks; hours of one core",
)  # fmt: skip
SMALL = Scale(
    "small", ("derma", "blood"), 200, {"good": 0.1, "middle": 1.0, "bad": 10.0},
    {"model": "probe:tf_efficientnet_lite0", "pretrained": True, "resize": 64},
    "linear probes of pretrained features, N = 100, M = 10, R = 200, three seeds, two tasks; hours of one core",
)  # fmt: skip
CNN = Scale(
    "small", ("blood",), 100, {"good": 0.01, "middle": 0.1, "bad": 1.0}, {"model": "cnn"},
    "the network that the small scale trains whole",
)  # fmt: skip
SCALES = {"small": SMALL, "paper": PAPER}


class Need(NamedTuple):
    """A run that an item needs: to the end of the budget, or only until these rules have fired."""

    spec: RunSpec
    rounds: int
    until: tuple[Candidate, ...] = ()
    curve: bool = False
    """Whether its rounds are drawn, not only its stops."""


SECONDS = {
    "probe:tf_efficientnet_lite0": {"derma": 0.05, "blood": 0.07},
    "cnn": {"derma": 2.0, "blood": 3.0},
    "convnextv2_nano": {"derma": 135.0, "blood": 230.0, "path": 1700.0},
}
"""Seconds of a core for a FedAvg round here: measured; blood and path of the nano follow from derma by their images.
docs/reproduction.md says by which commands."""


def cost(need: Need) -> float:
    """Seconds that the run takes on one core; rules are expected to fire when a straight drift would make them."""
    spec = need.spec
    clock = max(
        (1 / rule.settings["threshold"] + rule.settings["patience"] for rule in need.until), default=need.rounds
    )
    seconds = SECONDS.get(spec.model, {}).get(spec.data, 1.0) * spec.cohort / 10
    return seconds * CLASSES[spec.method].facts.gradients * min(need.rounds, clock)


def phis(method: str, values: Sequence[float] = PHIS) -> Sequence[float | None]:
    """The values of phi that a method is run with; FedAvg and SCAFFOLD have none."""
    return values if CLASSES[method].facts.phi else (None,)


def needs(
    scale: Scale, *, skews: Iterable[tuple[str, float]], rates: Iterable[str], methods: Iterable[str] = METHODS,
    phi: Sequence[float] = (PHI,), until: tuple[Candidate, ...] = (), curve: bool = False, **settings: Any,
) -> Iterator[Need]:  # fmt: skip
    """Every combination over the scale's tasks and the three seeds, seed by seed."""
    chosen, speeds, names = list(skews), list(rates), list(methods)
    for seed in SEEDS:
        for data in scale.tasks:
            for skew, c in chosen:
                for method in names:
                    for rate in speeds:
                        for value in phis(method, phi):
                            made = scale.spec(
                                data, method, skew=skew, c=c, lr=scale.rates[rate], phi=value, seed=seed, **settings
                            )
                            yield Need(made, scale.rounds, until, curve)


def merged(found: Iterable[Need]) -> list[Need]:
    """Each run once, as long as the longest of those who need it; first what most items share, seed by seed, then the
    other values of phi, which only tables 0 and 1 search over: so a part of the runs is soon most of the paper."""
    longest: dict[str, Need] = {}
    for need in found:
        other = longest.get(need.spec.id, need)
        rules = {str(rule): rule for rule in (*other.until, *need.until)} if other.until and need.until else {}
        until, rounds = tuple(rules.values()), max(other.rounds, need.rounds)
        longest[need.spec.id] = Need(need.spec, rounds, until, other.curve or need.curve)
    return sorted(longest.values(), key=lambda need: (phi_of(need.spec) not in (None, PHI), need.spec.seed))


def phi_of(spec: RunSpec) -> float | None:
    """The value of the method's key hyperparameter."""
    named = CLASSES[spec.method].facts.phi
    return float(dict(spec.hyperparameters)[named[0]]) if named and spec.method in METHODS else None


ALL_SKEWS = [(skew, c) for skew, values in SKEWS.items() for c in values]
MAIN_SKEWS = [("dirichlet", 0.1), ("pathological", 2.0), ("quantity", 0.1)]
