"""What an offline file of Weights & Biases holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import FedhaltError


def steps(file: Path) -> Iterator[int]:
    """The steps in an offline file of Weights & Biases."""
    for entry in records(file):
        if entry.WhichOneof("record_type") == "history":
            yield entry.history.step.num


def records(file: Path) -> Iterator[Any]:
    """The records of such a file: a header of 7 bytes, then LevelDB's log format, up to where it ends."""
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
