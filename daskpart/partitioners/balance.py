"""How heavy a part may be, and what is said when one is heavier.

W_k ≤ (1 + ε) W / K     (Cevik et al., section 2), never less than ⌈W / K⌉, the least that whole
                        weights allow
"""

from __future__ import annotations

import math
import warnings

import numpy as np

from daskpart.errors import BalanceWarning
from daskpart.partitions import Partition


def heaviest_allowed(total_weight: int, n_parts: int, epsilon: float) -> int:
    """The weight that no part should exceed."""
    return max(
        math.floor((1 + epsilon) * total_weight / n_parts + 1e-9), -(-total_weight // n_parts)
    )


def warn_if_too_heavy(partition: Partition, epsilon: float, *, searched: bool) -> None:
    """Warn of the imbalance reached where it is more than asked.

    A method that did not search for balance (``searched=False``) is excused, unless a single vertex
    makes the balance impossible.
    """
    total, n_parts = int(partition.weights.sum()), partition.n_parts
    allowed = heaviest_allowed(total, n_parts, epsilon)
    heaviest = int(partition.part_weights.max())
    if heaviest <= allowed:
        return
    vertex = int(np.argmax(partition.weights))
    weight = int(partition.weights[vertex])
    if weight > allowed:
        why = f"vertex {vertex} alone weighs {weight}: use fewer parts"
    elif searched:
        why = f"no better was found (heaviest vertex: {weight}); allow more or use fewer parts"
    else:
        return
    warnings.warn(
        f"imbalance {partition.imbalance:.4g} was reached where {epsilon:.4g} was asked: "
        f"the heaviest of {n_parts} parts weighs {heaviest}, {allowed} was allowed, and {why}",
        BalanceWarning,
        stacklevel=3,
    )
