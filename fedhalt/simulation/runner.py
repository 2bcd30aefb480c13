"""One training run: rounds, records, verdicts, and resuming where a killed process stopped."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import MissingExtra, require_one_of, whole

try:
    import torch
except ImportError:
    raise MissingExtra("fedhalt.simulation", "torch", "sim") from None

from ..measure.average import make_average
from ..methods.vector import Vectors
from ..records.judging import DRIFT, Verdict, accuracy_at, metrics
from ..records.trajectory import Trajectory
from ..rules import NamedRule, Status, named_rules
from ..rules.base import relative
from . import engine
from .evaluation import EVALUATE, VALIDATION, check_curves, check_evaluation, evaluated
from .federation import Federation
from .measured import Measured
from .spec import RunSpec
from .store import RunFolder
from .summary import RuleSummary, RunSummary
from .watcher import Watcher
from .workers import started_workers

STOPS = ("all", "first", "never")
LAST_FINITE = "last-finite"
"""The name of the model that a diverged run keeps."""
AVERAGE = "-average"
"""What the name of a stop's averaged model ends with."""


class Progress(NamedTuple):
    """What a display receives after every round."""

    row: dict[str, Any]
    statuses: list[Status]
    """One per watched rule."""
    fired: dict[int, Status]
    """The rules that have fired so far, by position, with the verdict at their stop round."""
    rounds: int


def run(
    spec: RunSpec,
    out: str | os.PathLike[str] = "runs",
    *,
    rounds: int = 500,
    watch: Sequence[NamedRule] | None = None,
    stop: str = "all",
    workers: int | None = None,
    device: str | None = None,
    data_root: str | None = None,
    progress: Callable[[Progress], None] | None = None,
    interrupted: Callable[[], bool] = lambda: False,
    average: int | str | None = None,
    evaluate: str = "rounds",
) -> RunSummary:
    """Trains until the rules have fired or the budget is spent.

    If the run's folder exists, the run resumes at its next round. A finished run is only read.

    Args:
        spec: What to train.
        out: The folder of run folders.
        rounds: The budget.
        watch: The rules. Default: the paper's.
        stop: When to end: when "all" rules have fired, when the "first" has, or "never" before the end of the budget.
        workers: The number of single-threaded workers. Default: one per core. With gradient "closed" they evaluate.
        device: "cpu" or "cuda". Default: "cuda" if it is available.
        data_root: The folder of the data files. Default: the environment variable FEDHALT_DATA.
        progress: Called after every round.
        interrupted: Called after every round; return True to end the run.
        average: Also evaluate the mean of the last global models, in columns that end in `_average`, and save it beside
            the model of every stop: 10, or "running:10". Training is the same with and without it.
        evaluate: What to evaluate: "rounds" as `spec.evaluate_every` says, or only the models that are kept, "stops",
            where nobody needs curves. Training is the same.

    Returns:
        The summary that is also in the run's folder.

    Raises:
        FedhaltError: If a setting is not valid, the data is missing, or the folder belongs to other data or weights.

    Examples:
        >>> import tempfile
        >>> from fedhalt.simulation import RunSpec, run
        >>> spec = RunSpec(data="digits", clients=10, cohort=2, epochs=1, lr=0.05, c=1.0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     summary = run(spec, folder, rounds=2, workers=1)
        >>> summary.rounds, summary.reason, summary.stop_round
        (2, 'budget', None)
    """
    whole("rounds", rounds)
    if average is not None:
        make_average(average)
    require_one_of("stop", stop, STOPS)
    watch = list(watch) if watch is not None else named_rules(["growth"], {})
    check_evaluation(spec, watch, require_one_of("evaluate", evaluate, EVALUATE))
    path, watcher = Path(out) / spec.id, Watcher(watch, stop, rounds)
    with started_workers(workers, device) as (each, place):
        federation = None if path.exists() else Federation(spec, data_root, place)  # a mistake leaves no folder
        folder = RunFolder(path, spec, rounds)
        try:
            check_curves(folder.path, folder.trajectory.rows, spec, watch)
            watcher.replay(folder.trajectory.rows)
            if not watcher.ended:
                federation = federation or Federation(spec, data_root, place)
                folder.check_origin(federation.origin())
                folder.recover()
                watcher = Watcher(watch, stop, rounds)
                watcher.replay(folder.trajectory.rows)
                read = {column for named in watch for column in named.rule.reads}
                measured = Measured(federation.theta0(), average, read)
                _train(federation, folder, watcher, measured, each, progress, interrupted, evaluate)
                folder.sync()
            summary = _summary(folder, watcher)
            folder.write_summary(summary.to_json())
            return summary
        finally:
            folder.close()


