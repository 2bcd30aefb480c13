"""What the callbacks of ordinary training share: when to look at the model, and a state inside others' checkpoints."""

from __future__ import annotations

import numbers
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, Unpack, cast

from ..errors import FedhaltError, flag, whole
from ..measure.distance import MEASURED
from ..measure.tail import COLUMNS
from ..stopper import STATE
from .host import StateFolder, show_lines
from .seam import FurtherOptions, Options, Watch

OURS = {"self", "params", "epoch", "step", "round", *MEASURED, *COLUMNS}
"""Names of columns that a framework's metric cannot have."""

NONE: Mapping[str, Any] = MappingProxyType({})


class TrainingWatch(Watch):
    """A training that is looked at once an epoch, or every so many steps: each look is a round.

    Args:
        framework: The framework's logger.
        every: "epoch", or a number of optimizer steps.
        load_average: Whether the averaged model replaces the trained one in the end.
        **options: See `Options`.

    Raises:
        FedhaltError: If an option is out of range.
    """

    def __init__(self, framework: str, every: int | str, load_average: bool, **options: Unpack[Options]) -> None:
        if isinstance(every, str) and every != "epoch":
            raise FedhaltError(f"every must be 'epoch' or a number of steps such as 100, not {every!r}")
        self._every = None if every == "epoch" else whole("every", every)
        self.loads = flag("load_average", load_average)
        self._begins = False
        super().__init__(framework, **options)
        if load_average and self.average is None:
            raise FedhaltError("load_average=True needs an average to load: give average=10, or leave it out")
        self._known: set[str] = set()

    def begin(self, start: Any, budget: int | None = None, done: int | None = None) -> None:
        self._begins = True
        super().begin(start, budget, done)

    def _require_no_record(self) -> None:
        """Only once a run begins: before, it may be one that goes on from a checkpoint."""
        if self._begins:
            super()._require_no_record()

    def look(self, params: Any, columns: Mapping[str, Any] = NONE, *, epoch: int = 0, step: int = 0) -> bool:
        """Judges the model if it is time to, and says whether the training ends. A verdict to stop stands.

        Args:
            params: The model.
            columns: Other numbers to record.
            epoch: How many epochs are complete, at the end of one.
            step: How many steps are, at the end of one.
        """
        if self.due(epoch, step):
            self._known |= columns.keys()
            # a metric that this round has not is None, one that never was is an error
            missing = dict.fromkeys((set(self.rule.reads) & self._known) - columns.keys())
            self.update(params, round=self.reached(epoch, step), **missing, **columns)
        return self.stopped

    def due(self, epoch: int = 0, step: int = 0) -> bool:
        """Whether there is a round to judge."""
        return not self.stopped and self.reached(epoch, step) > self.begun.round

    def reached(self, epochs: int, steps: int) -> int:
        """The rounds in so many epochs or steps."""
        return epochs if self._every is None else steps // self._every

    def planned(self, epochs: int, steps: int) -> int | None:
        """The budget; None where the framework does not know it."""
        found = self.reached(epochs, steps)
        return found if found > 0 else None

    def save_in(self, folder: Path) -> None:
        """Saves the stopper beside what the framework has saved."""
        self.begun.save(folder)

    def load_from(self, folder: Path) -> None:
        """Goes on from what `save_in` wrote."""
        if not (folder / STATE).exists():
            raise FedhaltError(f"{folder} holds no state of a stopper: {STATE} is missing")
        show_lines(self.framework)
        self.resume(cast(StateFolder, SimpleNamespace(path=folder)))
        self._known = set(self.rule.reads) - OURS

    def pack(self) -> dict[str, bytes]:
        """The state as named bytes, for a checkpoint that is one file."""
        with tempfile.TemporaryDirectory(prefix="fedhalt-checkpoint-") as folder:
            self.save_in(Path(folder))
            return {file.name: file.read_bytes() for file in Path(folder).iterdir() if file.is_file()}

    def unpack(self, packed: Mapping[str, bytes]) -> None:
        """Goes on from what `pack` returned."""
        with tempfile.TemporaryDirectory(prefix="fedhalt-checkpoint-") as folder:
            for name, content in packed.items():
                (Path(folder) / os.path.basename(name)).write_bytes(content)
            self.load_from(Path(folder))

    def forget(self) -> None:
        """Another run follows."""
        self.stopper = self.status = None

    def keep_no_record(self) -> None:
        """For all processes of a distributed training but the first."""
        self.trajectory = None
        if self.stopper is not None:
            self.stopper.trajectory = None


def refuse_state(options: FurtherOptions, where: str) -> None:
    """For frameworks whose checkpoints hold the state: a second copy could be at another place."""
    if options.get("state") is not None:
        raise FedhaltError(f"state={options['state']!r} is not needed, leave it out: {where} hold the stopper's state")


def columns_of(metrics: Mapping[str, Any]) -> dict[str, float]:
    """A framework's metrics as columns of the record; a name that is ours gets `metric_` before it.

    >>> columns_of({"val_loss": 0.5, "distance": 3, "note": "text", "fedhalt/growth": 0.1})
    {'val_loss': 0.5, 'metric_distance': 3.0}
    """
    found = {}
    for name, value in metrics.items():
        number = isinstance(value, numbers.Real) or getattr(value, "ndim", None) == 0
        if number and not isinstance(value, (bool, str)) and not name.startswith("fedhalt/"):
            found[f"metric_{name}" if name in OURS else name] = float(value)
    return found
