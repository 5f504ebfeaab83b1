"""A reduction is data: a name, how two values combine, and the neutral element.

The same object serves an allreduce of small values and a sparse reduce of rows. Contributions
combine in rank order with the rank's own at its own position, so every transport gives the same
bits:

    own rank 1, messages from 0, 2 and 3:    ((from 0 ⊕ own) ⊕ from 2) ⊕ from 3
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import as_array, require_same_arrays
from daskpart.errors import InputError

from .kernels_rows import add_in_rank_order, are_added_by_kernels
from .large_arrays import empty_like
from .messages import Inbox

_LOGICAL = (np.logical_or, np.logical_and, np.logical_xor)  # what they give is true or false


@dataclass(frozen=True)
class Reduction:
    """How values combine.

    Parameters
    ----------
    name : str
    combine : callable
        ``combine(a, b)`` elementwise on arrays, associative up to rounding; `numpy.add` is one.
        Where values combine on the way, in the order of a hypercube, it is commutative too.
    identity : object or callable
        Neutral element; a callable gets the dtype and gives the element.
    """

    name: str
    combine: Callable[[Any, Any], Any]
    identity: Any

    def identity_of(self, dtype: np.dtype[Any]) -> Any:
        """The neutral element for a dtype."""
        return self.identity(dtype) if callable(self.identity) else self.identity

    def combined(
        self, low: NDArray[Any], high: NDArray[Any], out: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """Two arrays of one shape and dtype combined, `low` of the lower rank.

        Written to `out`, which may be one of them, else to a new array. InputError for strings,
        which would be cut off, records, and what has no such sum, as dates.
        """
        if low.dtype.kind in "USV":
            raise self._refused(low.dtype)
        if not isinstance(self.combine, np.ufunc):
            found = np.asarray(self.combine(low, high), low.dtype)
            if found.shape != low.shape:  # which NumPy would make fit
                raise InputError(
                    f"combine of {self.name!r} made shape {found.shape} of two arrays of shape "
                    f"{low.shape}: give a function that combines element by element"
                )
            shares = np.may_share_memory(found, low) or np.may_share_memory(found, high)
            return found.copy() if shares else found  # one of the two, say, which ranks still hold
        out = empty_like(low) if out is None else out
        try:
            return self.combine(low, high, out=out, casting="unsafe")
        except TypeError:
            raise self._refused(low.dtype) from None

    def alone(self, values: NDArray[Any]) -> NDArray[Any]:
        """What values come to where no other rank has any: of `ANY` 1 for all but 0.

        InputError as from `combined`.
        """
        if self.combine not in _LOGICAL or values.dtype == bool:
            return values
        if values.dtype.kind in "USV":
            raise self._refused(values.dtype)
        return values.astype(bool).astype(values.dtype)

    def _refused(self, dtype: np.dtype[Any]) -> InputError:
        return InputError(f"values of dtype {dtype} don't combine ({self.name}): give numbers")

    def fold(self, values: list[Any]) -> Any:
        """Combine the values of all ranks in rank order, in their dtype.

        Raises
        ------
        InputError
            If the ranks disagree on shape or dtype; names the first two that do.
        """
        arrays = [as_array(value, f"values of rank {r}") for r, value in enumerate(values)]
        for other in enumerate(arrays):
            require_same_arrays(f"an allreduce ({self.name})", (0, arrays[0]), other)
        total = self.alone(arrays[0]).copy()
        for array in arrays[1:]:
            total = self.combined(total, array, total)
        return as_given(total, values[0])


def as_given(total: NDArray[Any], given: Any) -> Any:
    """A result as a plain number, if the rank gave one and no array, nor a list."""
    return total if isinstance(given, np.ndarray) or total.ndim else plain_number(total)


def plain_number(value: NDArray[Any]) -> Any:
    """An array of no dimension as a number of Python; of a time that would lose its unit."""
    return value[()] if value.dtype.kind in "mM" else value.item()


def _lowest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return False
    return np.iinfo(dtype).min if np.issubdtype(dtype, np.integer) else -np.inf


def _highest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype).max if np.issubdtype(dtype, np.integer) else np.inf


SUM = Reduction("sum", np.add, 0)
MAX = Reduction("max", np.maximum, _lowest)
MIN = Reduction("min", np.minimum, _highest)
ANY = Reduction("any", np.logical_or, False)


def require_reduction(given: object) -> None:
    """Refuse what is no `Reduction`, such as the name of one."""
    if not isinstance(given, Reduction):
        raise InputError(f"reduction is {given!r}: give SUM, MAX, MIN, ANY, or a Reduction")


def pack_rows(value: NDArray[Any], positions: NDArray[np.int64]) -> NDArray[Any]:
    """Rows of an array at the given positions; a `pack` for states that are plain arrays.

    Parameters
    ----------
    value : array of shape (n_rows, ...)
    positions : int array of shape (n,)

    Returns
    -------
    array of shape (n, ...)
        A copy.
    """
    return value.take(positions, axis=0)


def place_rows(state: NDArray[Any], inbox: Inbox) -> NDArray[Any]:
    """Write the received rows over the state's own; a `place` for expands of plain arrays.

    Parameters
    ----------
    state : array of shape (n_rows, ...)
        Changed in place.
    inbox : Inbox

    Returns
    -------
    array
        `state`.

    Raises
    ------
    InputError
        For rows of another dtype or shape than the state's, which NumPy would make fit.
    """
    check_agreement(state, inbox)
    for positions, payload in zip(inbox.positions, inbox.payloads, strict=True):
        state[positions] = payload
    return state


def combine_rows(state: NDArray[Any], inbox: Inbox, *, reduction: Reduction = SUM) -> NDArray[Any]:
    """Combine received rows with the state's own, in rank order; a `combine` for plain arrays.

    Parameters
    ----------
    state : array of shape (n_rows, ...)
        Changed in place.
    inbox : Inbox
    reduction : Reduction

    Returns
    -------
    array
        `state`.

    Raises
    ------
    InputError
        As of `place_rows`.
    """
    check_agreement(state, inbox)
    alone = reduction.alone(state)
    if alone is not state:  # rows that no other rank sends are not combined below
        state[...] = alone
    n_before = bisect(inbox.sources, inbox.rank)
    if reduction.combine is np.add and are_added_by_kernels(state):
        add_in_rank_order(state, inbox.positions, inbox.payloads, n_before)
        return state
    messages = list(zip(inbox.positions, inbox.payloads, strict=True))
    if n_before:  # what lower ranks sent combines first: marks are quicker than to sort positions
        arrived = np.zeros(len(state), bool)
        for positions, _ in messages[:n_before]:
            arrived[positions] = True
        touched = np.flatnonzero(arrived)
        own = state.take(touched, axis=0)
        arrived[:] = False
        for positions, rows in messages[:n_before]:
            meets = arrived[positions]
            if meets.any():
                rows = rows.copy()
                rows[meets] = reduction.combined(state[positions[meets]], rows[meets])
            state[positions] = rows
            arrived[positions] = True
        state[touched] = reduction.combined(state.take(touched, axis=0), own)
    for positions, rows in messages[n_before:]:
        state[positions] = reduction.combined(state.take(positions, axis=0), rows)
    return state


def contributions(
    inbox: Inbox, own_positions: NDArray[np.int64], own_rows: NDArray[Any]
) -> Iterator[tuple[NDArray[np.int64], NDArray[Any]]]:
    """Positions and rows of every contributor in rank order, the rank's own among them.

    Parameters
    ----------
    inbox : Inbox
    own_positions : int array of shape (n,)
    own_rows : array of shape (n, ...)

    Yields
    ------
    positions, rows
    """
    given = list(zip(inbox.positions, inbox.payloads, strict=True))
    given.insert(bisect(inbox.sources, inbox.rank), (own_positions, own_rows))
    yield from given


def check_agreement(rows: NDArray[Any], inbox: Inbox) -> None:
    """Refuse rows that arrived of another dtype or shape than those that are held."""
    for source, payload in zip(inbox.sources[:1], inbox.payloads[:1], strict=True):
        pair = (inbox.rank, rows), (source, payload)  # the others are like the first one
        require_same_arrays("what they send and hold", *pair, rows=True)
