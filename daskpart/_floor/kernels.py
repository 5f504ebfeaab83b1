"""One decorator for every numba kernel, and the cache on disk in which its machine code waits.

    k.<digest>.nbc   is there ──────────────────────────────────────────────────► loaded
                     is not: whoever comes first locks …nbc.lock, compiles, writes ┐
                             all others (ranks, workers, jobs) wait for the lock   └─► load it

    digest   of all that decides the machine code: what the kernel and the kernels that it calls do,
             the constants that they name, argument types, CPU, versions

Kernels take raw arrays, compile lazily, and release the GIL. A file is written under another name
and then renamed, so a reader sees a whole one or none; and as its name says all that decides its
content, it does not matter who writes it, nor whether two do. So the lock saves work and guards
nothing: where it cannot be had (no POSIX, a file system without locks, a process that is stopped),
a kernel is compiled without. The operating system takes it from a process that ends.

(numba's own cache has an index a kernel beside the code: two writers can leave an index that names
the other's code, numba#4807, and it does not see that a called kernel has changed.)

This module imports nothing of the house but names, so every folder may import it.
"""

from __future__ import annotations

import contextlib
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
from typing import Any, BinaryIO

import numba
import numpy as np
from numba.core import event
from numba.core.caching import FunctionCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target

from .mpi_variables import RANK_AND_SIZE

try:
    import fcntl
except ImportError:  # no POSIX: whoever needs a kernel compiles it
    fcntl = None  # type: ignore[assignment]

_CLIENT_RANK = "1"  # of a job of dask-mpi
_PLAIN = (bool, int, float, str, bytes, tuple, type(None), np.generic)
_KERNELS: weakref.WeakSet[Any] = weakref.WeakSet()
_SILENT_SECONDS = 1.0  # of compiling, before a line says what is going on
_PATIENCE, _PAUSE_SECONDS = 60.0, 0.02  # of a wait for another process, which compiles the same


def _cache_is_wanted() -> bool:
    return os.environ.get("DASKPART_KERNEL_CACHE") not in ("0", "false", "off", "")


def _is_helper() -> bool:
    """Whether this process is somebody's worker, so that nobody reads what it says."""
    if multiprocessing.parent_process() is not None:
        return True
    for rank, size in RANK_AND_SIZE:
        if rank in os.environ:
            return os.environ[rank] != _CLIENT_RANK and os.environ.get(size) != "1"
    return False


