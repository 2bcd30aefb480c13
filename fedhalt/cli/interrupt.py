"""Ctrl-C: at once where nothing is lost by it, after the round where something is being trained."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Any


def end_after_this_round() -> Callable[[], bool]:
    """Ctrl-C asks for an end after the round; a second one ends at once.

    A shell starts a background job with SIGINT ignored, so that Ctrl-C ends only what is in front: that stays so.
    """
    asked: list[int] = []

    def handle(number: int, frame: Any) -> None:
        asked.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        print(
            "\nfedhalt: stopping after this round; press Ctrl-C again to stop at once (no recorded round is lost)",
            file=sys.stderr,
        )

    if signal.getsignal(signal.SIGINT) != signal.SIG_IGN:
        signal.signal(signal.SIGINT, handle)
    return lambda: bool(asked)
