"""The steps of a swap: several exchanges in a row, in which a rank's value only passes through.

    value ──begin──▶ state ──pack──▶ message        once a round, for each rank that is sent to
                       │  ◀─combine── messages       once a round
                       └──end──▶ result

What `pack` gives is lent: nobody changes it before it has arrived, or the transport copies it. With
`room` a transport that receives into memory of the rank's own may put a message where it belongs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Room = Callable[[Any, int, int], tuple[NDArray[Any] | None, ...] | None]


class Merge(NamedTuple):
    """How what a rank has and what comes become a fresh array; both of one shape and dtype.

    Attributes
    ----------
    combine : callable or None
        ``combine(low, high)``, values of the lower rank and of the higher one; None to take what
        comes in place of what is there.
    comes_first : bool
        Whether what comes is of the lower rank.
    ufunc : numpy.ufunc or None
        Where `combine` is nothing but this, and arrays of their dtype give one of it.
    """

    combine: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]] | None
    comes_first: bool
    ufunc: np.ufunc | None = None

    def __call__(self, array: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
        """Merge what the rank has and what comes."""
        if self.combine is None:
            return np.array(other)
        return self.combine(other, array) if self.comes_first else self.combine(array, other)


@dataclass(frozen=True, eq=False)
class SwapSteps:
    """Module-level functions, or `functools.partial` of them, so that they can travel.

    Attributes
    ----------
    begin : callable
        ``begin(value)`` gives a fresh state.
    pack : callable
        ``pack(state, source, destination)`` gives the arrays of a message, as for `post_values`.
        Within the swap nobody may overwrite what was packed until its receiver has answered.
    combine : callable
        ``combine(state, inbox, **static)`` may overwrite its state and gives it back.
    end : callable
        ``end(state, value)`` gives the result, which shares memory with no other rank.
    merger : callable, optional
        Where a state is an array that goes whole, as its only row, to at most one rank a round, and
        as much comes from one: ``merger(array, rank, source, **static)`` gives the `Merge` of two
        arrays like this one. A transport may then do without `pack` and `combine`; where a value is
        an array, its state is a copy and the result the last state, so without `begin` and `end`.
    room : callable, optional
        ``room(state, rank, source)`` gives arrays for the next message of `source`, None in place
        of those that shall come as they are; or None altogether. Where shapes and dtypes are those
        of the message, it may arrive in them.
    """

    begin: Callable[[Any], Any]
    pack: Callable[[Any, int, int], tuple[NDArray[Any], ...]]
    combine: Callable[..., Any]
    end: Callable[[Any, Any], Any]
    merger: Callable[..., Merge] | None = None
    room: Room | None = None
