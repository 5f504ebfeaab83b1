"""What tasks measured, kept in the process that ran them until the driver fetches it.

    key (step, source, destination)   →  `Message`: rows, bytes, when it was packed
    key (step, rank)                  →  when the rank began to compute, and ended

Keys name the step, not the execution: a task that runs twice overwrites its own entry, and an entry
that was fetched before is ignored by the driver, so everything counts once.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

UNMEASURED = "unmeasured-"  # begins the name of a run that nobody fetches measurements of


class Message(NamedTuple):
    """One message as it was packed; times as by `timeline.now`, equal where nothing was packed."""

    rows: int
    nbytes: int
    begin: float = 0.0
    end: float = 0.0


_entries: dict[str, dict[tuple[int, ...], Any]] = {}
_closed: set[str] = set()
_lock = threading.Lock()


def record(run: str, key: tuple[int, ...], measured: Any) -> None:
    """Keep one measurement of a run; nothing for a run that is closed."""
    if run.startswith(UNMEASURED):
        return
    with _lock:
        if run not in _closed:
            _entries.setdefault(run, {})[key] = measured


def take(run: str) -> dict[tuple[int, ...], Any]:
    """Hand over what this process measured since the last time."""
    with _lock:
        return _entries.pop(run, {})


def close(run: str) -> dict[tuple[int, ...], Any]:
    """Like `take`, and keep nothing more of this run: its last tasks may still be running."""
    with _lock:
        _closed.add(run)
        return _entries.pop(run, {})


def open_runs() -> list[str]:
    """Runs of which this process still holds measurements."""
    with _lock:
        return list(_entries)
