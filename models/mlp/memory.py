"""What passes through a rank's memory beside what stays: gradients, and the state on its way.

    a batch    gradients of all layers ─ their sums ─ the sum of one layer, dense ─► a step
    a state    copies of what goes to the client ─ the message that they are packed into

The larger of the two. Rank 0 hands over weights and slots, every rank its residual of TopK. Where
samples are sparse the gradient of the first layer and its sum have entries for those features only
that occur in a batch, and an index beside each.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daskpart.models.optimisation.optimisers import Optimizer

from .network import Network

_INDEX = 8  # bytes
_OF_TOP_K = 2  # arrays as large as a layer that choosing makes


def passing_bytes(
    network: Network,
    n_ranks: int,
    *,
    entries_a_batch: float,
    optimizer: Optimizer,
    has_top_k: bool,
) -> NDArray[np.int64]:
    """Bytes of a rank that come and go, at most, about; int64 of shape (n_ranks,).

    Parameters
    ----------
    network : Network
    n_ranks : int
    entries_a_batch : float
        Stored values of a rank's samples in a batch.
    optimizer : Optimizer
    has_top_k : bool
    """
    itemsize, sizes = np.dtype(network.dtype).itemsize, network.sizes()
    first, whole, largest = sizes[0], sum(sizes), max(sizes)
    n_steps = 1 + optimizer.n_temporaries + _OF_TOP_K * has_top_k
    # of gradients and of their sums, which of one rank are the same
    entries = [entries_a_batch, n_ranks * entries_a_batch][: 1 if n_ranks == 1 else 2]
    batch = itemsize * (len(entries) * (whole - first) + n_steps * largest)
    for n_entries in entries:
        touched = min(n_entries / network.widths[0], 1.0) * first
        batch += int(min(touched * (itemsize + _INDEX), first * itemsize))
    handed = np.full(n_ranks, 2 * itemsize * whole * has_top_k)
    handed[0] += 2 * itemsize * whole * (1 + len(optimizer.slots))
    return np.maximum(batch, handed)
