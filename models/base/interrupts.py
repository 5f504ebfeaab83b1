"""Ctrl-C between steps, and not in the middle of one.

Ctrl-C ──▶ the run of steps ends (it takes a second at most, or one step) ──▶ KeyboardInterrupt
again  ──▶ KeyboardInterrupt at once: what was done since the state was kept is lost
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

PAUSE = 1.0  # seconds in which a second Ctrl-C is the first: mpiexec passes on what all got already


@contextmanager
def interrupts_at_the_end() -> Iterator[Callable[[], bool]]:
    """Hold the first Ctrl-C back until the block is over; a second one comes through.

    Gives what tells whether one is held back. It comes also where the block ends with an error.

    Whoever handles it otherwise, Python itself or a handler of the program, is asked then. Only in
    the main thread, which alone is told of it.
    """
    usual = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(usual):
        yield lambda: False
        return
    pressed: float | None = None

    def hold_back(number: int, frame: Any) -> None:
        nonlocal pressed
        if pressed is None:
            pressed = monotonic()
            with suppress(Exception):  # amid a print of the step's there can be no other
                print("interrupted: ends after this step; once more stops at once", file=sys.stderr)
        elif monotonic() - pressed >= PAUSE:
            usual(number, frame)

    signal.signal(signal.SIGINT, hold_back)
    try:
        yield lambda: pressed is not None
    finally:
        signal.signal(signal.SIGINT, usual)
        if pressed is not None:
            usual(signal.SIGINT, sys._getframe())
