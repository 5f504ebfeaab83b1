"""One decorator for every numba kernel, and the cache on disk in which its machine code waits.

    client process       compiles what is not there yet, and writes it      k.<digest>.nbc
    workers, MPI ranks   read what the client wrote, compile the rest in memory, write nothing

    digest   of all that decides the machine code: what the kernel and the kernels that it calls do,
             the constants that they name, argument types, CPU, versions

Kernels take raw arrays, compile lazily, and release the GIL. A file is written under another name
and then renamed, so a reader sees a whole one or none; and as its name says all that decides its
content, processes that write at once write the same. (numba's own cache has an index a kernel
beside the code: two writers can leave an index that names the other's code, numba#4807, and it does
not see that a called kernel has changed.)

This module imports nothing of the house, so every folder may import it.
"""

from __future__ import annotations

import functools
import hashlib
import multiprocessing
import os
import pickle
import sys
import time
import uuid
import weakref
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

import numba
import numpy as np
from numba.core import event
from numba.core.caching import FunctionCache
from numba.core.dispatcher import Dispatcher

# of all ranks of a job one may write: dask-mpi's client, which partitions and so compiles most
_CLIENT_RANK = "1"
_MPI_RANK_VARIABLES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")
_PLAIN = (bool, int, float, str, bytes, tuple, type(None), np.generic)
_KERNELS: weakref.WeakSet[Any] = weakref.WeakSet()
_SILENT_SECONDS = 1.0  # of compiling, before a line says what is going on


def _cache_is_wanted() -> bool:
    return os.environ.get("DASKPART_KERNEL_CACHE") not in ("0", "false", "off", "")


def may_write() -> bool:
    """Whether this process is nobody's worker, or was told to keep what it compiles."""
    if os.environ.get("DASKPART_KERNEL_CACHE") is not None:
        return _cache_is_wanted()
    if multiprocessing.parent_process() is not None:
        return False
    ranks = [os.environ[name] for name in _MPI_RANK_VARIABLES if name in os.environ]
    return not ranks or ranks[0] == _CLIENT_RANK


def kernel(function: Callable | None = None, *, internal: bool = False, **options: Any) -> Any:
    """Compile `function` with numba: nopython, lazy signatures, the GIL released.

    Division by zero gives infinity or NaN, as in numpy: callers look for them once at the end.

    Parameters
    ----------
    function : callable
        Takes and returns arrays and scalars.
    internal : bool
        For helpers that only kernels call: without what a call from Python needs, which takes
        longer to compile than many a body. From Python (in tests) call its ``py_func``.
    **options
        Passed on to `numba.njit`, for example ``fastmath=True`` or ``inline="always"``.
        ``_nrt=False``, for a small kernel that makes no array and is called in inner loops: numba
        then counts no references, which for a tuple of arrays takes longer than many a body.
    """
    if function is None:
        return lambda function: kernel(function, internal=internal, **options)
    settings = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, **options}
    compiled = numba.njit(no_cpython_wrapper=internal, **settings)(function)
    _KERNELS.add(compiled)
    if internal:
        _refuse_python(compiled)
    keep(compiled)
    return compiled


def keep(compiled: Any) -> None:
    """Let a kernel, of ours or of a library that keeps none, have its machine code on disk."""
    if _cache_is_wanted():
        try:
            compiled._cache = _KernelCache(compiled)
        except RuntimeError:  # no folder that this user may write to: every process compiles
            pass


def keep_all(package: str) -> None:
    """`keep` the kernels in the modules of `package` that are loaded."""
    for name, module in list(sys.modules.items()):
        if name == package or name.startswith(f"{package}."):
            for each in list(vars(module).values()):
                if isinstance(each, Dispatcher) and each.py_func.__module__ == name:
                    keep(each)


def _refuse_python(compiled: Any) -> None:
    """Have calls from Python raise: without a wrapper they would run into nothing and crash."""

    def refuse(*_: Any, **__: Any) -> None:
        name = compiled.py_func.__qualname__
        raise TypeError(f"{name} is called by kernels only: from Python call {name}.py_func")

    compiled._insert = lambda *_: None  # what a call from Python would find
    compiled._compile_for_args = refuse


