"""transformers: a TrainerCallback that ends training and fine-tuning, and averages the last models.

The stopper is saved in every checkpoint of the Trainer (`checkpoint-N/fedhalt`), and resumes from there.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Unpack

from ..errors import FedhaltError
from ..stopper import STATE
from .host import LOG
from .seam import FurtherOptions, require
from .training import TrainingWatch, refuse_state

require("transformers", "transformers", "5.23", "5.23")

import torch  # noqa: E402
from transformers import TrainerCallback  # noqa: E402

from .torch import load_average  # noqa: E402

__all__ = ["EarlyStopping"]


class EarlyStopping(TrainerCallback):
    """Ends training when the distance of the model from its pretrained weights grows no more.

    Args:
        threshold: The threshold of the paper's rule. Default: 0.01.
        patience: For how many rounds in a row growth must stay below the threshold. Default: 10.
        every: What a round is: "epoch" (default), or a number of optimizer steps.
        load_average: Whether to put the averaged model into the model when training ends. Default: False.
        **options: See `fedhalt.integrations.seam.Options`; without `state`.

    Raises:
        FedhaltError: If an option is out of range.

    Examples:
        >>> from fedhalt.integrations.transformers import EarlyStopping
        >>> stopping = EarlyStopping(threshold=0.01, patience=3, every=100, average=5)
        >>> stopping.status is None  # then: Trainer(model, args, callbacks=[stopping]).train()
        True
    """

    def __init__(
        self,
        threshold: float | None = None,
        patience: int | None = None,
        *,
        every: int | str = "epoch",
        load_average: bool = False,
        **options: Unpack[FurtherOptions],
    ) -> None:
        refuse_state(options, "the Trainer's checkpoints")
        self.watch = TrainingWatch(
            "transformers", every, load_average, threshold=threshold, patience=patience, **options
        )
        self._model: torch.nn.Module | None = None
        self._result: dict[str, Any] | None = None

    @property
    def status(self) -> Any:
        """The verdict on the last round, None before the first."""
        return self.watch.status

    def averaged_model(self) -> torch.nn.Module:
        """A copy of the model with the mean of the last models in it.

        Returns:
            A new model; the Trainer's stays as it is.

        Raises:
            FedhaltError: If no average is kept, or there was no round yet.
        """
        model: torch.nn.Module = self.watch.model("average", like=self._model)
        return model

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The pretrained weights are the start; a resumed run continues from its checkpoint."""
        if args.deepspeed or args.fsdp:
            raise FedhaltError(
                "with deepspeed or fsdp every process holds a part of the model only: give "
                "EarlyStopper().observe(distance) the shards' squared_distance yourself"
            )
        self._model, self._result = kwargs["model"], None
        if not state.is_world_process_zero:
            self.watch.keep_no_record()
        if state.global_step == 0:
            self.watch.begin(self._model, self.watch.planned(state.num_train_epochs, state.max_steps))
        else:
            self.watch.load_from(_folder(args, state))
            if not state.is_world_process_zero:
                self.watch.keep_no_record()
            # a checkpoint at the last step of an epoch is written before the epoch ends
            self.watch.look(self._model, epoch=_epochs(state), step=state.global_step)
        if self.watch.stopped:
            # the Trainer asks no callback before it has trained a step, which is undone
            self._result = copy.deepcopy(self._model.state_dict())

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Looks at the model, if a round is a number of steps."""
        if self._result is not None:
            kwargs["model"].load_state_dict(self._result)
        control.should_training_stop |= self.watch.look(kwargs["model"], step=state.global_step)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Looks at the model, if a round is an epoch, and a whole one."""
        control.should_training_stop |= self.watch.look(kwargs["model"], epoch=_epochs(state))

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Saves the stopper in the checkpoint that was just written."""
        if state.is_world_process_zero:
            checkpoint = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            if checkpoint.is_dir():
                self.watch.save_in(checkpoint / "fedhalt")
            else:
                LOG.warning("fedhalt: %s is not there, so the stopper's state is not saved", checkpoint)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Puts the average into the model, if that was asked for."""
        if self.watch.loads and self.watch.averages:
            load_average(self.watch, kwargs["model"])


def _epochs(state: Any) -> int:
    """How many epochs are complete."""
    return int(state.epoch + 1e-6)


def _folder(args: Any, state: Any) -> Path:
    """Where the checkpoint that is resumed keeps the stopper."""
    own = Path(args.output_dir) / f"checkpoint-{state.global_step}"
    given = args.resume_from_checkpoint
    places = [Path(given) if isinstance(given, str) and Path(given).is_dir() else own, own]
    for place in places:
        if (place / "fedhalt" / STATE).exists():
            return place / "fedhalt"
    raise FedhaltError(
        f"{places[0]} holds no stopper, perhaps because the training was killed before it was saved: resume from an "
        "earlier checkpoint, name it as TrainingArguments(resume_from_checkpoint=…) if it is in another folder, or "
        "begin a new training from its weights"
    )
