"""Rounds in the trackers that people already use: the same names in each, every round once, nothing over the
network.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

from .. import files
from ..errors import MissingExtra, require_one_of
from ..records.judging import metrics
from ..records.trajectory import Trajectory
from ..rules import NamedRule, Stepper
from .wandb_files import steps

__all__ = ["TRACKERS", "Tracker", "Trackers", "Tracking", "available"]


class Tracker(ABC):
    """One run in one tracker.

    Args:
        folder: The run's folder.
        config: The configuration to store.

    Attributes:
        package: The package that it needs.
        last: The last round that it already holds.

    Examples:
        >>> from fedhalt.integrations.trackers import TRACKERS, Tracker
        >>> issubclass(TRACKERS["mlflow"], Tracker)
        True
    """

    package: ClassVar[str]
    last: int = 0

    @abstractmethod
    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        """Opens the tracker's run for a run folder, or creates it."""

    @abstractmethod
    def log(self, r: int, values: Mapping[str, float]) -> None:
        """Writes one round.

        Args:
            r: The round.
            values: The numbers by name.
        """

    @abstractmethod
    def close(self) -> None:
        """Returns once everything is on disk."""


class TensorBoard(Tracker):
    """Event files in RUN/tensorboard: `tensorboard --logdir runs`."""

    package = "tensorboard"

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from torch.utils.tensorboard import SummaryWriter

        there = folder / "tensorboard"
        if there.exists():
            found = EventAccumulator(os.fspath(there)).Reload()
            self.last = max((found.Scalars(tag)[-1].step for tag in found.Tags()["scalars"]), default=0)
        self.writer: Any = SummaryWriter(os.fspath(there))
        if not self.last:
            self.writer.add_text("config", f"```\n{files.to_json(config)}\n```")

    def log(self, r: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.writer.add_scalar(name, value, r)
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()


class MLflow(Tracker):
    """A run of the experiment `fedhalt` in OUT/mlflow.db, or where MLFLOW_TRACKING_URI says."""

    package = "mlflow"

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow.entities import Param
        from mlflow.tracking import MlflowClient

        logging.getLogger("mlflow").setLevel(logging.WARNING)  # it would announce every table it makes
        base = folder.parent.absolute()
        # parallel trials must not all create the database
        with files.Lock(base, wait=True, name=".mlflow.lock"):
            self.client = MlflowClient(os.environ.get("MLFLOW_TRACKING_URI", f"sqlite:///{base / 'mlflow.db'}"))
            experiment = self.client.get_experiment_by_name("fedhalt")
            artifacts = (base / "mlartifacts").as_uri()
            number = experiment.experiment_id if experiment else self.client.create_experiment("fedhalt", artifacts)
            found = self.client.search_runs([number], f"tags.`fedhalt.run` = '{folder.name}'")
            tags = {"fedhalt.run": folder.name}
            self.run = found[0] if found else self.client.create_run(number, run_name=folder.name, tags=tags)
        self.id = self.run.info.run_id
        if found:
            self.last = max((point.step for point in self._history()), default=0)
        else:
            texts = {key: value if isinstance(value, str) else files.to_json(value) for key, value in config.items()}
            self.client.log_batch(self.id, params=[Param(key, text[:6000]) for key, text in texts.items()])

    def _history(self) -> Iterator[Any]:
        for name in self.run.data.metrics:
            yield from self.client.get_metric_history(self.id, name)

    def log(self, r: int, values: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        self.client.log_batch(self.id, metrics=[Metric(name, float(value), now, r) for name, value in values.items()])

    def close(self) -> None:
        self.client.set_terminated(self.id)


class WandB(Tracker):
    """Offline runs in RUN/wandb, a new one for every resume: `wandb sync --append RUN/wandb/offline-run-*`."""

    package = "wandb"

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        import wandb

        self.folder = folder
        self.last = self.logged = self._written()
        settings = wandb.Settings(silent=True, console="off", x_disable_stats=True)
        self.run: Any = wandb.init(
            mode="offline", project="fedhalt", id=folder.name, name=folder.name, dir=os.fspath(folder),
            config=dict(config), settings=settings, reinit="create_new",
        )  # fmt: skip

    def log(self, r: int, values: Mapping[str, float]) -> None:
        self.run.log(dict(values), step=r)
        self.logged = r

    def close(self) -> None:
        self.run.finish()
        deadline = time.monotonic() + 10
        while self._written() < self.logged and time.monotonic() < deadline:
            time.sleep(0.02)  # its service writes the last block a moment after `finish` has returned

    def _written(self) -> int:
        written = self.folder.glob("wandb/offline-run-*/*.wandb")
        return max((step for file in written for step in steps(file)), default=0)


TRACKERS: dict[str, type[Tracker]] = {"tensorboard": TensorBoard, "mlflow": MLflow, "wandb": WandB}
"""The trackers by name."""


def available(names: Sequence[str]) -> list[type[Tracker]]:
    """The trackers with these names, if their packages are installed.

    Args:
        names: The names.

    Returns:
        The classes, without duplicates.

    Raises:
        FedhaltError: If a name is unknown.
        MissingExtra: If a package is not installed.

    Examples:
        >>> from fedhalt.integrations.trackers import available
        >>> available([])
        []
    """
    kinds = [TRACKERS[require_one_of("tracker", name, TRACKERS)] for name in dict.fromkeys(names)]
    for kind in kinds:
        if importlib.util.find_spec(kind.package) is None:
            raise MissingExtra(f"--track {kind.package}", kind.package, kind.package)
    return kinds


class Tracking:
    """Sends a run's rounds to trackers: first the recorded ones that are missing there, then each new one.

    Besides the recorded columns, it sends the local exponent and, in the round in which a rule fires,
    `stop_round/RULE`.

    Args:
        names: The names of the trackers.
        folder: The run's folder.
        watch: The rules.
        config: The configuration to store.

    Raises:
        FedhaltError: If a name is unknown, or its package is not installed.

    Examples:
        >>> from pathlib import Path
        >>> from fedhalt.integrations.trackers import Tracking
        >>> with Tracking([], Path("runs/mine"), [], {}) as tell:
        ...     tell({"round": 1, "distance": 1.0})
    """

    def __init__(
        self, names: Sequence[str], folder: Path, watch: Sequence[NamedRule], config: Mapping[str, Any]
    ) -> None:
        self.kinds = available(names)
        self.folder, self.config = folder, {**config, "rules": [str(named) for named in watch]}
        self.stepper = Stepper([named.rule for named in watch])
        self.watch = list(watch)
        self.trackers: list[Tracker] | None = None

    def __enter__(self) -> Tracking:
        return self

    def __call__(self, row: Mapping[str, Any]) -> None:
        """Sends a round that has already been recorded.

        Args:
            row: The columns of the round.
        """
        if not self._opened():
            self._log(row)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or self.trackers is not None:
            self._opened()
        for tracker in self.trackers or []:
            tracker.close()

    def _opened(self) -> bool:
        """Opens the trackers if needed and sends what is recorded; returns whether it did."""
        record = self.folder / "trajectory.jsonl"
        if self.trackers is not None or not self.kinds or not record.exists():
            return False
        self.trackers = [kind(self.folder, self.config) for kind in self.kinds]
        for row in Trajectory.load(record).rows:
            self._log(row)
        return True

    def _log(self, row: Mapping[str, Any]) -> None:
        values = dict(metrics(row))
        fresh = self.stepper.step(row)
        if self.stepper.motion.exponent is not None:
            values["exponent"] = self.stepper.motion.exponent
        for index in fresh:
            values[f"stop_round/{self.watch[index].name}"] = float(row["round"])
        for tracker in self.trackers or []:
            if row["round"] > tracker.last:
                tracker.log(row["round"], values)


@dataclass(frozen=True)
class Trackers:
    """Trackers for every trial of a sweep: `sweep(plan, observers=[Trackers(("mlflow",))])`.

    Args:
        names: The names of the trackers.

    Raises:
        FedhaltError: If a name is unknown, or its package is not installed.

    Examples:
        >>> from fedhalt.integrations.trackers import Trackers
        >>> Trackers(())
        Trackers(names=())
    """

    names: Sequence[str]

    def __post_init__(self) -> None:
        available(self.names)

    def __call__(self, folder: Path, rules: Sequence[NamedRule], config: Mapping[str, Any]) -> Tracking:
        return Tracking(self.names, folder, rules, config)
