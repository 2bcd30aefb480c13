"""What a person sees of one run: what is trained, how it goes, and what came out of it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from ...records.judging import DRIFT, LAST, accuracy_column
from ...rules import NamedRule
from ..words import (
    advise,
    describe_model,
    format_drift,
    format_duration,
    format_metric,
    format_number,
    format_percent,
    format_reason,
    format_stop,
    is_clock,
    needs_data,
    plural,
)
from .display import Column, Display, columns_table, print_table

if TYPE_CHECKING:
    from ...simulation.runner import Progress
    from ...simulation.summary import RuleSummary, RunSummary

BAR = 20
"""Characters of a bar toward a rule's patience."""
WHOLE = ("files: ", "model: ", "next: ")
"""Lines that people copy: they are never broken."""
PACE = 20
"""Rounds that the time left is estimated from."""


def describe_run(console: Console, spec: Mapping[str, Any], rules: Sequence[NamedRule], stop: str, budget: int) -> None:
    """What is going to be trained, and what will stop it."""
    skew = spec["skew"] if spec["skew"] in ("iid", "natural") else f"{spec['skew']} skew, c = {spec['c']:g}"
    own = ", ".join(f"{name} {value}" for name, value in spec["hyperparameters"].items() if name != "server_lr")
    facts = {
        "data": f"{spec['data']}, {plural(spec['clients'], 'client')} ({skew}), {spec['cohort']} per round",
        "model": spec["model"],
        "method": spec["method"] + (f" ({own})" if own else ""),
        "training": f"{plural(spec['epochs'], 'local epoch')}, {spec['optimizer']}, learning rate {spec['lr']:g}, "
        f"batch size {spec['batch']}",
        "rules": _describe_rules(rules),
        "end": f"{_when(stop, len(rules))}round {budget} at the latest",
    }
    grid = Table.grid(padding=(0, 2, 0, 0))
    for name, text in facts.items():
        grid.add_row(name, text)
    console.print(grid, markup=False)
    console.print()


def _describe_rules(rules: Sequence[NamedRule]) -> str:
    """The rules by what they need; settings that all of them share are said once."""
    needs = {"no data": [], "validation data": []}  # type: dict[str, list[NamedRule]]
    for named in rules:
        needs["validation data" if needs_data(named.name) else "no data"].append(named)
    set_up = [named for named in rules if named.settings]
    shared = len({str(named.settings) for named in set_up}) == 1

    def name(named: NamedRule) -> str:
        return named.name if shared or not named.settings else f"{named.name} ({_settings(named)})"

    parts = [f"{', '.join(map(name, each))} ({what})" for what, each in needs.items() if each]
    if shared:
        parts.append(_settings(set_up[0]))
    return "; ".join(parts) or "none"


def _settings(named: NamedRule) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in named.settings.items())


def _when(stop: str, number: int) -> str:
    if stop == "never" or not number:
        return ""
    if number == 1:
        return "when the rule fires, "
    return f"when {'all rules have' if stop == 'all' else 'the first rule has'} fired, "


class RunDisplay(Display):
    """On a terminal the last round with a bar toward each rule's patience.

    In a log a line now and then: the first rounds, every tenth, and whenever a rule fires.
    """

    opening = "preparing data and model …"
    frames_per_second = 8

    def __init__(self, console: Console, rules: Sequence[NamedRule]) -> None:
        super().__init__(console)
        self.rules = rules
        self.seconds: deque[float] = deque(maxlen=PACE)

    def __call__(self, progress: Progress) -> None:
        self.seconds.append(progress.row["seconds"])
        fired = self._fired_now(progress)
        if self.live:
            for line in fired:
                self.console.print(line, markup=False)
            self.live.update(self._view(progress))
            return
        r = progress.row["round"]
        if r <= 3 or r % 10 == 0 or fired:
            self.say("  ".join([*self._facts(progress), *self._streaks(progress)]))
        for line in fired:
            self.say(line)

    def _fired_now(self, progress: Progress) -> list[str]:
        """A line for every rule that fired in this round."""
        return [
            f"{self.rules[index].name} stops at round {status.round}: "
            f"{format_stop(status.reason, status.motion, self.rules[index].name)}"
            for index, status in progress.fired.items()
            if status.round == progress.row["round"]
        ]

    def _facts(self, progress: Progress) -> list[str]:
        row = progress.row
        facts = [f"round {row['round']}/{progress.rounds}"]
        name = accuracy_column(row)
        if name and row[name] is not None:
            facts.append(f"accuracy {row[name]:.1%}")
        return facts

    def _streaks(self, progress: Progress) -> list[str]:
        """How far each rule is, as rounds in a row of those it waits for."""
        return [
            f"{named.name} {'done' if index in progress.fired else f'{status.streak}/{_waits(named)}'}"
            for index, (named, status) in enumerate(zip(self.rules, progress.statuses, strict=True))
        ]

    def _view(self, progress: Progress) -> Table:
        """The round, what the model does, the time left, and a bar for each rule."""
        made = Table.grid(padding=(0, 1))
        moved = self._moved(progress)
        left = f"{format_duration(self._left(progress))} left at most"
        facts = [*self._facts(progress), f"distance {progress.row['distance']:.4g}"]
        made.add_row("  ".join([*facts, *([moved] if moved else [])]))
        for index, (named, status) in enumerate(zip(self.rules, progress.statuses, strict=True)):
            filled = BAR if index in progress.fired else round(BAR * min(1, status.streak / _waits(named)))
            ended = progress.fired.get(index)
            state = f"stopped at {ended.round}" if ended else f"{status.streak} of {_waits(named)} rounds"
            made.add_row(f"{named.name:16} {'█' * filled}{'░' * (BAR - filled)} {state}")
        made.add_row(left)
        return made

    def _moved(self, progress: Progress) -> str:
        """What the model and its rounds do; the motion is that of any of the rules."""
        exponent, word = progress.statuses[0][-2:] if progress.statuses else (None, "")
        return describe_model(exponent, word, progress.row["round"], progress.row.get(DRIFT))

    def _left(self, progress: Progress) -> float:
        """Time to the end of the budget at the pace of the last rounds; setting up counts for nothing."""
        left: int = progress.rounds - progress.row["round"]
        return left * sum(self.seconds) / len(self.seconds)


