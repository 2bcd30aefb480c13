"""Claims of the abstract, the introduction and the analysis (section II)."""

from __future__ import annotations

from . import intro, reason
from .claim import Claim, cell_of, gains_of, said
from .gains import pairs
from .rows import Results, mean
from .setting import ALL_SKEWS, CHANCE, METHODS, TASKS, TAU_BAD, Scale


def comparable(results: Results, scale: Scale) -> Claim:
    parts, met = [], []
    for task in scale.tasks:
        cells = [gains_of(cell_of(results, scale, task, m, s), "smooth") for m in METHODS for s in ALL_SKEWS]
        known = [mean(cell) for cell in cells if cell]
        if known:
            met.append(mean(known) >= -1)
            better = sum(value >= -1 for value in known)
            parts.append(
                f"{TASKS[task]} {mean(known):+.1f} points on average, above -1 in {better} of {len(known)} cells"
            )
    words = "comparable to validation-based stopping across methods (abstract)"
    return Claim(words, said(parts, " (means of five rounds)"), met, "table2")


def later_and_better(results: Results, scale: Scale) -> Claim:
    parts, met = [], []
    for task in scale.tasks:
        found = [p for p in cell_of(results, scale, task, "fedavg", ("dirichlet", 0.1)) if len(p.rivals) == 2]
        if found:
            later = mean([p.proposed.round - mean([s.round for s in p.rivals.values()]) for p in found])
            gain = mean([p.proposed.balanced - mean([s.balanced for s in p.rivals.values()]) for p in found])
            met += [later > 0, gain > 0]
            parts.append(
                f"{TASKS[task]} {later:+.0f} rounds, {gain:+.1f} points ({len(found)} seed{'s' * (len(found) > 1)})"
            )
    words = (
        "FedAvg, Dirichlet 0.1: 45/12/31 rounds later than validation, 12.3/8.9/3.9 points better (abstract, III-B3)"
    )
    return Claim(words, said(parts), met, "fig-result1")


def screening(results: Results, scale: Scale) -> Claim:
    parts, met = [], []
    for task in scale.tasks:
        where = {"task": task, "skew": "dirichlet", "c": 0.1, "lr": scale.rates["bad"]}
        found = [p for m in METHODS for p in pairs(results, scale, m, TAU_BAD, **where)]
        extra = [float(rounds) for p in found if (rounds := p.extra()) is not None]
        if extra:
            guess = mean([p.proposed.balanced for p in found])
            met += [mean(extra) / scale.rounds < 0.03, guess < 100 * CHANCE[task] + 5]
            parts.append(
                f"{TASKS[task]} {mean(extra):+.1f} rounds ({mean(extra) / scale.rounds:.1%}), at {guess:.1f} %"
            )
    words = (
        "bad configurations: 9/8/14 rounds more than validation, under 3 % of the budget, at chance (abstract, III-B7)"
    )
    return Claim(words, said(parts), met, "table3")


def cost(results: Results, scale: Scale) -> Claim:
    slopes = intro.slopes(results, scale)
    parts = [f"with {label}: traffic x^{traffic:.2f}, time x^{hours:.2f}" for label, traffic, hours in slopes]
    met = [slopes[0][2] > slopes[1][2]] if len(slopes) == 2 else []
    return Claim(
        "cost grows more sharply with clients than with the model (introduction)", said(parts), met, "fig-intro"
    )


def scale_free(results: Results, scale: Scale) -> Claim:
    parts, met = [], []
    for task in scale.tasks:
        wide = reason.factors(results, scale, task)
        if wide:
            met.append(wide["growth"] < wide["difference"])
            parts.append(
                f"{TASKS[task]}: factor {wide['difference']:.3g} for the difference, {wide['growth']:.3g} for g"
            )
    words = "the difference has another scale for every method and setting, the growth rate has not (II-B)"
    return Claim(words, said(parts), met, "fig-reason")


def inequalities(results: Results, scale: Scale) -> Claim:
    rows = [row for row in results.rows.values() if row["checked"]]
    sums = {key: sum(int(row[f"broken {key}"]) for row in rows) for key in ("change", "growth", "condition")}
    checked = sum(int(row["checked"]) for row in rows)
    ours = f"{checked:,} rounds of {len(rows):,} runs checked; broken: " + ", ".join(
        f"{k} {v}" for k, v in sums.items()
    )
    return Claim(
        "the inequalities of the analysis (II-C)", ours, [not v for v in sums.values()] if rows else [], "inequalities"
    )


def condition(results: Results, scale: Scale) -> Claim:
    rows = [row for row in results.select(lr=scale.rates["bad"], model=scale.model["model"]) if row["rounds"]]
    known = [int(row[f"enough {TAU_BAD:g}"]) for row in rows if row[f"enough {TAU_BAD:g}"] is not None]
    ours = f"the condition held at {sum(known)} of {len(known)} stops of the bad rate" if known else "–"
    words = "bad configurations stop because updates are small against the distance, δ > ε/τ (II-C)"
    return Claim(words, ours, [sum(known) > 0.5 * len(known)] if known else [], "inequalities")
