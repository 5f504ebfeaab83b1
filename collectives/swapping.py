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
from typing import Any

from numpy.typing import NDArray

Room = Callable[[Any, int, int], tuple[NDArray[Any] | None, ...] | None]


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
    merge : callable, optional
        Where a state is an array that goes whole, as its only row, to at most one rank a round, and
        as much comes from one: ``merge(array, other, rank, source, **static)`` gives a fresh array,
        as `combine` would. A transport may then do without `pack` and `combine`.
    room : callable, optional
        ``room(state, rank, source)`` gives arrays for the next message of `source`, None in place
        of those that shall come as they are; or None altogether. Where shapes and dtypes are those
        of the message, it may arrive in them.
    """

    begin: Callable[[Any], Any]
    pack: Callable[[Any, int, int], tuple[NDArray[Any], ...]]
    combine: Callable[..., Any]
    end: Callable[[Any, Any], Any]
    merge: Callable[..., NDArray[Any]] | None = None
    room: Room | None = None
