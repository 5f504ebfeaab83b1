"""A copy of whatever a rank holds."""

from __future__ import annotations

import copy
from collections.abc import Collection
from typing import Any

import numpy as np


def duplicate(value: Any) -> Any:
    """A copy that shares nothing: ``value.copy()`` where an object offers it, else a deep copy.

    A deep one, too, where ``copy()`` is known to share: of containers it shares what they contain,
    and who says how to be copied deeply does so because ``copy()`` is not that. Of an array the
    copy lies in memory as the array does: else a sum of it could have other bits.
    """
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return value.copy(order="K")
    if hasattr(value, "__deepcopy__") or isinstance(value, Collection):
        return copy.deepcopy(value)
    return value.copy() if callable(getattr(value, "copy", None)) else copy.deepcopy(value)
