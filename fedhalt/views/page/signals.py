"""What the page needs of the rules: their signals over each run, so that only the triggers are written twice."""

from __future__ import annotations

import functools
from typing import Any

from ... import rules
from ...records.table import Table
from ...records.trajectory import Trajectory
from ...rules import OnSignal, SignalRule, motion
from ...rules.growth_authors import GrowthAuthors
from ...rules.plateau import Plateau
from ...rules.step import trace
from .columns import pack_codes, pack_exact, pack_single

MOTIONS = ("", "still moving", "diffusing", "saturated", "going nowhere", "diverging")
CODES = {word: code for code, word in enumerate(MOTIONS)}


def on_page() -> dict[str, rules.Listed]:
    """The rules on the page. What clients report would have to be carried to the last digit, and is rare."""
    return {name: listed for name, listed in rules.RULES.items() if not name.startswith("client-")}


def listed_rules() -> dict[str, Any]:
    """Every rule by its name: its usual settings, what it reads and holds, and its trigger."""
    return {name: _listed(name, listed) for name, listed in on_page().items()}


def _listed(name: str, listed: rules.Listed) -> dict[str, Any]:
    named = rules.named_rule(name)
    about = {"settings": named.settings, "reads": named.rule.reads, "holds": listed.holds, "log": listed.log}
    if isinstance(named.rule, SignalRule):
        return {**about, "trigger": "below", "inclusive": bool(named.rule.below(named.rule.threshold))}
    if isinstance(named.rule, GrowthAuthors):
        return {**about, "trigger": "authors"}
    if isinstance(named.rule, Plateau):
        return {**about, "trigger": "plateau", "higher": named.rule.higher_is_better}
    return {**about, "trigger": "budget"}


def signals(trajectory: Trajectory) -> dict[str, Any]:
    """The signal of every rule that has one, over all rounds that it can judge."""
    made = {name: _usual(listed) for name, listed in on_page().items()}
    return {name: _signal(rule, trajectory.table) for name, rule in made.items() if isinstance(rule, OnSignal)}


@functools.cache
def _usual(listed: rules.Listed) -> rules.Rule:
    """The rule with its usual settings, made once for all runs."""
    return listed.make()


def _signal(rule: OnSignal, table: Table) -> dict[str, Any]:
    missing = [column for column in rule.reads if column not in table.names]
    if missing:
        return {"rounds": 0, "problem": f"{missing[0]} is not recorded"}
    traced = trace(rule, table)
    made: dict[str, Any] = {**pack_exact(traced.signals), "rounds": len(traced.rounds), "reasons": traced.reasons,
                            "problem": traced.problem}  # fmt: skip
    if traced.diverged is not None:
        made["diverged"] = traced.diverged
    return made


def motions(trajectory: Trajectory) -> dict[str, Any]:
    """The local exponent and the word for it, round by round."""
    moved = motion.over(trajectory.table)
    words = pack_codes([CODES[word] for _, word in moved])
    return {"exponent": pack_single([exponent for exponent, _ in moved]), "words": words}
