"""The paper's setting and its small counterpart: tasks, methods, skews, rates, and the runs that they make."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from ..methods import METHODS as CLASSES
from ..rules import NamedRule, named_rule
from ..simulation.spec import RunSpec
from .pace import pace

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
SITES: dict[str, Any] = {"skew": "natural", "key": "site", "cohort": 4}
"""Clients as they are found: skin lesions by the collection they come from. There are four, and all take part."""
SEEDS = (0, 1, 2)
TAU, TAU_BAD, RHO = 0.01, 0.1, 10
TAUS = (0.005, 0.01, 0.05, 0.1)
RHOS = (1, 5, 10)
VALIDATION = ("val-loss", "val-accuracy")

RULES: tuple[NamedRule, ...] = (
    *(named_rule("growth", threshold=tau, patience=RHO) for tau in TAUS),
    *(named_rule("growth", threshold=TAU_BAD, patience=rho) for rho in RHOS if rho != RHO),
    *(named_rule(name, threshold=tau, patience=RHO) for name in VALIDATION for tau in TAUS),
)
"""Every rule and setting that a table or figure asks about; all are judged on one trajectory."""
PROPOSED = tuple(rule for rule in RULES if rule.name == "growth")

CURVES = ("distance", "update_norm", "val_loss", "val_accuracy", "test_accuracy", "test_balanced_accuracy")
"""The columns that are kept of the rounds that a figure draws."""
ALL_CURVES = (
    *CURVES, "drift_5", "drift_10", "drift_20", "turn", "cohort_squares", "train_loss_before", "train_loss_after",
    "distance_average", "test_loss", "val_loss_average", "val_accuracy_average", "test_loss_average",
    "test_accuracy_average", "test_balanced_accuracy_average",
)  # fmt: skip
"""What is kept of every round of a run that takes an hour: all that questions of later may ask."""


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
    average: int | None = None
    """Of how many rounds the average is evaluated beside the model."""
    keep: tuple[str, ...] = ()
    """The columns that are kept of every run's rounds, whether a figure draws them or not."""

    def spec(self, data: str, method: str, **settings: Any) -> RunSpec:
        """A run of this scale; `phi` is the method's own key hyperparameter."""
        phi = settings.pop("phi", None)
        named = tuple((name, phi) for name in CLASSES[method].facts.phi) if phi is not None else ()
        # all that is recorded was trained by autograd: another arithmetic would be another run
        settings = {"gradient": "autograd", **self.model, **settings}
        return _made(tuple({"data": data, "method": method, "hyperparameters": named, **settings}.items()))

    def need(self, spec: RunSpec, until: tuple[NamedRule, ...] = (), *, rounds: int = 0, curve: bool = False) -> Need:
        """A run that an item needs; by default to the end of the budget."""
        return Need(spec, rounds or self.rounds, until, self.keep or (CURVES if curve else ()), self.average)


@cache
def _made(settings: tuple[tuple[str, Any], ...]) -> RunSpec:
    """The same object for the same settings: items share most of their runs, and ids are digests."""
    return RunSpec(**dict(settings))


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
NETWORK = Scale(
    "network", ("blood", "derma"), 150, {"good": 0.01, "middle": 0.03, "bad": 0.1},
    {
        "model": "tf_efficientnet_lite0", "pretrained": True, "resize": 32, "buffers": "frozen", "channels_last": True,
        "gradient": "products", "evaluate_every": 5,
    },
    "EfficientNet-Lite0 from pretrained weights, fine-tuned whole, 32 pixels, N = 100, M = 10, R = 150, evaluated "
    "every five rounds and at stops; a fixed list of runs, half an hour of one core each",
    average=10, keep=ALL_CURVES,  # rates: until the pilot has chosen
)  # fmt: skip
SCALES = {"small": SMALL, "network": NETWORK, "paper": PAPER}


