"""What rules are asked about, for fixtures of what they said: recorded runs of many kinds, and every rule.

Everything is drawn by `random.Random` and added up by `fsum`, so that any Python makes the same numbers.
"""

import hashlib
import math
import random

from fedhalt import (
    AllOf,
    AnyOf,
    Budget,
    Difference,
    FedhaltError,
    ForwardGrowth,
    GrowthAuthors,
    GrowthRate,
    Plateau,
    RelativeUpdate,
    TwoStages,
    Wandering,
    WeightDiff,
    replay,
)
from fedhalt.rules import create
from fedhalt.stopbench.candidates import Alignment, Clock, Exponent, NetOverGross, PathGrowth, Travelled


def digest(value):
    return hashlib.blake2b(repr(value).encode(), digest_size=8).hexdigest()


def plain(status):
    """A status by position, whatever its fields are called."""
    return list(status[:8])


def verdicts(rule, rows):
    """Every status of a replay; a mistake in the record ends it with its message."""
    found = []
    try:
        found.extend(map(plain, replay(rule, rows)))
    except FedhaltError as error:
        found.append(str(error))
    return found


def said(rule, made):
    """What a rule says of the records, by kind."""
    odd = {"tiny"} if isinstance(rule, Alignment) else ()  # 0.1.0 divides by a product that is 0 there, and ends
    return {kind: digest([verdicts(rule, rows) for rows in each]) for kind, each in made.items() if kind not in odd}


MOVES = {
    "walk": lambda r, t, s: t + s,
    "drift": lambda r, t, s: t + 1 + 0.1 * s,
    "goal": lambda r, t, s: t + 0.3 * (1 - t) + 0.001 * s,
    "frozen": lambda r, t, s: t + s if r < 12 else t,
    "zeros": lambda r, t, s: t,
    "thrown": lambda r, t, s: 10 * s,
    "exploding": lambda r, t, s: 1.7 * t + s,
}
"""How a weight moves in round r, given a random number between -1 and 1."""

NORMS = ("distance", "update_norm", "parameter_norm")
SCORES = ("val_loss", "val_accuracy")


def measured(move, draw):
    """A model of three weights as a server records it."""
    before, rows = (0.0, 0.0, 0.0), []
    for r in range(1, draw.randrange(2, 60)):
        now = tuple(move(r, t, draw.uniform(-1, 1)) for t in before)
        update = [n - b for n, b in zip(now, before, strict=True)]
        sizes = [math.sqrt(math.fsum(x * x for x in v)) for v in (now, update, [1 + n for n in now])]
        alignment = math.fsum(u * b for u, b in zip(update, before, strict=True))
        scores = [draw.random() + 2 / r, min(1.0, draw.random() * r / 20)]
        columns = (*NORMS, "alignment", *SCORES)
        rows.append({"round": r, **dict(zip(columns, [*sizes, alignment, *scores], strict=True))})
        before = now
    return rows


def scaled(rows, draw, powers):
    factor = draw.choice(powers)
    return [
        {**row, **{key: row[key] * factor for key in NORMS}, "alignment": row["alignment"] * factor * factor}
        for row in rows
    ]


def holed(rows, draw):
    wrong = (math.nan, math.inf, math.nan, math.inf, -math.inf)
    return [
        {**row, draw.choice((*NORMS, "alignment", *SCORES)): draw.choice(wrong)} if draw.random() < 0.1 else row
        for row in rows
    ]


def unevaluated(rows, draw):
    return [{**row, **dict.fromkeys(SCORES)} if draw.random() < 0.6 else row for row in rows]


def mistaken(rows, draw):
    """One cell of the record, or one round's number, is not what it should be."""
    row = draw.choice(rows)
    key = draw.choice([*row])
    row[key] = draw.choice([-1.5, "0.5", True, None, 0, [1.0], 10**400, "NaN"])
    if draw.random() < 0.3:
        del row[key]
    return rows


SPOILT = {
    "tiny": lambda rows, draw: scaled(rows, draw, [1e-12, 1e-160, 1e-310]),
    "huge": lambda rows, draw: scaled(rows, draw, [1e12, 1e155, 1e307]),
    "holes": holed,
    "gaps": lambda rows, draw: [row for row in rows if draw.random() < 0.5],
    "unevaluated": unevaluated,
    "unnumbered": lambda rows, draw: [{key: row[key] for key in row if key != "round"} for row in rows],
    "mistakes": mistaken,
}


def records(each=11):
    """By kind, so many recorded runs each: ordinary ones, then those in which something is odd."""
    found = {}
    for kind in (*MOVES, *SPOILT):
        draws = [random.Random(f"{kind} {n}") for n in range(each)]
        moves = [MOVES.get(kind) or MOVES[draw.choice([*MOVES])] for draw in draws]
        spoil = SPOILT.get(kind, lambda rows, draw: rows)
        found[kind] = [spoil(measured(move, draw), draw) for move, draw in zip(moves, draws, strict=True)]
    return found


PAIRS = ({}, {"threshold": 0.05, "patience": 1}, {"threshold": 0.2, "patience": 3}, {"threshold": 1.5, "patience": 7})
MORE = (*PAIRS, {"threshold": 0.3, "start_from_round": 9}, {"threshold": 0.2, "patience": 2, "check_finite": False})
SETTINGS = {
    **dict.fromkeys(("growth", "difference", "relative-update", "weight-diff", "forward"), MORE),
    "growth-authors": PAIRS,
    "val-loss": (*PAIRS, {"higher_is_better": True, "patience": 4}),
    "val-accuracy": (*PAIRS, {"acc_unit": "fraction", "patience": 3}),
    "wandering": PAIRS,
    "budget": ({}, {"rounds": 1}, {"rounds": 17}),
}


def rules():
    """Every rule with several settings, by what it is called in the digests."""
    found = {f"{name} {given}": create(name, **given) for name, each in SETTINGS.items() for given in each}
    for kind in (PathGrowth, NetOverGross, Clock, Exponent, Alignment, Travelled):
        found |= {f"{kind.__name__} {t} {p}": kind(t, p) for t, p in ((0.01, 10), (0.1, 3), (0.6, 1))}
    combined = (
        AnyOf(GrowthRate(0.05, 3), Budget(30)),
        AnyOf(Wandering(0.5, 3), ForwardGrowth(0.02, 3), Plateau("val_accuracy")),
        AllOf(GrowthRate(0.1, 2), RelativeUpdate(0.5, 2), Budget(12)),
        AllOf(WeightDiff(0.3, 2), AnyOf(GrowthAuthors(0.1, 2), Difference(0.1, 2))),
        TwoStages(Wandering(0.9, 4), ForwardGrowth(0.05, 3)),
        TwoStages(AnyOf(Wandering(0.7, 3), Plateau("val_loss", 0.1, 6)), GrowthRate(0.1, 3)),
    )
    return found | {f"{type(rule).__name__} {n}": rule for n, rule in enumerate(combined)}
