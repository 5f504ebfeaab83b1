"""Ctrl-C between steps, and not in the middle of one.

Ctrl-C ──▶ the run of steps ends (it takes a second at most, or one step) ──▶ KeyboardInterrupt
again  ──▶ KeyboardInterrupt at once: what was done since the state was kept is lost
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interrupts_at_the_end() -> Iterator[None]:
    """Hold the first Ctrl-C back until the block is over; the second one comes through.

    Only where Python's own handler would raise it, in the main thread: nobody else's is touched.
    """
    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    pressed = False

    def hold_back(number: int, frame: Any) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True
        print("Ctrl-C: ends after this step; press again to stop at once", file=sys.stderr)

    signal.signal(signal.SIGINT, hold_back)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if pressed:
        raise KeyboardInterrupt
