"""The summary of a run: `run` returns it, and RUN/summary.json holds it, with a checksum."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from ..records.judging import Verdict


@dataclass(frozen=True)
class RuleSummary:
    """Where one of the rules stopped the run, with the model of that round.

    Attributes:
        rule: The name of the rule.
        threshold: Its threshold, if it has one.
        patience: Its patience, if it has one.
        stop_round: The round at which it stopped, or None.
        reason: Why it stopped; empty if it did not.
        exponent: The local exponent at the stop.
        motion: The word for it.
        metrics: The recorded numbers of the stop round.
        accuracy: The mean of the last five evaluated rounds up to the stop, or up to the end if it never stops.
        accuracy_average: The accuracy of the averaged model at the stop, if an average was asked for.
        average: The file with the averaged model.
        model: The file with the model of the stop round, or with the last finite one if that round's is not finite.

    Examples:
        >>> import tempfile
        >>> from fedhalt.simulation import RunSpec, run
        >>> spec = RunSpec(data="digits", clients=10, cohort=2, epochs=1, lr=0.05, c=1.0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     rule = run(spec, folder, rounds=1, workers=1).rules[0]
        >>> rule.rule, rule.threshold, rule.stop_round
        ('growth', 0.01, None)
    """

    rule: str
    threshold: float | None
    patience: int | None
    stop_round: int | None
    reason: str
    exponent: float | None
    motion: str
    metrics: dict[str, float]
    """The recorded numbers of the stop round."""
    model: str | None
    accuracy: float | None = None
    accuracy_average: float | None = None
    average: str | None = None

    @classmethod
    def of(cls, verdict: Verdict, model: str | None, average: str | None) -> RuleSummary:
        """Makes a summary from a verdict on the run's own record and the models that were kept."""
        own: dict[str, Any] = {"model": model, "average": average, "accuracy_average": verdict.average}
        taken = [field.name for field in dataclasses.fields(cls) if field.name not in own]
        return cls(**{name: getattr(verdict, name) for name in taken}, **own)


@dataclass(frozen=True)
class RunSummary:
    """How far a run got, why it ended, and what each rule said.

    Attributes:
        run: The run's folder.
        rounds: The last round.
        stop_round: The round at which the rules, or a model that is not finite, ended the run.
        reason: The reason of the rules; or "diverged", "budget", "interrupted".
        distance: The distance from the start after the last round.
        exponent: The local exponent at the last round.
        motion: The word for it.
        metrics: The recorded numbers of the last round.
        accuracy: The mean of the last five evaluated rounds.
        rules: What each rule said.
        model: The file with the last model if no rule chose one: the final one, or the last finite one.
        budget: The rounds that the run was allowed, by the latest call.
        average: The file with the average of the last rounds beside `model`, if one was asked for.
        drift: drift_10 of the last round: how far ten rounds move, compared with how much they scatter.

    Examples:
        >>> import tempfile
        >>> from fedhalt.simulation import RunSpec, run
        >>> spec = RunSpec(data="digits", clients=10, cohort=2, epochs=1, lr=0.05, c=1.0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     summary = run(spec, folder, rounds=1, workers=1)
        >>> [rule.rule for rule in summary.rules], 0 <= summary.metrics["test_accuracy"] <= 1
        (['growth'], True)
    """

    run: str
    """The run's folder."""
    rounds: int
    stop_round: int | None
    """The round at which the rules, or a model that is not finite, ended the run."""
    reason: str
    """The reason of the rules; or diverged, budget, interrupted."""
    distance: float | None
    exponent: float | None
    motion: str
    metrics: dict[str, float]
    """The recorded numbers of the last round."""
    accuracy: float | None
    """Mean of the last five evaluated rounds."""
    rules: tuple[RuleSummary, ...]
    model: str | None = None
    """The file with the run's last model where no rule chose one: the final one, or the last finite one."""
    budget: int | None = None
    """The rounds that the run was allowed; the latest call counts."""
    average: str | None = None
    """The file with the average of the last rounds beside `model`, where one was asked for."""
    drift: float | None = None
    """drift_10 of the last round: how far ten rounds go against how much they scatter."""

    def to_json(self) -> dict[str, Any]:
        """The summary as it is in summary.json and in `fedhalt run --json`.

        Returns:
            A dict that can be stored as JSON.
        """
        return dataclasses.asdict(self)
