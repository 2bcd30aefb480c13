"""What a client's reply must be; any other is left out, as if it had been lost on the way."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, Generic, TypeVar

import numpy as np
from flwr.app import Message

from ...measure.arrays import Array, widen

LARGEST_COUNT = 10**12
"""No client holds more samples than this."""

INTERNAL = ("client", "remembered")
"""Metrics that only the two halves need."""

BUFFERS = "buffers"
"""The running statistics in a reply."""

Read = TypeVar("Read")

Form = tuple[tuple[int, ...], str]
"""Shape and type of an array."""


class BadReply(Exception):
    """Why a reply cannot be used, in words that follow "node 7 failed: "; what a stranger wrote is kept to one line."""

    def __init__(self, reason: str) -> None:
        super().__init__("".join(letter if letter.isprintable() else " " for letter in reason[:300]))


class NotOurs(BadReply):
    """A reply of some other ClientApp."""


class NotFinite(BadReply):
    """A reply that is well made but holds a number that is none: a client that diverged, or a hostile one."""


@dataclass(frozen=True)
class Reply:
    """One client's reply, read and checked."""

    node: int
    client: int
    samples: int
    remembered: bool
    vectors: dict[str, Array]
    norms: dict[str, float]
    metrics: dict[str, Any]
    """What is averaged: everything but what only the two halves need."""


def read_reply(message: Message, forms: Mapping[str, Form], count_key: str) -> Reply:
    """A node's reply, or BadReply. `forms` are the vectors it must hold; running statistics are left out by some."""
    records = message.content.array_records
    if "up" not in records:
        raise NotOurs("it has none of fedhalt's vectors: FedMethod's other half is a ClientApp made by client_app(…)")
    metrics = read_metrics(message, count_key)
    for name in INTERNAL:
        if type(metrics.get(name)) is not int or metrics[name] < 0:
            raise BadReply(f"its metric {name!r} is {metrics.get(name)!r}, not a whole number")
    expected = {name: form for name, form in forms.items() if name != BUFFERS or BUFFERS in records["up"]}
    if set(records["up"]) != set(expected):
        raise BadReply(f"it holds {_some(records['up'])}, not {_some(expected)}")
    vectors = {name: _read_array(name, records["up"][name], form) for name, form in expected.items()}
    return Reply(
        node=message.metadata.src_node_id,
        client=metrics["client"],
        samples=int(metrics[count_key]),
        remembered=bool(metrics["remembered"]),
        vectors=vectors,
        norms={name: _norm(name, vector) for name, vector in vectors.items()},
        metrics={name: value for name, value in metrics.items() if name not in INTERNAL},
    )


def read_metrics(message: Message, count_key: str) -> dict[str, Any]:
    """The one MetricRecord of a reply: finite numbers, and a count of samples that can be."""
    records = list(message.content.metric_records.values())
    if len(records) != 1:
        raise BadReply(f"it holds {len(records)} records of metrics, not one")
    metrics = dict(records[0])
    for name, value in metrics.items():
        for number in value if isinstance(value, list) else [value]:
            # an integer beyond 64 bits is no number that arrives over a network
            if not (-(2**63) <= number < 2**63 if isinstance(number, int) else math.isfinite(number)):
                raise NotFinite(f"its metric {name!r} is {number!r:.40}")
    count = metrics.get(count_key)
    if isinstance(count, list) or count is None or count != int(count) or not 1 <= count <= LARGEST_COUNT:
        raise BadReply(f"{count_key} is {count!r:.40}, not a whole number from 1 to {LARGEST_COUNT:.0e}")
    return metrics