def _waits(named: NamedRule) -> int:
    waits: int = named.settings.get("patience") or named.settings.get("rounds") or 1
    return waits


def show_summary(console: Console, summary: RunSummary) -> None:
    """The result in a sentence, a row for each rule, where the files are, and what to try next."""
    budget = summary.budget or summary.rounds
    console.print()
    console.print(_result(summary, budget), markup=False)
    console.print()
    if summary.rules:
        not_stopped = "not yet" if summary.reason == "interrupted" else "never"
        columns: list[Column[RuleSummary]] = [
            Column("rule", lambda rule: rule.rule, words=True),
            Column("needs", lambda rule: "validation data" if needs_data(rule.rule) else "no data", words=True),
            Column("stop", lambda rule: str(rule.stop_round or not_stopped)),
            Column("saved", lambda rule: format_percent(_saved(rule, budget), 0)),
            Column("accuracy", lambda rule: format_percent(rule.accuracy)),
            Column("why", lambda rule: format_reason(rule.reason, rule.rule) or "-", words=True),
        ]
        if any(rule.accuracy_average is not None for rule in summary.rules):
            columns.insert(-1, Column("average", lambda rule: format_percent(rule.accuracy_average)))
        print_table(columns_table(summary.rules, columns), console, wide=False)
        console.print()
    for line in _notes(summary, budget):
        console.print(line, markup=False, soft_wrap=line.startswith(WHOLE))


def _saved(rule: RuleSummary, budget: int) -> float | None:
    return None if rule.stop_round is None else 1 - rule.stop_round / budget


def _result(summary: RunSummary, budget: int) -> str:
    """The result in one sentence: the first rule that needs no data, beside the best one that does."""
    accuracy = f", accuracy {format_percent(summary.accuracy)}" if summary.accuracy is not None else ""
    if summary.reason == "interrupted":
        return f"interrupted after {summary.rounds} of {budget} rounds; run the same command to resume"
    fired = [rule for rule in summary.rules if rule.stop_round is not None]
    free = [rule for rule in fired if not needs_data(rule.rule) and rule.rule != "budget"]
    lead = next(iter([*free, *fired]), None)
    if summary.reason == "diverged" or (lead and lead.reason == "diverged"):
        return f"diverged after {summary.rounds} of {budget} rounds: the parameters are no longer finite"
    if lead is None or lead.stop_round is None:
        return f"trained {summary.rounds} of {budget} rounds, the whole budget{accuracy}; no rule stopped it"
    who = "stopped" if len(summary.rules) == 1 and summary.stop_round else f"{lead.rule} stops"
    said = (
        f"{who} after {lead.stop_round} of {budget} rounds: {format_percent(_saved(lead, budget), 0)} of the work saved"
    )
    if lead.accuracy is not None:
        said += f", accuracy {format_percent(lead.accuracy)}"
    others = [rule for rule in fired if needs_data(rule.rule) and rule.accuracy is not None and rule is not lead]
    if others and not needs_data(lead.rule):
        best = max(others, key=lambda rule: rule.accuracy or 0.0)
        said += (
            f" (best of the rules that looked at validation data: {format_percent(best.accuracy)}, "
            f"{plural(best.stop_round or 0, 'round')})"
        )
    if summary.reason == "budget":
        said += f"; trained on to round {summary.rounds}{accuracy}"
    return said


def _notes(summary: RunSummary, budget: int) -> list[str]:
    lines = [f"saved: share of the budget of {plural(budget, 'round')}"] if summary.rules else []
    name = accuracy_column(summary.metrics)
    if name:
        lines.append(f"accuracy: {format_metric(name)}, mean of {LAST} evaluations up to the stop")
    if any(rule.accuracy_average is not None for rule in summary.rules):
        lines.append("average: the same metric for the mean of the last models, at the stop")
    if summary.drift is not None:
        lines.append(f"drift: {format_drift(summary.drift)}; {advise(summary.drift)}")
    for rule in summary.rules:
        if is_clock(rule.reason, rule.motion, rule.rule):
            exponent = f" (exponent {format_number(rule.exponent, digits=2)})"
            lines.append(
                f"{rule.rule}: the model was still moving at the stop{exponent}; "
                "growth is small because many rounds have passed"
            )
    lines.append(f"files: {summary.run}")
    kept = [*((rule.model, rule.average) for rule in summary.rules), (summary.model, summary.average)]
    models = [model for pair in kept for model in pair if model]
    for model in dict.fromkeys(models):
        lines.append(f"model: {os.path.join('models', os.path.basename(model))}")
    if summary.reason != "interrupted":
        lines.append(f"next:  fedhalt report {summary.run} -o report.html")
    return lines