class Need(NamedTuple):
    """A run that an item needs: to the end of the budget, or only until these rules have fired."""

    spec: RunSpec
    rounds: int
    until: tuple[NamedRule, ...] = ()
    curve: tuple[str, ...] = ()
    """The columns of its rounds that are kept; none where only its stops are asked for."""
    average: int | None = None


SECONDS = {
    "probe:tf_efficientnet_lite0": {"derma": 0.05, "blood": 0.07, "digits": 0.03, "fashion": 0.3},
    "cnn": {"derma": 2.0, "blood": 3.0, "digits": 0.12, "fashion": 18.0},
    "tf_efficientnet_lite0": {"derma": 7.0, "blood": 11.0},
    "convnextv2_nano": {"derma": 135.0, "blood": 230.0, "path": 1700.0},
}
"""Seconds of a core for a FedAvg round of five epochs, where `pace` is 1: measured, but for digits and Fashion-MNIST,
which are estimates for the list of StopBench 2; blood and path of the nano follow from derma, and
derma of the Lite0 from blood, by their numbers of images.
docs/reproduction.md says by which commands."""


def cost(need: Need) -> float:
    """Seconds that the run takes on one core of this machine; rules are expected to fire when a straight drift would
    make them."""
    spec = need.spec
    clock = max(
        (1 / rule.settings["threshold"] + rule.settings["patience"] for rule in need.until), default=need.rounds
    )
    share = 1.0 if spec.skew == "natural" else spec.cohort / spec.clients  # of the images; all sites take part
    seconds = SECONDS.get(spec.model, {}).get(spec.data, 1.0) * share / 0.1 * spec.epochs / 5
    return seconds * pace() * CLASSES[spec.method].facts.gradients * min(need.rounds, clock)


def phis(method: str, values: Sequence[float] = PHIS) -> Sequence[float | None]:
    """The values of phi that a method is run with; FedAvg and SCAFFOLD have none."""
    return values if CLASSES[method].facts.phi else (None,)


def needs(
    scale: Scale, *, skews: Iterable[tuple[str, float]], rates: Iterable[str], methods: Iterable[str] = METHODS,
    phi: Sequence[float] = (PHI,), until: tuple[NamedRule, ...] = (), curve: bool = False, **settings: Any,
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
                            yield scale.need(made, until, curve=curve)


def needs_by_site(scale: Scale, *, methods: Iterable[str] = METHODS, curve: bool = False) -> Iterator[Need]:
    """Skin lesions by site at the good rate, three seeds; no other task names its sites."""
    chosen = list(methods)
    for seed in SEEDS if "derma" in scale.tasks else ():
        for method in chosen:
            phi, rate = phis(method, (PHI,))[0], scale.rates["good"]
            yield scale.need(scale.spec("derma", method, lr=rate, phi=phi, seed=seed, **SITES), curve=curve)


def merged(found: Iterable[Need]) -> list[Need]:
    """Each run once, as long as the longest of those who need it; first what most items share, seed by seed, then the
    other values of phi, which only tables 0 and 1 search over: so a part of the runs is soon most of the paper."""
    longest: dict[str, Need] = {}
    for need in found:
        other = longest.get(need.spec.id, need)
        rules = {str(rule): rule for rule in (*other.until, *need.until)} if other.until and need.until else {}
        until, rounds = tuple(rules.values()), max(other.rounds, need.rounds)
        longest[need.spec.id] = need._replace(rounds=rounds, until=until, curve=other.curve or need.curve)
    return sorted(longest.values(), key=lambda need: (phi_of(need.spec) not in (None, PHI), need.spec.seed))


def phi_of(spec: RunSpec) -> float | None:
    """The value of the method's key hyperparameter."""
    named = CLASSES[spec.method].facts.phi
    return float(dict(spec.hyperparameters)[named[0]]) if named and spec.method in METHODS else None


ALL_SKEWS = [(skew, c) for skew, values in SKEWS.items() for c in values]
MAIN_SKEWS = [("dirichlet", 0.1), ("pathological", 2.0), ("quantity", 0.1)]
