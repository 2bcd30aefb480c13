"""The pilot of the network scale: a few rounds at a handful of rates, which choose good, middle and bad."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from . import render
from .rows import Results, Row, mean, scored
from .setting import CHANCE, Need, Scale

TITLE = "The pilot: which rate is good, which is bad"
RATES = (0.1, 1.0, 0.03, 0.01, 0.003)
"""In the order of what each says about the others: what the paper calls bad, what surely breaks, then what learns."""
ROUNDS = 20
GUESSING = 100 * CHANCE["blood"] + 5
"""Up to that balanced accuracy (%) a model is guessing."""


def specs(scale: Scale) -> Iterator[Need]:
    for rate in RATES:
        yield _need(scale, rate)


def judged(curve: list[Row]) -> float:
    """Balanced accuracy over the evaluations of the second half; a run that diverged before has none and guesses."""
    late = [value for r, value in zip(*scored(curve), strict=True) if ROUNDS // 2 < r <= ROUNDS]
    return mean(late) if late else 100 * CHANCE["blood"]


def choose(results: Results, scale: Scale) -> dict[str, float] | None:
    """Good is the rate with the best accuracy, bad the smallest larger one that is left guessing, middle the largest
    between them, or their geometric mean if none is. None while the pilot is not recorded or nothing guesses."""
    curves = {rate: results.curves.get(_need(scale, rate).spec.id) for rate in RATES}
    known = {rate: judged(curve) for rate, curve in curves.items() if curve}
    if len(known) < len(RATES):
        return None
    good = max(known, key=lambda rate: known[rate])
    guessing = [rate for rate in known if rate > good and known[rate] <= GUESSING]
    if not guessing:
        return None
    bad = min(guessing)
    return {
        "good": good,
        "middle": max((r for r in known if good < r < bad), default=math.sqrt(good * bad)),
        "bad": bad,
    }


def rated(results: Results, scale: Scale) -> Scale:
    """The scale with the rates that its pilot chose, once that is recorded; only the network scale has one."""
    chosen = choose(results, scale) if scale.name == "network" else None
    return replace(scale, rates=chosen) if chosen else scale


def draw(results: Results, scale: Scale, folder: Path) -> list[Path]:
    words = {rate: word for word, rate in (choose(results, scale) or {}).items()}
    rounds = range(int(scale.model["evaluate_every"]), ROUNDS + 1, int(scale.model["evaluate_every"]))
    rows = []
    for rate in sorted(RATES):
        curve = results.curves.get(_need(scale, rate).spec.id, [])[:ROUNDS]
        rows.append([f"{rate:g}", words.get(rate, ""), *_cells(curve, rounds)])
    header = ["rate", "", *(f"round {r}" for r in rounds), "its average", "drift_10", "rounds"]
    text, written = render.table(folder / "pilot", header, rows)
    note = (
        f"{scale.model['model']}, blood cells, FedAvg, Dirichlet 0.1, seed 0, the first {ROUNDS} rounds: balanced test "
        f"accuracy (%), that of the average of {scale.average} rounds at the last of them, and the drift there. Good "
        f"is the best mean over the rounds after {ROUNDS // 2}, bad the smallest larger rate whose mean is at most "
        f"{GUESSING:g} % (guessing is {100 * CHANCE['blood']:g} %)."
    )
    return [render.page(folder / "pilot.md", TITLE, note, text), *written]


def _cells(curve: list[Row], rounds: range) -> list[str]:
    at = dict(zip(*scored(curve), strict=True))
    last = curve[-1] if curve else {}
    average, drift = last.get("test_balanced_accuracy_average"), last.get("drift_10")
    return [
        *(render.number(at.get(r, math.nan)) for r in rounds),
        render.number(math.nan if average is None else 100 * average),
        render.number(math.nan if drift is None else drift, digits=2), str(len(curve)),
    ]  # fmt: skip


def _need(scale: Scale, rate: float) -> Need:
    return scale.need(scale.spec("blood", "fedavg", skew="dirichlet", c=0.1, lr=rate, seed=0), rounds=ROUNDS)
