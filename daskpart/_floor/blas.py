"""One BLAS thread at a time for what runs on a rank.

Ranks already share the cores. And how a BLAS splits a product over its threads decides the last
bits, so with one thread they are the same in a notebook, on a worker and under MPI.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

Function = TypeVar("Function", bound=Callable[..., Any])


class _Limit:
    """Limits the process while any thread is inside; the setting is the process's, not a thread's.

    So the first to come in sets it, and the last to go out puts it back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limit: Any = None
        self._controller: ThreadpoolController | None = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._controller = self._controller or ThreadpoolController()
                self._limit = self._controller.limit(limits=1, user_api="blas")
                self._limit.__enter__()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.__exit__(None, None, None)

    def __reduce__(self) -> Any:
        return _the_limit, ()


_LIMIT = _Limit()


def _the_limit() -> _Limit:
    return _LIMIT


def one_blas_thread(function: Function) -> Function:
    """Have a function run with one BLAS thread."""

    @functools.wraps(function)
    def limited(*arguments: Any, **named: Any) -> Any:
        with _LIMIT:
            return function(*arguments, **named)

    return limited  # type: ignore[return-value]
