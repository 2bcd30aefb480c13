"""Rounds in the trackers people already use: the same names in each, every round once, nothing over the network."""

from __future__ import annotations

import fcntl
import importlib.util
import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar

from . import files
from .check import FedhaltError, MissingExtra, known
from .judge import Candidate, metrics
from .rules import motion
from .trajectory import Trajectory


class Tracker(ABC):
    """One run in one tracker; `last` is the last round that it holds already."""

    package: ClassVar[str]
    last: int = 0

    @abstractmethod
    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        """Opens the run that belongs to a run folder, or makes it."""

    @abstractmethod
    def log(self, r: int, values: Mapping[str, float]) -> None:
        """Writes one round."""

    @abstractmethod
    def close(self) -> None:
        """Everything is on the disk."""


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
        with open(base / ".mlflow.lock", "w") as lock:  # parallel trials must not all create the database
            fcntl.flock(lock, fcntl.LOCK_EX)
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
    """Offline runs in RUN/wandb, one for every time it was continued: `wandb sync --append RUN/wandb/offline-run-*`."""

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


def available(names: Sequence[str]) -> list[type[Tracker]]:
    """The trackers of these names, each once, if their packages are installed."""
    kinds = [TRACKERS[known("tracker", name, TRACKERS)] for name in dict.fromkeys(names)]
    for kind in kinds:
        if importlib.util.find_spec(kind.package) is None:
            raise MissingExtra(f"--track {kind.package}", kind.package, kind.package)
    return kinds


class Tracking:
    """Tells trackers of a run's rounds: first those that are recorded and missing there, then each as it comes.

    Besides what is recorded there is the local exponent, and a rule's stop as the value `stop_round/RULE` in the round
    in which it fires.
    """

    def __init__(
        self, names: Sequence[str], folder: Path, watch: Sequence[Candidate], config: Mapping[str, Any]
    ) -> None:
        self.kinds = available(names)
        self.folder, self.config = folder, {**config, "rules": [str(candidate) for candidate in watch]}
        self.states: list[Any] = [candidate.rule.begin() for candidate in watch]  # None once its rule has fired
        self.motion = motion.begin()
        self.watch = list(watch)
        self.trackers: list[Tracker] | None = None

    def __enter__(self) -> Tracking:
        return self

    def __call__(self, row: Mapping[str, Any]) -> None:
        """After a round; its row is in the record already."""
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
        """Opens the trackers if they are not, and tells them what is recorded; whether it did."""
        record = self.folder / "trajectory.jsonl"
        if self.trackers is not None or not self.kinds or not record.exists():
            return False
        self.trackers = [kind(self.folder, self.config) for kind in self.kinds]
        for row in Trajectory.load(record).rows:
            self._log(row)
        return True

    def _log(self, row: Mapping[str, Any]) -> None:
        values = dict(metrics(row))
        self.motion, moved = motion.step(self.motion, row["round"], row)
        if moved.exponent is not None:
            values["exponent"] = moved.exponent
        for index, candidate in enumerate(self.watch):
            if self.states[index] is not None:
                after, status = candidate.rule.step(self.states[index], row)
                self.states[index] = None if status.stop else after
                if status.stop:
                    values[f"stop_round/{candidate.name}"] = float(status.round)
        for tracker in self.trackers or []:
            if row["round"] > tracker.last:
                tracker.log(row["round"], values)


def steps(file: Path) -> Iterator[int]:
    """The steps in an offline file of Weights & Biases."""
    for entry in records(file):
        if entry.WhichOneof("record_type") == "history":
            yield entry.history.step.num


def records(file: Path) -> Iterator[Any]:
    """The records of such a file: a header of 7 bytes, then LevelDB's log format, cut off where a kill cut it."""
    from wandb.proto import wandb_internal_pb2

    protocol: Any = wandb_internal_pb2
    data, block, head = file.read_bytes(), 32_768, 7
    place, parts = head, b""
    while place + head <= len(data):
        if block - place % block < head:  # too little room for another head: the block is padded
            place += block - place % block
            continue
        size, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        parts += data[place + head : place + head + size]
        place += head + size
        if place > len(data) or kind == 0:
            return
        if kind in (1, 4):  # whole, or the last part
            entry = protocol.Record()
            try:
                entry.ParseFromString(parts)
            except Exception as error:
                raise FedhaltError(f"{file} is damaged: {error}") from None
            yield entry
            parts = b""
