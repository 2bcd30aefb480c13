"""How much each run of StopBench 2 counts, and which runs are drawn together by its bootstrap."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from .runs import Run
from .score import DRAWS, Array


def task_of(run: Run) -> str:
    """The data; those by site are a task of their own."""
    return run.task + (" by site" if run.spec.get("skew") == "natural" else "")


def model_of(run: Run) -> tuple[Hashable, ...]:
    """The stratum: a task with its model."""
    return task_of(run), run.spec.get("model")


def cluster_of(run: Run) -> tuple[Hashable, ...]:
    """What is drawn together: the seeds, rates, cohorts and decays of a task, model, method and skew."""
    return (*model_of(run), *(run.spec.get(key) for key in ("method", "skew", "c")))


def weights_of(runs: Sequence[Run]) -> Array:
    """Tasks count equally, within a task models, within a model runs; the sum is 1."""
    shares = _strata_shares(runs)
    strata = [model_of(run) for run in runs]
    return np.array([shares[stratum] / strata.count(stratum) for stratum in strata])


def draws(runs: Sequence[Run], number: int = DRAWS, seed: int = 0) -> Array:
    """How much each run counts in each bootstrap draw; in the first draw by its own weight.

    Clusters are drawn with replacement within each task and model, whose weight stays the same in every draw.
    """
    rng = np.random.default_rng(seed)
    drawn = np.zeros((number, len(runs)))
    for stratum, share in _strata_shares(runs).items():
        members = [n for n, run in enumerate(runs) if model_of(run) == stratum]
        names = list(dict.fromkeys(cluster_of(runs[n]) for n in members))
        times = rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=number)
        part = times[:, [names.index(cluster_of(runs[n])) for n in members]].astype(float)
        drawn[:, members] = share * part / part.sum(axis=1, keepdims=True)
    return np.concatenate([weights_of(runs)[None], drawn])


def _strata_shares(runs: Sequence[Run]) -> dict[tuple[Hashable, ...], float]:
    """The weight of each task and model."""
    strata = list(dict.fromkeys(map(model_of, runs)))
    tasks = [stratum[0] for stratum in strata]
    return {stratum: 1 / len(set(tasks)) / tasks.count(stratum[0]) for stratum in strata}


def rate_words(runs: Sequence[Run]) -> NDArray[np.str_]:
    """Whether each run's local rate was meant to be too small, good or too large."""
    return np.array([_rate_word(str(run.spec.get("model")), float(run.spec.get("lr", np.nan))) for run in runs])


def _rate_word(model: str, rate: float) -> str:
    """A pretrained network that is fine-tuned whole wants a smaller rate: in its pilot 0.03 only guessed."""
    small, large = (1e-3, 1.0) if model == "cnn" or model.startswith("probe:") else (1e-4, 0.03)
    return "too large" if rate >= large else "too small" if rate <= small else "good"
