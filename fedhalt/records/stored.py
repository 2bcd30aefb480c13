"""What a recorded run says about itself besides its rounds: the rules that watched it, and its budget."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import files, rules
from ..errors import FedhaltError
from ..rules import NamedRule, Rule
from ..rules.named import limit_name, shown_settings
from . import lines
from .trajectory import Trajectory

RECORD, SUMMARY = "trajectory.jsonl", "summary.json"


def read_summary(path: Path) -> dict[str, Any]:
    """The summary of a run folder, or of the folder that its record is in; empty where there is none to read."""
    beside = path / SUMMARY if path.is_dir() else path.parent / SUMMARY
    if not path.is_dir() and path.name != RECORD:
        return {}
    try:
        files.require_regular(beside)
        line = beside.read_bytes().removesuffix(b"\n")
        return lines.from_line(line, lines.VERSION if lines.CHECK in line else 1)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        warnings.warn(f"{beside} cannot be read and is left out: {error}", stacklevel=2)
        return {}


def stored_rules(trajectory: Trajectory, summary: Mapping[str, Any]) -> list[NamedRule]:
    """The rules that watched this run: a stopper's is in the header, those of `fedhalt run` are in the summary."""
    found = []
    with contextlib.suppress(FedhaltError):  # a rule of the user's own
        found.append(named(rules.from_json(trajectory.header.get("rule"))))
    listed = summary.get("rules")
    for entry in listed if isinstance(listed, list) else []:
        with contextlib.suppress(FedhaltError, KeyError, TypeError):
            taken = {key: entry[key] for key in ("threshold", "patience") if entry[key] is not None}
            if "rounds" in rules.accepts(entry["rule"]):
                taken["rounds"] = entry["stop_round"] or summary["rounds"]
            found.append(rules.named_rule(entry["rule"], **taken))
    return [one for index, one in enumerate(found) if one not in found[:index]]


def named(rule: Rule) -> NamedRule:
    """A rule under its name on the command line; one that has none there is called by its type."""
    limit = limit_name(rule)
    if limit is not None:
        return NamedRule(limit, {}, rule)
    for name in rules.RULES:
        plain = rules.create(name)
        if type(plain) is type(rule) and plain.reads == rule.reads:
            return NamedRule(name, shown_settings(rule), rule)
    return NamedRule(type(rule).__name__, {}, rule)


def budget_of(trajectory: Trajectory, summary: Mapping[str, Any]) -> int | None:
    """The rounds that the run was allowed: the summary's word counts before the header's, which is older."""
    for found in (summary.get("budget"), trajectory.header.get("budget")):
        if type(found) is int and found > 0:
            return found
    return None
