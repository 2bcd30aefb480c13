"""What a killed Flower server needs to resume: a folder with the stopper, the model and the strategy's own state.

    folder/  stopper.json, start-*.safetensors     theta_0 and the rule's state (EarlyStopper.save)
             round-R.json, round-R.safetensors     model, strategy and metrics after round R

A round counts once stopper.json names it: everything else is written before and what it supersedes is deleted after.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import safetensors.numpy
from flwr.serverapp.strategy import Strategy

from ... import files
from ...errors import FedhaltError
from ...measure import tensors
from ...stopper import STATE, EarlyStopper
from ..host import LOG, StateFolder
from .encoding import Arrays, SavedState, decode, encode, fingerprint, is_stateful, is_tensor, loaded

HARMLESS = (Path, Enum, logging.Logger)
"""What strategies hold that training does not change."""

ATTACHED = "early_stopping"
"""What `attach` adds to a strategy."""

ROUND = re.compile("round-[0-9]+[.](json|safetensors)")
"""The names of our files of a round."""

UNSEALED = {"strategy", "metrics", "floating", "recorded", "chosen", "digest", "content"}
"""What version 0.1.0 wrote, which had no seal."""


class Saved:
    """What was saved beside the stopper: plain facts, and content that holds arrays."""

    def __init__(self, path: Path, facts: dict[str, Any], arrays: Arrays) -> None:
        self.path, self.facts, self._arrays = path, facts, arrays

    def content(self) -> Any:
        """A new copy at every access, so that no user changes another's."""
        return decode(self.facts["content"], {name: array.copy() for name, array in self._arrays.items()})


class FlowerFolder(StateFolder):
    """The seam's folder, with the model and the strategy's own state beside the stopper."""

    @property
    def saved(self) -> bool:
        if super().saved:
            return True
        self._require_nothing()
        return False

    def load(self, r: int) -> Saved:
        """What was saved beside the stopper."""
        text, data = self._file(r, "json"), self._file(r, "safetensors")
        for path in (text, data):
            if not path.exists():
                raise FedhaltError(f"{path} is missing: the folder is not complete")
        facts = _unseal(text, r)
        content = files.read(data)
        with files.taken_from(text):
            if files.digest(content) != facts["digest"]:
                raise FedhaltError(f"{data} is damaged: its digest does not match its content")
            return Saved(text, facts, safetensors.numpy.load(content))

    def write(self, stopper: EarlyStopper, **beside: Any) -> None:
        """Files of this round (`content` may hold arrays, `facts` is plain JSON), then the line that makes it count,
        then the files of other rounds go.
        """
        arrays: Arrays = {}
        tree = encode(beside["content"], arrays, "")
        data = tensors.from_arrays(arrays, {"fedhalt": "flower"})
        files.write(self._file(stopper.round, "safetensors"), data, private=True)
        sealed = _seal({**beside["facts"], "round": stopper.round, "digest": files.digest(data), "content": tree})
        files.write(self._file(stopper.round, "json"), sealed, private=True)
        super().write(stopper)
        for file in self._rounds():
            if file.stem != f"round-{stopper.round}":
                file.unlink(missing_ok=True)

    def _require_nothing(self) -> None:
        """Refuses to begin anew over rounds whose stopper is gone: a kill leaves those of round 0 at most."""
        left = sorted(file.name for file in self._rounds() if file.stem != "round-0")
        if left:
            raise FedhaltError(f"{self.path} holds {left[0]}, but {STATE} is gone: put it back, or name another folder")

    def _rounds(self) -> list[Path]:
        """The files of rounds; an app may keep its own beside them, such as round-5-weights.npz."""
        return [file for file in self.path.iterdir() if ROUND.fullmatch(file.name)]

    def _file(self, r: int, suffix: str) -> Path:
        return self.path / f"round-{r}.{suffix}"


def _seal(facts: dict[str, Any]) -> bytes:
    """One line of JSON with the digest of what it says: a changed digit would change a run without a word."""
    text = files.to_json(facts)
    sealed = {"fedhalt": "flower", "version": 2, "digest": files.digest(text.encode()), "saved": text}
    return f"{files.to_json(sealed)}\n".encode()