def _train(
    federation: Federation,
    folder: RunFolder,
    watcher: Watcher,
    measured: Measured,
    each: Callable[..., Any],
    progress: Callable[[Progress], None] | None,
    interrupted: Callable[[], bool],
    evaluate: str,
) -> None:
    resume, every = _resumed(folder, measured, federation.device), federation.spec.evaluate_every
    finite = (resume[0], resume[1]["x"], resume[2]) if resume else (0, federation.theta0(), federation.shared())
    begin, before = time.perf_counter(), watcher.distance
    visiting = federation.visiting(each)
    for done in engine.rounds(federation.method(), federation, resume=resume, memory=folder.memory, each=visiting):
        row = _row(federation, done, measured, before)
        if evaluate == "rounds" and every and done.round % every == 0:
            row |= evaluated(federation, done, measured, each)
        fired = watcher.step(row)
        stops = {file_name(named): str(named) for named in fired}
        if watcher.diverged:
            stops = {LAST_FINITE: "diverged"}
        else:
            finite = (done.round, done.state["x"], done.shared)
            if watcher.spent:
                stops[final_name(done.round)] = "budget"
        if evaluate == "stops" and stops:
            row |= evaluated(federation, done, measured, each)
        elif fired and every and row.get("test_loss") is None:
            # between evaluations only on test data: rules on validation data count them, and none may move their stop
            row |= evaluated(federation, done, measured, each, only="test")
        row["seconds"] = round(time.perf_counter() - begin, 4)
        begin, before = time.perf_counter(), row["distance"]
        _keep_models(folder, federation, measured, finite, stops)  # before the commit: a committed stop has its model
        folder.commit(done, row, measured.saved())
        if progress is not None:
            shown = time.perf_counter()
            progress(Progress(row, watcher.stepper.statuses, watcher.fired, watcher.rounds))
            begin += time.perf_counter() - shown  # a display or a tracker is no part of the next round
        if watcher.ended or interrupted():
            return


def _keep_models(
    folder: RunFolder,
    federation: Federation,
    measured: Measured,
    finite: tuple[int, torch.Tensor, Vectors],
    stops: dict[str, str],
) -> None:
    """Saves the last finite model, and the average if there is one, under the name of every stop."""
    r, x, shared = finite
    for name, rule in stops.items():
        about = {"round": str(r), "rule": rule}
        folder.save_model(name, federation.state_dict(x, shared), about)
        if measured.averages:
            mean = federation.state_dict(*measured.mean())
            folder.save_model(f"{name}{AVERAGE}", mean, {**about, "average": str(measured.average)})


def _resumed(folder: RunFolder, measured: Measured, device: str) -> tuple[int, Vectors, Vectors] | None:
    """The last committed round with its state and shared vectors, on the device; None before the first."""
    found = folder.resume()
    if found is None:
        return None
    measured.restore(found.state["x"], found.facts, found.measured)
    state, shared = ({name: vector.to(device) for name, vector in part.items()} for part in (found.state, found.shared))
    return found.round, state, shared


def _row(federation: Federation, done: engine.Round, measured: Measured, before: float | None) -> dict[str, Any]:
    """Everything that is recorded of a round; what was evaluated takes the place of the Nones."""
    x, spec = done.state["x"], federation.spec
    columns = measured.measure(done)
    growth = None if before is None else relative(abs(columns["distance"] - before), before)
    row = {
        "round": done.round,
        **columns,
        "growth": growth,
        "cohort_squares": _known(done.squares),
        "train_loss_before": _known(done.losses[0]),
        "train_loss_after": _known(done.losses[1]),
        "lr": federation.rate(done.round),
        "clip_fraction": done.clipped / max(1, sum(done.steps)),
        "bytes_down": done.down * x.element_size(),
        "bytes_up": done.up * x.element_size(),
        "cohort": list(done.cohort),
        "steps": done.steps,
    }
    return row | dict.fromkeys(VALIDATION) if spec.evaluate_every else row


def _known(value: float) -> float | None:
    """None for what a method does not say."""
    return None if math.isnan(value) else value


def _summary(folder: RunFolder, watcher: Watcher) -> RunSummary:
    rows = Trajectory(folder.trajectory.rows[: watcher.round]).rows
    run, moved = os.fspath(folder.path), watcher.stepper.motion
    ends = [watcher.fired.get(index, last) for index, last in enumerate(watcher.stepper.statuses)]
    judged = [Verdict.of(run, named, rows, end, watcher.rounds)
              for named, end in zip(watcher.watch, ends, strict=bool(rows))]  # fmt: skip
    last = LAST_FINITE if watcher.diverged else final_name(watcher.round) if watcher.spent else None
    finite = (folder.model(LAST_FINITE), folder.model(LAST_FINITE + AVERAGE)) if watcher.diverged else (None, None)
    names = [file_name(named) if end.stop else None for named, end in zip(watcher.watch, ends, strict=bool(rows))]
    models = [(folder.model(name) or finite[0], folder.model(f"{name}{AVERAGE}") or finite[1]) if name else (None, None)
              for name in names]  # fmt: skip
    return RunSummary(
        run=run,
        rounds=watcher.round,
        budget=watcher.rounds,
        stop_round=watcher.round if watcher.stopped or watcher.diverged else None,
        reason=watcher.reason,
        distance=rows[-1]["distance"] if rows else None,
        exponent=moved.exponent,
        motion=moved.word,
        metrics=metrics(rows[-1]) if rows else {},
        accuracy=accuracy_at(rows),
        rules=tuple(RuleSummary.of(verdict, *found) for verdict, found in zip(judged, models, strict=True)),
        model=folder.model(last) if last else None,
        average=folder.model(f"{last}{AVERAGE}") if last else None,
        drift=rows[-1].get(DRIFT) if rows else None,
    )


def final_name(r: int) -> str:
    """The name of the model of a run that spent its budget; a later call may allow more rounds and keep another."""
    return f"final-round-{r}"


def file_name(named: NamedRule) -> str:
    """A rule and its settings as a file name: growth-threshold-0.01-patience-10."""
    name = named.name.replace(">=", "-at-least-").replace("<=", "-at-most-").replace("=", "-")
    return "-".join([name, *(f"{key}-{value}" for key, value in named.settings.items())])
