"""Plans that a communicator needs again and again are prepared once and kept with it.

    first call    plan ──▶ prepare ──▶ kept under its key ──▶ run
    later calls                        kept under its key ──▶ run

They live as long as the communicator, whose ranks hold the prepared messages. They are settled
before they are kept: what a lazy transport only noted down could be lost with a step that fails.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from .communicator import Communicator, PerRank

_PLACE = "_kept_plans"
Prepared = TypeVar("Prepared")


def kept(
    communicator: Communicator,
    key: Hashable,
    prepare: Callable[[], tuple[Prepared, Sequence[PerRank]]],
) -> Prepared:
    """What ``prepare()`` gave under this key on this communicator, prepared on the first call.

    Parameters
    ----------
    communicator : Communicator
    key : hashable
        Says all that `prepare` depends on.
    prepare : callable
        Gives what is to be kept, and the values on the ranks that it is made of.
    """
    plans = vars(communicator).setdefault(_PLACE, {})
    if key not in plans:
        prepared, values = prepare()
        communicator.settle(*values)
        plans[key] = prepared
    return plans[key]