class Intake(Generic[Read]):
    """The replies of one round, sorted out: those that can be used, by node, and why the others cannot."""

    def __init__(self, messages: Iterable[Message], read: Callable[[Message], Read]) -> None:
        self.good: dict[int, Read] = {}
        self.failed: dict[int, BadReply] = {}
        for message in sorted(messages, key=lambda message: message.metadata.src_node_id):
            node = message.metadata.src_node_id
            try:
                if message.has_error():
                    raise BadReply(str(message.error.reason))
                if node in self.good:
                    raise BadReply("it replied twice")
                self.good[node] = read(message)
            except BadReply as error:
                self.failed[node] = error

    def drop(self, bad: Mapping[int, BadReply]) -> None:
        self.good = {node: reply for node, reply in self.good.items() if node not in bad}
        self.failed |= bad

    @property
    def diverged(self) -> bool:
        """Whether most of what could be read is not finite: that is training, not one hostile client."""
        not_finite = sum(isinstance(error, NotFinite) for error in self.failed.values())
        return not_finite > len(self.good)

    def notes(self) -> dict[str, Any]:
        """What the record says about the replies that were left out."""
        return {"failed": len(self.failed), "failed_nodes": sorted(self.failed)} if self.failed else {}


def metrics_form(metrics: Mapping[str, Any]) -> Any:
    """The names of the metrics, and the lengths of those that are lists: what must agree to be averaged."""
    return frozenset((name, len(value) if isinstance(value, list) else None) for name, value in metrics.items())


def unlike_most(replies: Mapping[int, Read], form: Callable[[Read], Any]) -> dict[int, BadReply]:
    """The replies of another form than most have: they cannot be averaged with those."""
    counts = Counter(form(reply) for reply in replies.values())
    most = counts.most_common(1)[0][0] if counts else None
    return {
        node: BadReply("it holds other metrics or statistics than most replies do")
        for node, reply in replies.items()
        if form(reply) != most
    }


def too_large(replies: Mapping[int, Reply], ratio: float) -> dict[int, BadReply]:
    """The replies with a vector whose norm is above `ratio` times its median; two replies have no middle."""
    found: dict[int, BadReply] = {}
    if len(replies) < 3:
        return found
    vectors = next(iter(replies.values())).vectors
    for name in [name for name, vector in vectors.items() if vector.ndim]:
        bound = ratio * median(reply.norms[name] for reply in replies.values())
        for node, reply in replies.items():
            if 0 < bound < reply.norms[name]:
                text = f"{ratio:g} times the median of the cohort"
                found[node] = BadReply(f"the norm of {name!r} is {reply.norms[name]:.3g}, above {text}")
    return found


def _read_array(name: str, array: Any, form: Form) -> Array:
    """The array as it was sent, if it has this form: by its own bytes, whatever the message says of them."""
    shape, dtype = form
    try:
        found = array.numpy()
    # whatever bytes a stranger sends: numpy's readers raise errors of many kinds
    except Exception as error:
        raise BadReply(f"{name!r} is no array: {error!r:.100}") from None
    if not isinstance(found, np.ndarray):
        raise BadReply(f"{name!r} is not an array but a {type(found).__name__}")
    if found.dtype != np.dtype(dtype):
        raise BadReply(f"{name!r} is of type {found.dtype.str}, not {np.dtype(dtype).str}")
    if found.shape != shape:
        raise BadReply(f"{name!r} has shape {found.shape}, not {shape}")
    return found


def _norm(name: str, vector: Array) -> float:
    """The norm; one whose square the type cannot hold is as good as infinite, and so is one with a NaN."""
    flat = vector.reshape(-1)
    wide = widen(flat) if flat.dtype.itemsize == 2 else flat
    with np.errstate(over="ignore", invalid="ignore"):
        square = float(np.dot(wide, wide))
    if not math.isfinite(square):
        raise NotFinite(f"{name!r} is not finite" if not np.isfinite(wide).all() else f"{name!r} is too large")
    return math.sqrt(square)


def _some(names: Iterable[str]) -> str:
    listed = sorted(names)
    return ", ".join(repr(name)[:40] for name in listed[:5]) + (", …" if len(listed) > 5 else "")
