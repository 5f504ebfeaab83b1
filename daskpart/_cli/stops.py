"""Ctrl-C, SIGTERM, SIGHUP and SIGUSR1: what asks a run to end, and when that is heard.

    stops_as_ctrl_c         all four interrupt the run
    one_ctrl_c_at_a_time    mpiexec says again what the terminal has said to everybody
    stops_held_back         they come when the block is over
    stops_blocked           the same, and they never reach processes begun in it
    pass_over_stops         they are for another process, which ends the run

Batch systems send SIGTERM before they kill, terminals SIGHUP as they close. SIGUSR1 is for Open
MPI: its mpiexec passes that on, and at the others kills all processes within half a second.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

INTERRUPTED = 130  # the exit code
_BESIDE = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGUSR1") if hasattr(signal, name)
)
_STOPS = (signal.SIGINT, *_BESIDE)


@contextmanager
def _answered(stops: Iterable[int], answer: Callable[[int, Any], None]) -> Iterator[None]:
    """Answer these inside, and then as before."""
    usual = {stop: signal.signal(stop, answer) for stop in stops}
    try:
        yield
    finally:
        for stop, handler in usual.items():
            signal.signal(stop, handler)


@contextmanager
def stops_as_ctrl_c() -> Iterator[list[int]]:
    """Answer SIGTERM, SIGHUP and SIGUSR1 as Ctrl-C; gives those that came.

    Python's own answer is to end at once, and with it goes what was learnt since the last
    checkpoint. One that is ignored, as SIGHUP under `nohup`, stays so.
    """
    received: list[int] = []

    def interrupt(number: int, frame: Any) -> None:
        received.append(number)
        answer = signal.getsignal(signal.SIGINT)  # ignored where a shell began us in the background
        (answer if callable(answer) else signal.default_int_handler)(signal.SIGINT, frame)

    heard = [stop for stop in _BESIDE if signal.getsignal(stop) is not signal.SIG_IGN]
    with _answered(heard, interrupt):
        yield received


@contextmanager
def one_ctrl_c_at_a_time(pause: float = 2.0) -> Iterator[None]:
    """Let a Ctrl-C interrupt, and ignore others within `pause` seconds.

    mpiexec passes on a Ctrl-C that the terminal has sent to everybody already: without this the
    second would break off the writing that answers the first.
    """
    last = -pause

    def interrupt(number: int, frame: Any) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= pause:
            last = now
            raise KeyboardInterrupt

    with _answered([signal.SIGINT], interrupt):
        yield


@contextmanager
def stops_held_back() -> Iterator[None]:
    """They come when the block is over: other processes wait for this one in it."""
    came: list[int] = []
    try:
        with _answered(_STOPS, lambda number, frame: came.append(number)):
            yield
    finally:
        if came:
            signal.raise_signal(came[0])


@contextmanager
def stops_blocked() -> Iterator[None]:
    """They come when the block is over, and never to processes begun in it.

    Terminals and batch systems send them to the whole group, and workers are needed to keep what
    was learnt. A process has the mask of the thread that began it.
    """
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # multiprocessing unblocks them where it starts this first
    usual = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, usual)


def pass_over_stops() -> None:
    """Ignore them from here on."""
    for stop in _STOPS:
        signal.signal(stop, signal.SIG_IGN)
