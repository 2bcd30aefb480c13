"""The words of the page: what every term means, and what a rule saw, as all views say it."""

from __future__ import annotations

from typing import Any

from ... import rules
from ..words import CLOCKS, DRIFTING, SCATTERING, format_reason

CODES = ("saturated", "plateau", "frozen", "wandering", "stationary", "screened", "target", "budget", "time", "traffic")
"""The stored reasons that views translate."""

RULES = {
    "growth": (
        "The paper's rule, without data: how much the distance from the start grew in this round, relative to the "
        "distance so far. In part it is a clock: in a long run it is small even if the model keeps moving."
    ),
    "growth-authors": "The paper's rule as its authors' code computes it, with the sign of the growth.",
    "val-loss": ("Stops when the loss on validation data no longer improves. It needs validation data on the server."),
    "val-accuracy": (
        "Stops when the accuracy on validation data no longer improves; the threshold is in percentage points. It "
        "needs validation data on the server."
    ),
    "client-loss": (
        "Stops when the clients' mean loss on their own held-out data no longer improves. The clients must report it."
    ),
    "client-accuracy": (
        "Stops when the clients' mean accuracy on their own held-out data no longer improves; the threshold is in "
        "percentage points. The clients must report it."
    ),
    "difference": (
        "Compares the change of the distance itself with the threshold. It depends on the size of the model."
    ),
    "relative-update": "Compares the size of a round's update with the distance so far.",
    "weight-diff": "Compares the size of a round's update with the size of the model, as FATE does.",
    "wandering": (
        "Finds runs that go nowhere because their updates cancel out. It is for screening, not for ending a good run."
    ),
    "growth-average": "The paper's rule on the mean of the last ten models, which does not jump with every cohort.",
    "forward": ("Our rule. Like growth, but it counts only the part of each update that leads away from the start."),
    "drift": (
        "Compares how far the model moved between two blocks of 20 rounds with how much single rounds scatter. About 1 "
        "means that the rounds only scatter around one place."
    ),
    "budget": "Stops after a fixed number of rounds, as most people do today.",
}

METHODS = {
    "fedavg": "FedAvg", "fedprox": "FedProx", "fedsam": "FedSAM", "fedlesam": "FedLESAM", "fedadam": "FedAdam",
    "fedavgm": "FedAvgM", "feddyn": "FedDyn", "fedspeed": "FedSpeed", "fedsmoo": "FedSMOO", "scaffold": "SCAFFOLD",
    "fedgamma": "FedGamma", "fedwmsam": "FedWMSAM", "fedcm": "FedCM", "mofedsam": "MoFedSAM",
}  # fmt: skip
"""As their papers write them; the methods themselves need torch, and a report does not."""

