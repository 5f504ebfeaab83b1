"""Which rows travel in a product with Â: those that somebody reads, or all of them.

    expand       row j goes to the ranks that have an entry in column j        Σ (λ_j − 1) rows
    broadcast    every row goes to every rank, as in CAGNET's 1D algorithm     n (K − 1) rows

Both put the same rows to the same entries in the same order, so that weights are equal bit by bit;
a broadcast is the baseline that a sparse plan is held against. Here sends never block and all
broadcasts are under way at once; CAGNET takes them in turns, which is no faster.

Sources: Demirci et al., VLDB 2022, §4.1 (expand); Tripathy, Yelick, Buluç, "Reducing communication
in graph neural network training", SC 2020, §IV-A (broadcast).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives import Plan, expand_plan
from daskpart.collectives.counters import PlanStatistics
from daskpart.connectivity import Connectivity
from daskpart.partitions import Partition

COMMUNICATIONS = ("expand", "broadcast")


def product_plan(pattern: Any, partition: Partition, communication: str) -> Plan:
    """Messages of one product with a matrix.

    Parameters
    ----------
    pattern : scipy CSR array of shape (n, n)
        Where the matrix, with self loops, is not 0.
    partition : Partition
        Of the vertices.
    communication : {"expand", "broadcast"}

    Returns
    -------
    Plan
        One round, from the owner of a vertex.
    """
    owners, n_ranks = partition.assignment, partition.n_parts
    n = pattern.shape[0]
    if communication == "broadcast":
        items = np.repeat(np.arange(n), n_ranks)
        readers = np.tile(np.arange(n_ranks), n)
    else:
        items, readers = pattern.indices, np.repeat(owners, np.diff(pattern.indptr))
    return expand_plan(Connectivity.from_pairs(items, readers, n, n_ranks), owners)


def forecast(
    plans: Sequence[tuple[Plan, Sequence[int]]],
    n_own: NDArray[np.int64],
    itemsize: int,
    alpha: float,
    beta: float,
) -> dict[str, float]:
    """Seconds of the messages of an epoch by each way, where one of b bytes takes α + βb.

    The products are the same either way, so their time is left out.

    Parameters
    ----------
    plans : sequence of (Plan, widths)
        Expand plans, each with the columns of every message that goes by it.
    n_own : int64 ndarray of shape (n_ranks,)
        Vertices of each rank.
    itemsize : int
        Bytes of a number.
    alpha, beta : float
        Seconds a message, and a byte.
    """
    n_others = len(n_own) - 1
    messages = np.full((1, len(n_own)), n_others)
    all_rows = PlanStatistics(
        messages, messages, (n_others * n_own)[None], (n_own.sum() - n_own)[None]
    )
    found = dict.fromkeys(COMMUNICATIONS, 0.0)
    for plan, widths in plans:
        for width in widths:
            row_bytes = width * itemsize
            found["expand"] += plan.predicted_seconds(alpha, beta, row_bytes)
            found["broadcast"] += all_rows.seconds(alpha, beta, row_bytes)
    return found
