"""Stops a Fed-BioMed experiment: `run_until(experiment, threshold=0.01, patience=10)` in place of `experiment.run()`.

Fed-BioMed has no hook, but its `run_once` is public: the loop over rounds is ours. A round is judged before its
breakpoint is written, so that a researcher who is killed in between loses no verdict.
"""

from __future__ import annotations

from typing import Any, Unpack

from ..errors import FedhaltError
from .seam import FurtherOptions, Watch, require

require("fedbiomed", "fedbiomed", "6.4", "6.4")

__all__ = ["run_until"]


def run_until(
    experiment: Any, threshold: float | None = None, patience: int | None = None, **options: Unpack[FurtherOptions]
) -> Watch:
    """Runs an experiment until the rule stops it, at most to its round limit; the training plan then has that model.

    An experiment that `Experiment.load_breakpoint` restored resumes where it was, with the folder `state`.

    Args:
        experiment: An `Experiment` with a training plan and a `round_limit`.
        threshold: The threshold of the paper's rule. Default: 0.01.
        patience: For how many rounds in a row growth must stay below the threshold. Default: 10.
        **options: The options that every adapter takes: `fedhalt.integrations.seam.Options`.

    Returns:
        What was watched: `told` says when and why it stopped, `model("average")` is the mean of the last models.

    Raises:
        FedhaltError: If an option is out of range, or the experiment has no round limit.
    """
    limit = experiment.round_limit()
    if limit is None:
        raise FedhaltError("the experiment has no round limit: call experiment.set_round_limit(100)")
    watch = Watch("fedbiomed", threshold=threshold, patience=patience, **options)
    keeps = experiment.save_breakpoints()
    watch.begin(_model(experiment), budget=limit, done=experiment.round_current())
    experiment.set_save_breakpoints(False)
    try:
        while not watch.stopped and experiment.round_current() < limit:
            if not experiment.run_once():
                break
            watch.update(_model(experiment), round=experiment.round_current())
            if keeps:
                experiment.breakpoint()
    finally:
        experiment.set_save_breakpoints(keeps)
        watch.end()
    return watch


def _model(experiment: Any) -> dict[str, Any]:
    """The aggregated parameters, as the training plan has them: what nodes get in the next round."""
    return dict(experiment.training_plan().after_training_params())
