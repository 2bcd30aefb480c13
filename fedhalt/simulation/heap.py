"""glibc's heap, told to keep what a step frees.

The next step needs the same memory, and asking the system for its pages again takes up to a fifth of a step.
"""

from __future__ import annotations

import contextlib
import ctypes
import platform
from collections.abc import Iterator

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""What glibc's `mallopt` sets: how much may lie free at the top of the heap, and from which size a block is mapped."""
KEPT = 2**30
LARGEST = 2**25
"""Blocks of 32 MB and more are mapped, and given back, as before."""


@contextlib.contextmanager
def kept_heap() -> Iterator[None]:
    """Keeps freed memory for as long as this lasts; without glibc it changes nothing."""
    if platform.libc_ver()[0] != "glibc":
        yield
        return
    libc = ctypes.CDLL(None)
    libc.mallopt(TRIM_THRESHOLD, KEPT)
    libc.mallopt(MMAP_THRESHOLD, LARGEST)
    try:
        yield
    finally:
        libc.mallopt(TRIM_THRESHOLD, 2 * LARGEST)  # where glibc's own adjustment of both thresholds ends
        libc.malloc_trim(0)
