"""A worker that looks at itself less often while ranks of a run live on it.

    event loop of a worker    tick 20 ms, profile 10 ms    ──run──▶    250 ms    ──end──▶  as before

Each look takes the GIL from the ranks, and a rank that is late keeps all others waiting: with more
ranks than cores small allreduces waited for that most of the time. What is seen less: the
dashboard's profile of these workers, and how promptly their event loop answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_CALLBACKS = ("tick", "profile")  # those that come many times a second
_MILLISECONDS = 250.0  # far below the seconds from which a worker reports a loop that hangs


def calm(worker: Any) -> Callable[[], None]:
    """Look less often from now on; gives a function that ends this."""
    callbacks = [
        (callback, callback.callback_time)
        for name in _CALLBACKS
        if (callback := worker.periodic_callbacks.get(name)) is not None
    ]
    for callback, milliseconds in callbacks:
        callback.callback_time = max(milliseconds, _MILLISECONDS)

    def end() -> None:
        for callback, milliseconds in callbacks:
            callback.callback_time = milliseconds

    return end
