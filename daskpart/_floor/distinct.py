"""Whole numbers of a known range, rising, each once.

`numpy.unique` finds them by a hash table since NumPy 2.3, which takes many times as long.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_MARKS = 64  # for each id: to mark n places takes less time than to sort the ids


def distinct(ids: NDArray[Any], n: int) -> NDArray[np.int64]:
    """The ids of `ids`, from 0 and below n, rising, each once.

    By a mark for each of n where there are few to an id, else by sorting.
    """
    if n <= _MARKS * len(ids):
        marks = np.zeros(n, bool)
        marks[ids] = True
        return np.flatnonzero(marks)
    rising = np.sort(ids).astype(np.int64, copy=False)
    is_new = np.ones(len(rising), bool)
    np.not_equal(rising[1:], rising[:-1], out=is_new[1:])
    return rising[is_new]
