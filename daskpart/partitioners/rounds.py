"""The rounds of a local search: smoothed ones that cool down, then plain ones while they pay.

    τ = 8  ████   4  ████   2  ███   1  ██   ½  █   ¼  █   │   plain  ██ … until a round gains 0.2 %

A metric that counts whether a net is in a part at all says nothing until its *last* pin leaves. So
the first rounds see it smoothed: c pins count 1 - exp(-c / τ), so that a pin that leaves a part
with few is a gain already.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

_TEMPERATURES = (8.0, 4.0, 2.0, 1.0, 0.5, 0.25)
_ROUNDS_A_TEMPERATURE = 4
_LONGEST_TABLE = 64
WORTH_ANOTHER_ROUND = 0.002


def run_rounds(
    offer_all: Callable[[NDArray[np.float64]], int],
    total: Callable[[], float],
    n_offered: int,
    max_rounds: int,
    *,
    smoothed: bool = True,
) -> None:
    """Offer all vertices a move, round after round.

    Parameters
    ----------
    offer_all : callable
        Takes what the c-th pin of a net in a part counts, for c = 0, 1, … (nothing: the metric
        itself), and returns how many vertices moved.
    total : callable
        The metric as it is.
    n_offered : int
        Vertices that may move.
    max_rounds : int
        Of the plain rounds, which end earlier when one gains less than 0.2 %; there are at most 24
        smoothed ones before them.
    smoothed : bool
    """
    for temperature in _TEMPERATURES if smoothed else ():
        for _ in range(_ROUNDS_A_TEMPERATURE):
            if offer_all(pin_steps(temperature)) <= WORTH_ANOTHER_ROUND * n_offered:
                break
    before = total()
    for _ in range(max_rounds):
        offer_all(np.empty(0))
        after = total()
        if before - after <= WORTH_ANOTHER_ROUND * after:
            break
        before = after


def pin_steps(temperature: float) -> NDArray[np.float64]:
    """What the c-th pin of a net in a part adds to 1 - exp(-c/τ), for c = 0, 1, …"""
    counted = 1 - np.exp(-np.arange(_LONGEST_TABLE) / temperature)
    return np.diff(counted, prepend=0.0)
