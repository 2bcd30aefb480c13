"""What a person sees while a run goes on, and when it is done."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from .judge import Candidate
from .rules.motion import told, why
from .run import Progress
from .spec import RunSpec


class Lines:
    """One line now and then, for logs: the first rounds, every tenth, and whenever a rule fires."""

    def __init__(self, console: Console, watch: Sequence[Candidate]) -> None:
        self.console, self.watch = console, watch
        self.begin = time.monotonic()
        self.first: int | None = None

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def __call__(self, progress: Progress) -> None:
        r = progress.row["round"]
        fresh = self.fresh(progress)
        if r <= 3 or r % 10 == 0 or fresh:
            self.console.print(self.line(progress), markup=False, soft_wrap=True)
        for line in fresh:
            self.console.print(f"  {line}", markup=False, soft_wrap=True)

    def fresh(self, progress: Progress) -> list[str]:
        """A line for every rule that fired in this round."""
        return [
            f"{self.watch[index]}: stop at round {status.round} ({why(status.reason, status.exponent, status.motion)})"
            for index, status in progress.fired.items()
            if status.round == progress.row["round"]
        ]

    def line(self, progress: Progress) -> str:
        row = progress.row
        growth = "-" if row["growth"] is None else f"{row['growth']:.5f}"
        parts = [f"round {row['round']}/{progress.rounds}", f"distance {row['distance']:.4g}", f"growth {growth}"]
        if progress.statuses:  # the model does the same under every rule
            parts.append(f"exponent {told(progress.statuses[0].exponent, progress.statuses[0].motion)}")
        for index, (candidate, status) in enumerate(zip(self.watch, progress.statuses, strict=True)):
            patience = candidate.settings.get("patience", candidate.settings.get("rounds"))
            state = "fired" if index in progress.fired else f"{status.streak}/{patience}"
            parts.append(f"{candidate.name} {state}")
        if row.get("test_balanced_accuracy") is not None:
            parts.append(f"accuracy {row['test_accuracy']:.1%} balanced {row['test_balanced_accuracy']:.1%}")
        return "  ".join([*parts, f"{row['seconds']:.2f} s", f"budget left {self.left(progress)}"])

    def left(self, progress: Progress) -> str:
        """Time to the end of the budget at the pace so far; the rule usually ends it sooner."""
        r = progress.row["round"]
        self.first = r - 1 if self.first is None else self.first
        pace = (time.monotonic() - self.begin) / max(1, r - self.first)
        seconds = int(pace * (progress.rounds - r))
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


class Screen(Lines):
    """The same as one line that is rewritten, with a bar toward each rule's patience."""

    def __enter__(self) -> Screen:
        self.live = Live(Text("preparing data and model …"), console=self.console, refresh_per_second=8, transient=True)
        self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.live.stop()

    def __call__(self, progress: Progress) -> None:
        for line in self.fresh(progress):
            self.live.console.print(line, markup=False)
        table = Table.grid(padding=(0, 1))
        table.add_row(self.line(progress))
        for candidate, status in zip(self.watch, progress.statuses, strict=True):
            streak = status.streak
            patience = candidate.settings.get("patience") or candidate.settings.get("rounds") or 1
            filled = round(20 * min(1, streak / patience))
            table.add_row(f"{candidate.name:16} {'█' * filled}{'░' * (20 - filled)} {streak}/{patience}")
        self.live.update(table)


def closing(console: Console, summary: dict[str, Any]) -> None:
    """The table of what each rule did, and where the files are."""
    words = {"budget": "the budget is spent", "interrupted": "interrupted; the same command continues it"}
    why = words.get(summary["reason"], summary["reason"])
    console.print(f"\n{summary['rounds']} rounds: {why}", markup=False)
    table = Table(box=None, pad_edge=False, header_style="bold")
    titles = ("rule", "threshold", "patience", "stops at", "reason", "exponent", "test accuracy", "balanced", "model")
    for title in titles:
        left = title in ("rule", "reason", "exponent", "model")
        table.add_column(title, justify="left" if left else "right", overflow="fold")
    for rule in summary["rules"]:
        scores = [rule["metrics"].get(f"test_{key}") for key in ("accuracy", "balanced_accuracy")]
        table.add_row(
            rule["rule"],
            "-" if rule["threshold"] is None else f"{rule['threshold']:g}",
            "-" if rule["patience"] is None else str(rule["patience"]),
            str(rule["stop_round"] or "not yet"),
            rule["reason"] or "-",
            told(rule["exponent"], rule["motion"], rule["reason"]),
            *("-" if score is None else f"{score:.1%}" for score in scores),
            rule["model"].rpartition("/")[2] if rule["model"] else "not kept" if rule["stop_round"] else "-",
        )
    console.print(table, markup=False)
    console.print(f"files: {summary['run']}", markup=False, soft_wrap=True)


def partition_table(console: Console, spec: RunSpec, counts: list[list[int]]) -> None:
    """A row per client (the largest and smallest where there are many) with its classes."""
    sizes = [sum(row) for row in counts]
    order = sorted(range(len(counts)), key=lambda client: -sizes[client])
    shown = order if len(order) <= 24 else order[:12] + order[-12:]
    console.print(
        f"{spec.data}: {sum(sizes)} samples, {len(counts)} clients, {spec.skew} c={spec.c:g}, seed {spec.seed}"
    )
    held = [sum(n > 0 for n in row) for row in counts]
    console.print(
        f"samples per client: {min(sizes)} to {max(sizes)}, median {sorted(sizes)[len(sizes) // 2]}; "
        f"classes per client: {min(held)} to {max(held)}; empty clients: {sizes.count(0)}"
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("client", "samples", *(f"class {z}" for z in range(len(counts[0])))):
        table.add_column(title, justify="right")
    for position, client in enumerate(shown):
        if position == 12 and len(order) > 24:
            table.add_row("…")
        table.add_row(str(client), str(sizes[client]), *(str(n or "·") for n in counts[client]))
    console.print(table)
