"""Verdicts and numbers in the words that every view uses.

A *reason* says what the rule saw; a *motion* says what the model does. Records hold short codes, views these words.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import FedhaltError

SIGNALS = {
    "growth": "growth",
    "growth-authors": "growth",
    "growth-average": "growth of the average",
    "forward": "forward growth",
    "difference": "change",
    "relative-update": "update",
    "weight-diff": "update",
}
"""What a rule compares with its threshold, in a word."""

METRICS = {
    "val-loss": "loss",
    "val-accuracy": "accuracy",
    "client-loss": "clients' loss",
    "client-accuracy": "clients' accuracy",
}
"""The rules on metrics, and what they watch."""

WATCHED = {
    "growth": "growth of the distance from the start (the paper's rule)",
    "growth-authors": "the same with its sign, as the authors' code computes it",
    "val-loss": "loss that no longer falls",
    "val-accuracy": "accuracy that no longer rises",
    "client-loss": "clients' loss that no longer falls",
    "client-accuracy": "clients' accuracy that no longer rises",
    "difference": "change of the distance from the start",
    "relative-update": "size of the update relative to the distance",
    "weight-diff": "size of the update relative to the parameters",
    "wandering": "updates that cancel out; ends hopeless runs",
    "growth-average": "growth of the distance of the averaged model",
    "forward": "growth of the accumulated forward movement",
    "drift": "movement over 20 rounds relative to their scatter",
    "budget": "nothing: it stops after --rounds",
}
"""What a rule watches, as help says it."""

REASONS = {
    "frozen": "no change at all",
    "wandering": "updates cancel out",
    "stationary": "rounds only scatter",
    "screened": "screened out",
    "target": "target reached",
    "budget": "budget spent",
    "time": "time spent",
    "traffic": "traffic spent",
}

CLOCKS = ("growth", "growth-average", "growth-authors", "forward")
"""Rules whose signal falls as rounds pass, even while the model keeps moving as before."""

NO_MOTION_YET = 2
"""Rounds after which a motion is known: two distances have one slope, and that says nothing yet."""


SCATTERING, DRIFTING = 5.0, 20.0
"""drift_10 of rounds that only scatter is about 1, of a random walk 20, of a straight line 55."""


def format_reason(reason: str, rule: str = "") -> str:
    """What the rule saw when it stopped.

    >>> format_reason("saturated", "growth"), format_reason("plateau", "val-loss"), format_reason("diverged")
    ('growth below threshold', 'loss not improving', 'diverged')
    >>> format_reason("saturated and plateau")
    'signal below threshold, no improvement'
    """
    if " and " in reason:
        return ", ".join(format_reason(part, rule) for part in reason.split(" and "))
    if reason == "saturated":
        return f"{SIGNALS.get(rule, 'signal')} below threshold"
    if reason == "plateau":
        return f"{METRICS[rule]} not improving" if rule in METRICS else "no improvement"
    return REASONS.get(reason, reason)


def format_motion(exponent: float | None, word: str, r: int | None = None) -> str:
    """What the model does, with its exponent; a dash where nothing is known, as in round `r` = 2.

    >>> format_motion(0.4213, "diffusing"), format_motion(1.3, "still moving", 2)
    ('diffusing (0.42)', '-')
    """
    if not word or (r is not None and r <= NO_MOTION_YET):
        return "-"
    return word if exponent is None else f"{word} ({exponent:z.2f})"


def format_drift(drift: float | None) -> str:
    """Whether ten rounds go somewhere or only scatter around one place (drift_10); a dash where it is not known.

    >>> format_drift(2.6), format_drift(11.2), format_drift(40.0), format_drift(None)
    ('scattering (2.6)', 'settling (11)', 'drifting (40)', '-')
    """
    return "-" if drift is None else "{} ({})".format(*_drift(drift))


def _drift(drift: float) -> tuple[str, str]:
    """The word and the number."""
    word = "scattering" if drift < SCATTERING else "settling" if drift < DRIFTING else "drifting"
    return word, f"{drift:.1f}" if drift < 10 else f"{drift:.0f}"


def describe_model(exponent: float | None, word: str, r: int | None = None, drift: float | None = None) -> str:
    """What the model does and, where drift_10 is known, what its rounds do; empty where nothing is known.

    >>> describe_model(0.4213, "diffusing", 30, 11.2)
    'model diffusing (0.42), rounds settling (drift 11)'
    """
    moved = format_motion(exponent, word, r)
    said = [] if moved == "-" else [f"model {moved}"]
    if drift is not None:
        said.append("rounds {} (drift {})".format(*_drift(drift)))
    return ", ".join(said)


def advise(drift: float) -> str:
    """What drift_10 says about shipping the average of the last ten rounds.

    >>> advise(2.6)
    'rounds only scatter around one point: an average of recent models helps most'
    """
    if drift < SCATTERING:
        return "rounds only scatter around one point: an average of recent models helps most"
    if drift < DRIFTING:
        return "rounds move and scatter: an average of recent models usually helps"
    return "rounds keep moving: an average of recent models may lag behind the last one"


def format_stop(reason: str, word: str, rule: str = "") -> str:
    """Why a rule stopped, and what the model was doing then.

    >>> format_stop("saturated", "still moving", "growth")
    'growth below threshold; model still moving'
    """
    said = format_reason(reason, rule)
    return f"{said}; model {word}" if word and reason != "diverged" else said


def is_clock(reason: str, word: str, rule: str) -> bool:
    """Whether it was the number of rounds that made the signal small, while the model still moved.

    >>> is_clock("saturated", "still moving", "growth"), is_clock("saturated", "saturated", "growth")
    (True, False)
    """
    return reason == "saturated" and rule in CLOCKS and word in ("still moving", "diffusing")


def needs_data(rule: str) -> bool:
    """Whether a rule needs validation data, the server's or the clients'.

    >>> needs_data("val-loss"), needs_data("client_accuracy>=0.8"), needs_data("growth"), needs_data("minutes=90")
    (True, True, False, False)
    """
    return rule in METRICS or ">=" in rule or "<=" in rule


def describe_rules(rules: Iterable[str]) -> str:
    """A line for each rule: its name, what it watches, and which data it needs if any.

    >>> print(describe_rules(["growth", "val-loss"]))
    growth           growth of the distance from the start (the paper's rule)
    val-loss         loss that no longer falls (needs validation data)
    """
    return "\n".join(f"{rule:15}  {WATCHED.get(rule, '')}{_data_needed(rule)}".rstrip() for rule in rules)


def _data_needed(rule: str) -> str:
    if not needs_data(rule):
        return ""
    return " (needs client data)" if rule.startswith("client") else " (needs validation data)"


def format_metric(column: str) -> str:
    """A recorded column in words.

    >>> format_metric("test_balanced_accuracy"), format_metric("val_loss"), format_metric("mine")
    ('balanced test accuracy', 'validation loss', 'mine')
    """
    where, _, what = column.partition("_")
    if where not in ("test", "val") or not what:
        return column.replace("_", " ")
    where = {"test": "test", "val": "validation"}[where]
    return f"balanced {where} accuracy" if what == "balanced_accuracy" else f"{where} {what.replace('_', ' ')}"


def format_number(value: float | None, digits: int = 4) -> str:
    """A number with so many digits, a dash where there is none.

    >>> format_number(0.0123456), format_number(None)
    ('0.01235', '-')
    """
    return "-" if value is None else f"{value:.{digits}g}"


def format_percent(share: float | None, digits: int = 1) -> str:
    """A share of one in percent, a dash where there is none.

    >>> format_percent(0.4214), format_percent(0.92, 0), format_percent(None)
    ('42.1%', '92%', '-')
    """
    return "-" if share is None else f"{share:.{digits}%}"


def format_duration(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> format_duration(3725)
    '1:02:05'
    """
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def plural(number: int, what: str) -> str:
    """A number of things.

    >>> plural(1, "round"), plural(20, "round")
    ('1 round', '20 rounds')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def printable(text: str) -> str:
    """The text with what is no character as an escape: names of files may be any bytes.

    >>> printable("caf\\udce9")
    'caf\\\\udce9'
    """
    return text.encode("utf-8", "backslashreplace").decode()


def format_problem(error: Exception) -> str:
    """What is wrong with one of many runs: our own words where we have them."""
    if isinstance(error, FedhaltError):
        return printable(str(error))
    if isinstance(error, OSError) and error.strerror:
        return printable(f"{error.filename}: {error.strerror}" if error.filename else error.strerror)
    return printable(f"it cannot be shown ({type(error).__name__}: {error})")