def kernel(function: Callable | None = None, *, internal: bool = False, **options: Any) -> Any:
    """Compile `function` with numba: nopython, lazy signatures, the GIL released.

    Division by zero gives infinity or NaN, as in numpy: callers look for them once at the end.

    Arrays are copied by loops: with ``a[:] = b``, and with `np.diff`, numba compiles what words it
    has for shapes that differ, for 4 s in every process that does so.

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
    compiled = jitted(function, no_cpython_wrapper=internal, **settings)
    _KERNELS.add(compiled)
    if internal:
        _refuse_python(compiled)
    keep(compiled)
    return compiled


def jitted(function: Callable, **options: Any) -> Any:
    """`function` by `numba.njit`, also where NUMBA_DISABLE_JIT has others' run as plain Python.

    Users set it to look into kernels of their own; ours use what only compiled code has.
    """
    disabled, numba.config.DISABLE_JIT = numba.config.DISABLE_JIT, 0
    try:
        return numba.njit(**options)(function)
    finally:
        numba.config.DISABLE_JIT = disabled


def keep(compiled: Any) -> None:
    """Let a kernel, of ours or of a library that keeps none, have its machine code on disk."""
    if _cache_is_wanted():
        try:
            compiled._cache = _KernelCache(compiled)
        except RuntimeError:  # no folder that this user may write to: every process compiles
            pass


def keep_all(package: str) -> None:
    """`keep` the kernels in the modules of `package` that are loaded."""
    for name, module in sys.modules.copy().items():  # other threads may be importing
        if name == package or name.startswith(f"{package}."):
            for each in vars(module).copy().values():
                if isinstance(each, Dispatcher) and each.py_func.__module__ == name:
                    keep(each)


def why_not_kept(compiled: Any = None) -> str:
    """Why the machine code of a kernel (any) is not kept on disk, in words; empty where it is."""
    if isinstance((compiled or next(iter(_KERNELS)))._cache, _KernelCache):
        return ""
    if not _cache_is_wanted():
        return "DASKPART_KERNEL_CACHE switches their cache off"
    return "no folder for them can be written to; name one by NUMBA_CACHE_DIR"


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
        self._turns: dict[Path, _Turn] = {}  # of what this process is compiling

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
        found = self._loaded(path, target_context)
        if found is None and path not in self._turns:
            # where compiling fails, the turn lasts as long as this process: others get impatient
            self._turns[path] = _Turn(path.with_name(f"{path.name}.lock"))
            found = self._loaded(path, target_context)
            if found is not None:
                self._end_turn(path)
        return found

    def _loaded(self, path: Path, target_context: Any) -> Any:
        try:
            reduced = pickle.loads(path.read_bytes())
            return self._impl.rebuild(target_context, reduced)
        except Exception:  # not there; cut short, or no file of ours: whatever pickle makes of it
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write the compiled function, where it can be written; and let others load it."""
        path = self._path(sig, data.codegen)
        unfinished = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}")
        try:
            if self._impl.check_cachable(data):
                unfinished.write_bytes(self._cache_file._dump(self._impl.reduce(data)))
                unfinished.replace(path)
        except OSError:  # a full disk
            unfinished.unlink(missing_ok=True)
        finally:
            self._end_turn(path)

    def _end_turn(self, path: Path) -> None:
        if path in self._turns:
            self._turns.pop(path).end()


class _Turn:
    """The turn to compile one kernel, which processes take after each other.

    Kernels call each other in no circle, so those who wait do so in none either. The lock at
    `path` is removed at the end of a turn.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        started, waited = time.perf_counter(), 0.0
        with contextlib.suppress(OSError):  # no room, no rights, no locks: compile without
            file = path.open("wb")
            while not (ours := _locks(file)) and waited < _PATIENCE:
                time.sleep(_PAUSE_SECONDS)
                waited = time.perf_counter() - started
            if ours:
                self._file = file
            else:
                file.close()
        _CLOCK.waited(waited)

    def end(self) -> None:
        """Let the next one look."""
        if self._file is None:
            return
        with self._file, contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
            if fcntl is not None:  # a fork of this process may have the file open still
                fcntl.flock(self._file, fcntl.LOCK_UN)


def _locks(file: BinaryIO) -> bool:
    """Lock a file, where no other process has done so; where there are no locks, as if."""
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


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
        self.told = False

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
            if not _is_helper():  # a spawned process knows that after it has imported this
                reason = why_not_kept(event.data["dispatcher"])
                kept = f"for this process alone: {reason}" if reason else "once on this machine"
                with contextlib.suppress(OSError):  # who read it may have gone: no reason to end
                    print(f"daskpart: compiling kernels, {kept} …", file=sys.stderr)

    def on_end(self, event: Any) -> None:
        """It has been compiled, or has turned out not to compile."""
        if event.data["dispatcher"] not in _KERNELS:
            return
        self.depth -= 1
        if self.depth == 0:
            self.seconds += time.perf_counter() - self.begun

    def waited(self, seconds: float) -> None:
        """Another process has compiled for this one; while this one compiles it counts already."""
        if self.depth == 0:
            self.seconds += seconds


_CLOCK = _Clock()
event.register("numba:compile", _CLOCK)


def get_ready() -> None:
    """Import what numba else imports with the first kernel, in a fifth of a second."""
    with global_compiler_lock:
        cpu_target.target_context.refresh()


def compile_seconds() -> float:
    """Seconds spent on compiling, or waiting for another process that compiles, until now."""
    return _CLOCK.seconds


def working_clock() -> float:
    """A clock in seconds that stands still while this process compiles kernels."""
    return time.perf_counter() - _CLOCK.seconds
