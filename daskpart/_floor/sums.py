"""Sums of whole numbers by key, such as the weights of parts."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def sums_by_key(keys: Any, values: Any, n_keys: int) -> NDArray[np.int64]:
    """Sum of the values of each key, int64[n_keys]; exact, where np.bincount adds in float64.

    Values of two dimensions are summed column by column, into int64[n_keys, n_columns].
    """
    sums = np.zeros((n_keys, *np.shape(values)[1:]), np.int64)
    np.add.at(sums, keys, values)
    return sums