class _KernelCache(FunctionCache):
    """numba's cache in numba's folder, with one file a specialisation and no index."""

    def __init__(self, compiled: Dispatcher) -> None:
        super().__init__(compiled.py_func)
        self._compiled = compiled

    @functools.cached_property
    def _stamp(self) -> str:
        """Digest of all that the machine code is made of, argument types and CPU apart."""
        made_of = (numba.__version__, np.__version__, *_made_of(self._compiled))
        return hashlib.sha256(repr(made_of).encode()).hexdigest()

    def _path(self, signature: Any, codegen: Any) -> Path:
        key = repr((self._stamp, self._index_key(signature, codegen)))
        digest = hashlib.sha256(key.encode()).hexdigest()[:32]
        return Path(self.cache_path, f"{self._impl.filename_base}.{digest}.nbc")

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function, or None where there is none, or none that can be read."""
        target_context.refresh()
        path = self._path(sig, target_context.codegen())
        try:
            reduced = pickle.loads(path.read_bytes())
            return self._impl.rebuild(target_context, reduced)
        except FileNotFoundError:
            return None
        except Exception:  # cut short, or no file of ours: whatever pickle makes of it
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write the compiled function, where this process may; where it cannot, go without."""
        if not may_write() or not self._impl.check_cachable(data):
            return
        path = self._path(sig, data.codegen)
        unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}")
        try:
            unfinished.write_bytes(self._cache_file._dump(self._impl.reduce(data)))
            unfinished.replace(path)
        except OSError:  # a full disk
            unfinished.unlink(missing_ok=True)


def _made_of(compiled: Dispatcher) -> list[Any]:
    """Code, options and constants of a kernel and of those that it calls, in a fixed order."""
    found: list[Any] = []
    waiting, seen = [compiled], {compiled}
    while waiting:
        current = waiting.pop()
        function = current.py_func
        found += [sorted(current.targetoptions.items()), _code(function.__code__)]
        for name in sorted(_names(function.__code__)):
            value = function.__globals__.get(name)
            if isinstance(value, Dispatcher):
                if value not in seen:
                    seen.add(value)
                    waiting.append(value)
            elif isinstance(value, np.ndarray):
                found.append((name, value.dtype.str, value.shape, value.tobytes()))
            elif isinstance(value, _PLAIN):
                found.append((name, value))
    return found


def _code(code: CodeType) -> tuple:
    """What a function does, without where it stands."""
    inner = [_code(const) if isinstance(const, CodeType) else const for const in code.co_consts]
    return code.co_code, inner, code.co_names, code.co_varnames


def _names(code: CodeType) -> set[str]:
    """The global names in a function and in those inside it."""
    inner = (_names(const) for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(*inner)


class _Clock(event.Listener):
    """Adds up the seconds in which kernels of ours were compiled; one compiles at a time."""

    def __init__(self) -> None:
        self.seconds, self.depth, self.begun = 0.0, 0, 0.0
        self.told = not may_write()

    def on_start(self, event: Any) -> None:
        """A kernel, or one that it calls, is about to be compiled."""
        if event.data["dispatcher"] not in _KERNELS:
            return
        now = time.perf_counter()
        if self.depth == 0:
            self.begun = now
        self.depth += 1
        if not self.told and self.seconds + now - self.begun > _SILENT_SECONDS:
            self.told = True
            print("daskpart: compiling kernels, once on this machine …", file=sys.stderr)

    def on_end(self, event: Any) -> None:
        """It has been compiled, or has turned out not to compile."""
        if event.data["dispatcher"] not in _KERNELS:
            return
        self.depth -= 1
        if self.depth == 0:
            self.seconds += time.perf_counter() - self.begun


_CLOCK = _Clock()
event.register("numba:compile", _CLOCK)


def compile_seconds() -> float:
    """Seconds that this process has spent on compiling kernels: subtract them from a timing."""
    return _CLOCK.seconds


def working_clock() -> float:
    """A clock in seconds that stands still while this process compiles kernels."""
    return time.perf_counter() - _CLOCK.seconds
