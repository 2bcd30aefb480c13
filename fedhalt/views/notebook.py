"""What a notebook shows of a record or a sweep: a small picture and a table, as plain HTML without scripts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from ..errors import FedhaltError
from ..records.judging import DRIFT, metrics
from ..rules import GrowthRate, Status, replay
from .words import describe_model, format_drift, format_motion, format_number, format_stop

if TYPE_CHECKING:
    from ..records.trajectory import Trajectory
    from ..tuning.trial import Trial

WIDTH, HEIGHT = 320, 120
COLOURS = ("#0072b2", "#d55e00")


def trajectory_html(trajectory: Trajectory) -> str:
    """Distance and accuracy by round with the stop of the paper's rule, and the numbers of the last round."""
    rows = trajectory.rows
    if not rows:
        return "<p>Trajectory without rounds</p>"
    rounds = [row["round"] for row in rows]
    end = _end(trajectory)
    stop = end.round if end and end.stop else None
    names = [name for name in ("distance", score(trajectory)) if name in trajectory.columns]
    pictures = [
        picture(name, rounds, [row[name] for row in rows], stop, colour)
        for name, colour in zip(names, COLOURS, strict=False)
    ]
    drift = metrics(rows[-1]).get(DRIFT)
    now = "" if drift is None else f"; at the end {describe_model(None, '', drift=drift)}"
    said = f"the paper's rule (threshold 0.01, patience 10) {_said(end)}{now}"
    last = {name: value for name, value in rows[-1].items() if isinstance(value, (int, float))}
    return (
        f"<div><p>{len(rows)} rounds; {said if 'distance' in names else 'no distance is recorded'}</p>"
        f"{''.join(pictures)}{table(list(last), [[_text(value) for value in last.values()]])}</div>"
    )


def sweep_html(trials: Sequence[Trial], rounds: int, objective: str, best: Trial | None) -> str:
    """Every trial with a bar for the rounds it used, its end and its objective, the best one marked."""
    cells = "".join(_trial(trial, rounds, trial is best) for trial in trials)
    titles = ("trial", "configuration", "state", "model", "drift", f"rounds of {rounds}", objective)
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    used = sum(trial.outcome.rounds for trial in trials)
    return (
        f"<div><p>{len(trials)} trials used {used} of {rounds * len(trials)} rounds</p>"
        f"<table><thead><tr>{head}</tr></thead><tbody>{cells}</tbody></table></div>"
    )


def _trial(trial: Trial, rounds: int, best: bool) -> str:
    found, used = trial.outcome, trial.outcome.rounds
    bar = (
        f'<svg width="120" height="12" role="img" aria-label="{used} of {rounds} rounds">'
        f'<rect width="120" height="12" fill="none" stroke="currentColor" stroke-opacity="0.3"/>'
        f'<rect width="{120 * used / rounds:.1f}" height="12" fill="{COLOURS[best]}"/></svg>'
    )
    value = format_number(trial.value) + " (best)" * (best and trial.value is not None)
    moved = format_motion(found.exponent, found.motion, found.rounds)
    texts = [str(trial.number + 1), trial.label, trial.state, moved, format_drift(found.drift)]
    said = "".join(f"<td>{escape(text)}</td>" for text in texts)
    return f"<tr>{said}<td>{bar} {used}</td><td>{value}</td></tr>"


def score(trajectory: Trajectory) -> str:
    """The accuracy that is shown: the balanced one on test data if it is there; empty if there is none."""
    first = [name for name in ("test_balanced_accuracy", "test_accuracy", "val_accuracy") if name in trajectory.columns]
    return next(iter([*first, *(name for name in trajectory.columns if "accuracy" in name)]), "")


def picture(name: str, rounds: Sequence[int], values: Sequence[Any], stop: int | None, colour: str) -> str:
    """One curve as SVG; its ends as text, and an upright line at the stop."""
    points = [
        (r, float(value)) for r, value in zip(rounds, values, strict=True)
        if isinstance(value, (int, float)) and abs(value) < 1e300
    ]  # fmt: skip
    if not points:
        return ""
    low, high = min(value for _, value in points), max(value for _, value in points)

    def x(r: float) -> float:
        return 4 + (r - rounds[0]) / max(1, rounds[-1] - rounds[0]) * (WIDTH - 8)

    def y(value: float) -> float:
        return HEIGHT - 4 - (value - low) / ((high - low) or 1) * (HEIGHT - 24)

    line = " ".join(f"{x(r):.1f},{y(value):.1f}" for r, value in points)
    mark = "" if stop is None else (
        f'<line x1="{x(stop):.1f}" x2="{x(stop):.1f}" y1="16" y2="{HEIGHT}" '
        'stroke="currentColor" stroke-dasharray="4 3"/>'
    )  # fmt: skip
    said = f"{escape(name)}: {points[0][1]:.4g} to {points[-1][1]:.4g}"
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT}" role="img" aria-label="{said}" style="margin-right: 16px">'
        f'<text x="4" y="12" font-size="12" fill="currentColor">{said}</text>'
        f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>{mark}</svg>'
    )


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of text."""
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _end(trajectory: Trajectory) -> Status | None:
    """Where the paper's rule with its usual settings stops, else its last verdict; None where it cannot judge."""
    if "distance" not in trajectory.columns:
        return None
    try:
        statuses = list(replay(GrowthRate(), trajectory))
    except FedhaltError:
        return None
    return next((status for status in statuses if status.stop), statuses[-1])


def _said(end: Status | None) -> str:
    if end is None or not end.stop:
        moved = format_motion(end.exponent, end.motion, end.round) if end else "-"
        return "does not stop it" if moved == "-" else f"does not stop it (model {moved})"
    return f"stops at round {end.round} ({format_stop(end.reason, end.motion, 'growth')})"


def _text(value: float) -> str:
    return str(value) if isinstance(value, int) or not math.isfinite(value) else f"{value:.4g}"
