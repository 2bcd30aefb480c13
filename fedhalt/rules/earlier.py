"""States and verdicts as earlier versions saved them, in the form of today."""

from __future__ import annotations

from typing import Any

from .base import Rule, State, Status
from .combine import Combination
from .signals.wandering import Wandering


def state_of(rule: Rule, saved: State) -> State:
    """Version 0.1 stored the state of `Wandering` differently."""
    if isinstance(rule, Combination):
        states = [state_of(child, state) for child, state in zip(rule.rules, saved["states"], strict=True)]
        return {**saved, "states": states}
    if isinstance(rule, Wandering) and "squares" in saved:
        return {"round": saved["round"], "value": saved["squares"], "streak": saved["streak"], "still": 0}
    return saved


def status_of(saved: dict[str, Any]) -> Status:
    """Version 0.1 called the signal of every rule its growth."""
    return Status(**{"signal" if name == "growth" else name: value for name, value in saved.items()})
