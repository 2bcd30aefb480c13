"""One training run: rounds, records, verdicts, and going on where a killed process stopped."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from .check import FedhaltError, MissingExtra, known, whole

try:
    import torch
except ImportError:
    raise MissingExtra("fedhalt.run", "torch", "sim") from None

from . import engine
from .distance import MEASURED, Meter
from .judge import Candidate, candidates, judge, metrics
from .rules import Status, motion
from .rules.growth import relative
from .spec import RunSpec
from .store import RunFolder
from .task import Federation
from .trajectory import Trajectory

EVALUATED = ("val_loss", "val_accuracy")
KEPT = ("rule", "threshold", "patience", "stop_round", "reason", "exponent", "motion", "metrics")
"""What a summary says of each rule."""


class Progress(NamedTuple):
    """What a display is told after every round."""

    row: dict[str, Any]
    statuses: list[Status]
    """One per watched rule."""
    fired: dict[int, Status]
    """The rules, by position, that have fired so far, with the verdict of their stop round."""
    rounds: int


def run(
    spec: RunSpec,
    out: str | os.PathLike[str] = "runs",
    *,
    rounds: int = 500,
    watch: Sequence[Candidate] | None = None,
    stop: str = "all",
    workers: int | None = None,
    device: str | None = None,
    data_root: str | None = None,
    progress: Callable[[Progress], None] | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Trains until the watched rules have fired (`stop`: all, first or never) or the budget is spent.

    Returns the summary that is also in the run's folder. A run that is there already continues at
    its next round; a finished one is only read.
    """
    whole("rounds", rounds)
    known("stop", stop, ("all", "first", "never"))
    watch = list(watch) if watch is not None else candidates(["growth"], {})
    for candidate in watch:
        if not spec.evaluate_every and any(column in EVALUATED for column in candidate.rule.reads):
            raise FedhaltError(f"{candidate.name} reads validation scores: set evaluate_every to 1 or more")
    path, watcher = Path(out) / spec.id, _Watcher(watch, stop, rounds)
    with _workers(workers, device) as (each, place):
        federation = None if path.exists() else Federation(spec, data_root, place)  # a mistake leaves no folder
        folder = RunFolder(path, spec)
        try:
            watcher.replay(folder.trajectory.rows)
            if not watcher.ended:
                federation = federation or Federation(spec, data_root, place)
                _train(federation, folder, watcher, each, progress, interrupted)
            summary = _summary(folder, watcher)
            folder.write_summary(summary)
            return summary
        finally:
            folder.close()


def _train(
    federation: Federation,
    folder: RunFolder,
    watcher: _Watcher,
    each: Callable[..., Any],
    progress: Callable[[Progress], None] | None,
    interrupted: Callable[[], bool],
) -> None:
    folder.check_origin(federation.origin())
    resume = folder.resume()
    if resume is not None:
        to = federation.device
        state, shared = ({name: v.to(to) for name, v in part.items()} for part in resume[1:])
        resume = (resume[0], state, shared)
    meter = Meter(federation.theta0(), MEASURED)
    if resume is not None:
        meter.keep(meter.leaves(resume[1]["x"]))
    begin, before = time.perf_counter(), watcher.distance
    for done in engine.rounds(federation.method(), federation, resume=resume, memory=folder.memory, each=each):
        row = _row(federation, done, meter, each, before)
        row["seconds"] = round(time.perf_counter() - begin, 4)
        begin, before = time.perf_counter(), row["distance"]
        for candidate in watcher.step(row):  # before the commit: a committed stop has its model
            tensors = federation.state_dict(done.state["x"], done.shared)
            folder.save_model(file_name(candidate), tensors, {"round": str(done.round), "rule": str(candidate)})
        folder.commit(done, row)
        meter.keep(meter.leaves(done.state["x"]))
        if progress is not None:
            shown = time.perf_counter()
            progress(Progress(row, watcher.statuses, watcher.fired, watcher.rounds))
            begin += time.perf_counter() - shown  # a display or a tracker is no part of the next round
        if watcher.ended or interrupted():
            return


