"""A copy of whatever a rank holds."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np


def duplicate(value: Any) -> Any:
    """A copy that shares nothing: ``value.copy()`` where an object offers it, else a deep copy.

    Of an array it lies in memory as the array does: else a sum of it could have other bits.
    """
    if isinstance(value, (dict, list, set)) or not callable(getattr(value, "copy", None)):
        return copy.deepcopy(value)
    return value.copy(order="K") if isinstance(value, np.ndarray) else value.copy()
