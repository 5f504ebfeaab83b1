"""One BLAS thread for what runs on a rank.

Ranks already share the cores: the threads of several products would wait for each other, spinning.
And how a BLAS splits a product over its threads decides the last bits, so with one thread they are
the same in a notebook, on a worker and under MPI. Communicators see to it for all that they run;
what else computes with a BLAS, and must give those bits, is decorated.
"""

from __future__ import annotations

import sys
import threading
from contextlib import ContextDecorator
from typing import Any

from threadpoolctl import (  # type: ignore[import-untyped]
    OpenBLASController,
    ThreadpoolController,
)


class OneBlasThread(ContextDecorator):
    """Limits the process while any thread is inside; the setting is the process's, not a thread's.

    So the first to come in sets it, and the last to go out puts it back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limit: Any = None
        self._controller: Any = None
        self._n_modules = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                if len(sys.modules) != self._n_modules:  # one may have brought a BLAS of its own
                    self._n_modules, self._controller = len(sys.modules), ThreadpoolController()
                _give_up_control()
                self._limit = self._controller.limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                _give_up_control()
                self._limit.restore_original_limits()
                _give_up_control()

    def __reduce__(self) -> str:
        return "one_blas_thread"  # each process has its own


def _give_up_control() -> None:
    """Let any thread set the number: since 3.8 only the one that set it last can."""
    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)


one_blas_thread = OneBlasThread()