def _row(
    federation: Federation, done: engine.Round, meter: Meter, each: Callable[..., Any], before: float | None
) -> dict[str, Any]:
    """Everything that is recorded of a round."""
    x, spec = done.state["x"], federation.spec
    measured = meter.measure(meter.leaves(x))
    growth = None if before is None else relative(abs(measured["distance"] - before), before)
    row = {
        "round": done.round,
        **measured,
        "growth": growth,
        "lr": federation.rate(done.round),
        "clip_fraction": done.clipped / max(1, sum(done.steps)),
        "bytes_down": done.down * x.element_size(),
        "bytes_up": done.up * x.element_size(),
        "cohort": list(done.cohort),
        "steps": done.steps,
    }
    if spec.evaluate_every and done.round % spec.evaluate_every == 0:
        row |= federation.evaluate(x, done.shared, each)
    elif spec.evaluate_every:
        row |= dict.fromkeys(EVALUATED)
    return row


class _Watcher:
    """Steps the watched rules over rows, recorded or fresh, and says when the run ends."""

    def __init__(self, watch: Sequence[Candidate], stop: str, rounds: int) -> None:
        self.watch, self.stop, self.rounds = watch, stop, rounds
        self.explained = [motion.Explained(candidate.rule) for candidate in watch]
        self.states = [rule.begin() for rule in self.explained]
        self.fired: dict[int, Status] = {}
        self.statuses: list[Status] = []
        self.round = 0
        self.distance: float | None = None
        self.diverged = False

    def replay(self, rows: list[dict[str, Any]]) -> None:
        """Steps over a record up to the round in which this run would have ended."""
        for row in rows:
            if self.ended:
                break
            self.step(row)

    def step(self, row: dict[str, Any]) -> list[Candidate]:
        """The rules that fired for the first time in this round."""
        self.round, self.distance = row["round"], row["distance"]
        self.diverged = self.diverged or not math.isfinite(row["distance"])
        fresh, self.statuses = [], []
        for index, candidate in enumerate(self.watch):
            self.states[index], status = self.explained[index].step(self.states[index], row)
            self.statuses.append(status)
            if status.stop and index not in self.fired:
                self.fired[index] = status
                fresh.append(candidate)
        return fresh

    @property
    def stopped(self) -> bool:
        """Whether the rules end the run."""
        if self.stop == "never" or not self.watch:
            return False
        return len(self.fired) >= (1 if self.stop == "first" else len(self.watch))

    @property
    def ended(self) -> bool:
        return self.round >= self.rounds or self.stopped or self.diverged


def _summary(folder: RunFolder, watcher: _Watcher) -> dict[str, Any]:
    watch, record = watcher.watch, Trajectory(folder.trajectory.rows[: watcher.round])
    rows = record.rows
    judged = [judge(os.fspath(folder.path), record, candidate) for candidate in watch] if rows else []
    found = [
        {**{key: verdict[key] for key in KEPT},
         "model": folder.model(file_name(candidate)) if verdict["stop_round"] else None}
        for candidate, verdict in zip(watch, judged, strict=bool(rows))
    ]  # fmt: skip
    moved = motion.of(rows)
    reasons = [status.reason for status in watcher.fired.values()]
    reason = "diverged" if watcher.diverged else "budget" if watcher.round >= watcher.rounds else "interrupted"
    if watcher.stopped:
        reason = " and ".join(dict.fromkeys(reasons))
    return {
        "run": os.fspath(folder.path),
        "rounds": watcher.round,
        "stop_round": watcher.round if watcher.stopped or watcher.diverged else None,
        "reason": reason,
        "distance": rows[-1]["distance"] if rows else None,
        "exponent": moved.exponent,
        "motion": moved.word,
        "metrics": metrics(rows[-1]) if rows else {},
        "rules": found,
    }


def file_name(candidate: Candidate) -> str:
    """A rule and its settings as a file name: growth-threshold-0.01-patience-10."""
    return "-".join([candidate.name, *(f"{key}-{value}" for key, value in candidate.settings.items())])


@contextlib.contextmanager
def _workers(workers: int | None, device: str | None) -> Iterator[tuple[Callable[..., Any], str]]:
    """One single-thread worker per core, or the GPU if there is one."""
    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:
        raise FedhaltError(
            f"device {place!r} cannot be used here ({str(error).splitlines()[0]:.100}); try cpu"
        ) from None
    number = whole("workers", workers) if workers is not None else (os.cpu_count() or 1 if place == "cpu" else 1)
    threads, flushing = torch.get_num_threads(), float(torch.tensor(1e-40) * 1) == 0
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # a fitted head has gradients below 1e-38, with which a core is ten times slower
    try:
        if number == 1:
            yield map, place
        else:
            with ThreadPoolExecutor(number, initializer=torch.set_flush_denormal, initargs=(True,)) as pool:
                yield pool.map, place
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushing)
