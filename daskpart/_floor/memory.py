"""Memory that a step frees stays with the process, for the next step.

    step 1    arrays ──▶ freed ──▶ given back to the system
    step 2    arrays ◀── new pages, each of which the system clears first: a fault a page

glibc gives memory back that a step needs again at once: what is larger than the largest block that
was ever freed, and the end of the heap, on Dask's workers from 64 KiB on (they set
MALLOC_TRIM_THRESHOLD_). An epoch of graph convolution then spends a third of its time on faults.
So blocks of up to 16 MiB are taken from the heap, whose free end may have 64 MiB. Larger arrays go
back whole: pieces of the heap that are kept for them fit others badly, and to compute with so much
takes longer than the faults. What the set-up of a fit freed goes back before its first step, and
what is left at the end of the fit then.

Source: mallopt(3).
"""

from __future__ import annotations

import ctypes
import os
import platform
from contextlib import suppress
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of mallopt
_LARGEST_BLOCK, _FREE_END = 16 << 20, 64 << 20  # bytes


@cache
def _glibc() -> ctypes.CDLL | None:
    return ctypes.CDLL(None) if platform.libc_ver()[0] == "glibc" else None


def keep_freed_memory() -> None:
    """Have this process keep what it frees from now on, up to 64 MiB for each arena of glibc.

    Nothing happens under another C library, or where the user has set MALLOC_MMAP_THRESHOLD_.
    """
    library = _glibc()
    if library is None or "MALLOC_MMAP_THRESHOLD_" in os.environ:
        return
    library.mallopt(_MMAP_THRESHOLD, _LARGEST_BLOCK)
    library.mallopt(_TRIM_THRESHOLD, _FREE_END)


def give_back_freed_memory() -> None:
    """Let the system have what is free now.

    And what is freed from now on, where MALLOC_TRIM_THRESHOLD_ says so, as on Dask's workers.
    """
    library = _glibc()
    if library is None:
        return
    library.malloc_trim(0)
    with suppress(KeyError, ValueError):
        library.mallopt(_TRIM_THRESHOLD, int(os.environ["MALLOC_TRIM_THRESHOLD_"]))
