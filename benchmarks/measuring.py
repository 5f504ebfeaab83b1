"""Measure one case of an asv class, and the peak of resident memory for the studies."""

from __future__ import annotations

import multiprocessing
import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any


def begin_peak() -> int:
    """Let the peak of this process's resident memory begin anew; bytes that are resident now.

    Raises
    ------
    OSError
        Where there is no Linux to ask.
    """
    Path("/proc/self/clear_refs").write_text("5")
    return _status_bytes("VmRSS")


def peak_since(before: int) -> int:
    """Bytes that were resident at most since `begin_peak`, which gave `before`, beyond these."""
    return _status_bytes("VmHWM") - before


def _status_bytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(field))


def measure(suite: type, method: str, parameters: tuple) -> tuple[float, str]:
    """One case: seconds (best of at least three runs), a tracked value, or peak memory in MB."""
    if method.startswith("peakmem_"):
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            return pool.submit(_peak_memory, suite, method, parameters).result(), "MB"
    instance = suite()
    _call(instance, "setup", parameters)
    try:
        run = getattr(instance, method)
        if method.startswith("track_"):
            return float(run(*parameters)), getattr(run, "unit", "")
        return _best_time(run, parameters), "s"
    finally:
        _call(instance, "teardown", parameters)


def _call(instance: Any, name: str, parameters: tuple) -> None:
    if hasattr(instance, name):
        getattr(instance, name)(*parameters)


def _best_time(run: Any, parameters: tuple) -> float:
    seconds: list[float] = []
    while len(seconds) < 3 or (sum(seconds) < 0.5 and len(seconds) < 20):
        begin = perf_counter()
        run(*parameters)
        seconds.append(perf_counter() - begin)
    return min(seconds)


def _peak_memory(suite: type, method: str, parameters: tuple) -> float:
    instance = suite()
    _call(instance, "setup", parameters)
    getattr(instance, method)(*parameters)
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes / (1024**2 if sys.platform == "darwin" else 1024)
