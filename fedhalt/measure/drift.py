"""drift_w: does the model still go somewhere, or does it only scatter around one place?

Over two adjacent windows A, B of w rounds, with their means and the scatter s^2 around them (summed over parameters,
divisor w - 1, mean of both windows):

    drift_w = w ||mean B - mean A||^2 / (2 s^2)

Independent scatter around a fixed point gives 1, scatter with memory (AR(1), 0.5 and 0.8) about 3 and 9, a random walk
about 2 w, a straight line 6 w^2 / (w + 1).

Windows are blocks: drift_w is new every w rounds. A block of 10 is two blocks of 5, one of 20 is two of 10, so a round
costs one pass over the model, and memory is six models however long the windows are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..rules.signals.drift import WINDOWS
from .average import Facts, Parts, Read
from .blocks import Block

COLUMNS = tuple(f"drift_{window}" for window in WINDOWS)


def drift(before: Block, now: Block) -> float:
    """drift_w of two adjacent blocks of w models; 0 where nothing moved."""
    gap, window = now.gap(before), now.count
    variance = (before.scatter + now.scatter) / 2 / (window - 1)
    if gap == 0:
        return 0.0
    return window * gap / (2 * variance) if variance else math.inf


@dataclass(frozen=True)
class DriftMeter:
    """Takes one model a round and knows drift_5, drift_10 and drift_20 of the last blocks that are complete."""

    columns: Mapping[str, float | None] = field(default_factory=lambda: dict.fromkeys(COLUMNS))
    """The newest values; None until two blocks are complete."""
    blocks: Mapping[str, Block] = field(default_factory=dict)
    """`filling`; `before-W`, the last complete block of W rounds; `half-W`, the first half of one that is not."""
    count: int = 0

    def added(self, model: Mapping[str, Any]) -> DriftMeter:
        """With one more round."""
        columns, blocks = dict(self.columns), dict(self.blocks)
        full: Block | None = blocks.pop("filling", Block()).added(model)
        if full is not None and full.count < WINDOWS[0]:
            blocks["filling"], full = full, None
        for window, column in zip(WINDOWS, COLUMNS, strict=True):
            if full is not None and full.count < window:  # two of the blocks below make one of these
                half = blocks.pop(f"half-{window}", None)
                if half is None:
                    blocks[f"half-{window}"] = full
                full = None if half is None else half.merged(full)
            if full is None:
                break
            if f"before-{window}" in blocks:
                columns[column] = drift(blocks[f"before-{window}"], full)
            blocks[f"before-{window}"] = full
        return DriftMeter(columns, blocks, self.count + 1)

    def saved(self) -> tuple[Facts, Parts]:
        """Everything a restarted server needs."""
        facts = {
            "count": self.count,
            "columns": dict(self.columns),
            "blocks": {place: [block.count, block.scatter] for place, block in self.blocks.items()},
        }
        return facts, {self._part(block.count): block.mean for block in self.blocks.values()}

    def loaded(self, facts: Facts, read: Read) -> DriftMeter:
        made = replace(self, columns=facts["columns"], count=facts["count"])
        found = {
            place: Block(count, scatter, read(made._part(count))) for place, (count, scatter) in facts["blocks"].items()
        }
        return replace(made, blocks=found)

    def _part(self, rounds: int) -> str:
        """A name for a block: its rounds, and the last of them."""
        end = self.count if rounds < WINDOWS[0] else self.count - self.count % rounds
        return f"drift-{rounds}-{end}"