def _unseal(path: Path, r: int) -> dict[str, Any]:
    content = files.read(path)
    try:
        sealed = files.from_json(content.decode())
    except ValueError as error:
        raise FedhaltError(f"{path} is damaged: {error}") from None
    if isinstance(sealed, dict) and sealed.keys() == UNSEALED:
        return sealed
    text = sealed.get("saved") if isinstance(sealed, dict) else None
    if not isinstance(text, str) or files.digest(text.encode(errors="surrogatepass")) != sealed.get("digest"):
        raise FedhaltError(f"{path} is damaged: its digest does not match its content")
    if sealed.get("fedhalt") != "flower" or sealed.get("version") != 2:
        raise FedhaltError(f"{path} was not written by this version of fedhalt")
    with files.taken_from(path):
        facts: dict[str, Any] = files.from_json(text)
        if facts["round"] != r:
            raise FedhaltError(f"{path} holds round {facts['round']}: it was renamed")
    return facts


class OwnState:
    """A strategy's own state: the attributes, its wrapped strategy's too, that training changes.

    A strategy that lists them as `fedhalt_state = ("momentum", …)` is taken at its word; of any other,
    whatever differs from what it was before the first round is saved.
    """

    def __init__(self, strategy: Any) -> None:
        self.levels = list(levels(strategy))
        self._before = [{name: fingerprint(value) for name, value in vars(level).items()} for level in self.levels]
        self._warned: set[str] = set()

    @property
    def names(self) -> list[str]:
        """Which strategies these are; one with settings that must not change says so itself."""
        return [getattr(level, "fedhalt_identity", type(level).__name__) for level in self.levels]

    @property
    def diverged(self) -> bool:
        """Whether a strategy says that its last round had no finite result (`fedhalt_diverged`, as FedMethod does)."""
        return any(getattr(level, "fedhalt_diverged", False) for level in self.levels)

    def changed(self) -> list[dict[str, Any]]:
        """The attributes of each level to be saved, by name."""
        return [
            {name: value for name, value in vars(level).items() if self._is_saved(level, name, value, before)}
            for level, before in zip(self.levels, self._before, strict=True)
        ]

    def restore(self, saved: list[dict[str, Any]]) -> list[str]:
        """Gives the attributes their saved values; returns those that need an object which is not there (yet)."""
        return [
            f"{type(level).__name__}.{name}"
            for level, attributes in zip(self.levels, saved, strict=True)
            for name, value in attributes.items()
            if not _put_back(level, name, value)
        ]

    def _is_saved(self, level: Any, name: str, value: Any, before: dict[str, Any]) -> bool:
        listed = getattr(level, "fedhalt_state", None)
        if listed is not None:
            return name in listed
        now = fingerprint(value)
        if now is None:
            attribute = f"{type(level).__name__}.{name} ({type(value).__name__})"
            harmless = isinstance(value, HARMLESS) or is_strategy(value) or callable(value)
            if attribute not in self._warned and not harmless:
                self._warned.add(attribute)
                LOG.warning("fedhalt: %s cannot be saved; a continued run begins with a new one", attribute)
            return False
        return now != before.get(name)


def _put_back(level: Any, name: str, value: Any) -> bool:
    """Gives an attribute its saved value, inside the object that is there where others may hold it too."""
    current: Any = getattr(level, name, None)
    if isinstance(value, SavedState):
        if not is_stateful(current):
            return False
        current.load_state_dict(value.state)
    elif is_tensor(current) and is_tensor(value) and current.shape == value.shape:
        current.data.copy_(value)
    elif isinstance(current, dict) and isinstance(value, dict):
        current.clear()
        current.update(value)
    else:
        setattr(level, name, value)
    return True


def levels(strategy: Any) -> Iterator[Any]:
    """The strategy, the one it wraps, whatever it calls it, and so on."""
    yield strategy
    for name, value in vars(strategy).items():
        if name != ATTACHED and is_strategy(value):
            yield from levels(value)


def is_strategy(value: Any) -> bool:
    """Whether it is a strategy of either API."""
    return isinstance(value, Strategy) or isinstance(value, loaded("flwr.server.strategy", "Strategy"))
