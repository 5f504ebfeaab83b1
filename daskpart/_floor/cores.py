"""How many cores this process may use."""

from __future__ import annotations

import os


def n_cores() -> int:
    """Cores that this process may run on: fewer than the machine has, where it was told so."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
