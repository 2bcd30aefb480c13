"""How fast a core of this machine is, so that hours are those of the machine that reads them."""

from __future__ import annotations

import statistics
import time
from functools import cache

MEASURED = 0.050
"""Seconds that one of these gradients took where `setting.SECONDS` were measured."""
GRADIENTS, IMAGES, PIXELS = 9, 120, 28


@cache
def pace() -> float:
    """How many times longer than there a core takes here: the median of a few gradients of the small CNN.

    It counts the seconds of the thread, so waiting for a busy machine is no part of it.
    """
    # the list of runs is read without torch; only who asks for hours needs it
    import torch

    from ..simulation.formats import prefers_channels_last
    from ..simulation.model import Model, SmallCNN
    from ..simulation.workers import started_workers

    seconds = []
    with torch.random.fork_rng(devices=[]), started_workers(1, "cpu"):
        model = Model(SmallCNN(3, 8), "average", prefers_channels_last("cnn"))
        images = torch.randint(0, 256, (IMAGES, 3, PIXELS, PIXELS), dtype=torch.uint8)
        labels, w = torch.randint(0, 8, (IMAGES,)), model.vector()
        for _ in range(GRADIENTS):
            begin = time.thread_time()
            model.gradient(w, images, labels)
            seconds.append(time.thread_time() - begin)
    return statistics.median(seconds) / MEASURED
