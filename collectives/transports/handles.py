"""Per-rank values between the driver and the ranks: pickled by number, resolved where they arrive.

    driver                                     a rank
    PerRank(Held 7) ──pickle──▶ "value 7" ──▶ PerRank(its own value 7)
    PerRank(Held 9) ◀── "value 9" ◀──pickle── PerRank(what the text made), kept as value 9

So a text takes and returns whatever holds per-rank values: tuples, dataclasses, prepared plans.
Every rank pickles what its text returns in the same order, so numbers agree without a word.
"""

from __future__ import annotations

import io
import pickle
from collections import deque
from collections.abc import Callable
from typing import Any

import cloudpickle

from daskpart.collectives.communicator import Communicator, Pending, PerRank, Replicated

Number = tuple[int, int]  # of a value: the run that made it, and the place in what it returned
_HANDLES = (PerRank, Replicated, Pending, Communicator)


class Held:
    """A value on the ranks, at the driver; they hold it until nobody here does."""

    __slots__ = ("__weakref__", "_dropped", "number", "placed", "unsent")

    def __init__(self, number: Number, dropped: deque[Number]) -> None:
        self.number, self._dropped = number, dropped
        # a pickled value a rank, which travels with the first run that uses it; or instead futures
        # of what lies on the ranks' workers, until the ranks have taken it
        self.unsent: list[bytes] | None = None
        self.placed: list[Any] | None = None

    def __del__(self) -> None:
        self._dropped.append(self.number)


class _Pickler(cloudpickle.Pickler):
    """Functions of modules by name, others whole; handles as `refer` says."""

    def __init__(self, file: Any, refer: Callable[[Any], Any]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._refer = refer

    def persistent_id(self, thing: Any) -> Any:
        """What stands for a handle; None for all others, which are pickled."""
        return self._refer(thing) if isinstance(thing, _HANDLES) else None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: Any, resolve: Callable[[Any], Any]) -> None:
        super().__init__(file)
        self._resolve = resolve

    def persistent_load(self, reference: Any) -> Any:
        """The handle that a reference stands for."""
        return self._resolve(reference)


def dumps(thing: Any, refer: Callable[[Any], Any]) -> bytes:
    """Pickle; each handle as what ``refer(handle)`` gives."""
    file = io.BytesIO()
    _Pickler(file, refer).dump(thing)
    return file.getvalue()


def loads(pickled: bytes, resolve: Callable[[Any], Any]) -> Any:
    """Unpickle; in place of each reference what ``resolve(reference)`` gives."""
    return _Unpickler(io.BytesIO(pickled), resolve).load()
