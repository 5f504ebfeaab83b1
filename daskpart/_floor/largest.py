"""The few of many numbers that are largest in magnitude, without sorting the others."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def largest(values: NDArray[Any], n: int) -> NDArray[np.int64]:
    """Positions of the `n` values of largest magnitude, of all where there are fewer.

    The largest first, equal ones in their order, NaN last.
    """
    keys = -np.abs(values)
    places = np.arange(len(keys))
    if n < len(keys):
        # what is not behind the n-th: so NaN stays in where fewer than n are numbers
        places = np.flatnonzero(~(keys > np.partition(keys, n - 1)[n - 1]))
    return places[np.argsort(keys[places], kind="stable")][:n]
