"""Plans that a communicator needs again and again are prepared once and kept with it.

    first call    plan ──▶ prepare ──▶ kept under its key ──▶ run
    later calls                        kept under its key ──▶ run

They live as long as the communicator, whose ranks hold the prepared messages.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from .communicator import Communicator

_PLACE = "_kept_plans"
Prepared = TypeVar("Prepared")


def kept(communicator: Communicator, key: Hashable, prepare: Callable[[], Prepared]) -> Prepared:
    """What ``prepare()`` gave under this key on this communicator, prepared on the first call.

    Parameters
    ----------
    communicator : Communicator
    key : hashable
        Says all that `prepare` depends on.
    prepare : callable
    """
    plans = vars(communicator).setdefault(_PLACE, {})
    if key not in plans:
        plans[key] = prepare()
    return plans[key]