TERMS: dict[str, tuple[str, str, str]] = {
    "rule": (
        "rule",
        "Decides when to stop. It computes one number per round, the signal, and stops when that number stays "
        "below a threshold.",
        "rules.md",
    ),
    "signal": (
        "signal",
        "The one number that a rule computes in each round and compares with its threshold.",
        "rules.md",
    ),
    "threshold": (
        "threshold",
        "A round counts when the signal is below this number, τ. A larger threshold stops earlier.",
        "thresholds.md",
    ),
    "patience": (
        "patience",
        "How many rounds in a row must count before the rule stops. More patience stops later.",
        "thresholds.md",
    ),
    "streak": (
        "streak",
        "Rounds in a row that have counted so far. The rule stops when the streak reaches the patience.",
        "rules.md",
    ),
    "distance": (
        "distance",
        "How far the model is from where it started, ‖θᵣ - θ₀‖ over all parameters. The server can compute it "
        "without data.",
        "rules.md",
    ),
    "reason": (
        "reason",
        "What the rule saw when it stopped. What the model was doing is a second question; the exponent answers it.",
        "rules.md",
    ),
    "exponent": (
        "exponent",
        "How the distance grows with the rounds: 1 is a straight drift, ½ a random walk, 0 no growth. Averaged "
        "over about the last third of the run.",
        "rules.md",
    ),
    "still moving": (
        "still moving",
        "The distance grows about as fast as in a straight drift: exponent 0.75 to 1.5.",
        "rules.md",
    ),
    "diffusing": (
        "diffusing",
        "The distance grows about as in a random walk: exponent 0.25 to 0.75.",
        "rules.md",
    ),
    "saturated": (
        "saturated",
        "The distance hardly grows: exponent below 0.25.",
        "rules.md",
    ),
    "going nowhere": (
        "going nowhere",
        "The distance hardly grows because updates undo each other.",
        "rules.md",
    ),
    "diverging": (
        "diverging",
        "The distance grows faster than any drift, or is no longer a finite number. With FedDyn and its kin, which add "
        "up past updates, an exponent up to 2 can be healthy.",
        "rules.md",
    ),
    "drift": (
        "drift",
        "How far the model moved between two blocks of ten rounds, compared with how much single rounds scatter. "
        "Scattering (below 5): the rounds jump around one place, and the averaged model helps most. Settling (5 to "
        "20): they move and scatter. Drifting (above 20): they move on, and the averaged model may lag behind.",
        "choosing.md",
    ),
    "accuracy": (
        "accuracy",
        "Mean of the last five evaluated rounds up to the stop, because single rounds are noisy. The page names "
        "the metric at its top.",
        "report.md",
    ),
    "best": (
        "best",
        "The highest accuracy in the whole record (mean of five evaluated rounds). It is known only afterward.",
        "report.md",
    ),
    "kept": (
        "accuracy kept",
        "Accuracy at the stop as a share of the run's best accuracy. Runs that never learned are left out.",
        "report.md",
    ),
    "regret": (
        "regret",
        "Accuracy lost by stopping, in percentage points: the run's best accuracy minus the accuracy at the stop.",
        "report.md",
    ),
    "learned": (
        "never learned",
        "A run whose accuracy never rose 5 points above its first evaluated round. It has no accuracy to keep.",
        "report.md",
    ),
    "budget": (
        "budget",
        "The number of rounds that a run may use. Where none is recorded, the last recorded round counts.",
        "report.md",
    ),
    "saved": (
        "rounds saved",
        "Rounds of the budget that the rule did not use. A rule that does not stop a run saves nothing.",
        "report.md",
    ),
    "seconds": (
        "time saved",
        "Seconds of the rounds that were not needed. Rounds that were never run count as much as the mean recorded"
        " round.",
        "report.md",
    ),
    "bytes": (
        "traffic saved",
        "Bytes to and from clients in the rounds that were not needed. Rounds that were never run count as much as"
        " the mean recorded round.",
        "report.md",
    ),
    "average": (
        "averaged model",
        "The average of the models of recent rounds. It is evaluated beside the last model and usually varies less.",
        "choosing.md",
    ),
    "skew": (
        "skew",
        "How the classes are spread over clients: iid (evenly), Dirichlet, quantity or pathological, with its "
        "coefficient.",
        "partitions.md",
    ),
    "lr": (
        "learning rate",
        "The step size of the clients' local training.",
        "simulator.md",
    ),
}
"""Each with its title, what it means, and the page of the documentation that says more."""


def words() -> dict[str, Any]:
    """Everything above, as the page's script reads it."""
    terms = {name: {"title": title, "text": text, "page": page} for name, (title, text, page) in TERMS.items()}
    named = {f"rule {name}": {"title": name, "text": text, "page": "rules.md"} for name, text in RULES.items()}
    reasons = {code: {rule: format_reason(code, rule) for rule in ("", *rules.RULES)} for code in CODES}
    drift = {"scattering": SCATTERING, "drifting": DRIFTING}
    return {"reasons": reasons, "clocks": CLOCKS, "drift": drift, "methods": METHODS, "terms": {**terms, **named}}
