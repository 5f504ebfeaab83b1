"""How heavy a part may be, and what is said when one is heavier.

W_k ≤ (1 + ε) W / K     (Abubaker et al., section 2), never less than ⌈W / K⌉, the least that whole
                        weights allow

The bound is from above only: where every part may weigh 3 % more, 64 parts have room for what two
hold, and a search that counts parts will empty one. A rank without work helps nobody, so empty
parts are filled again.

Vertices may have several weights, each of which has a bound of its own: multi-constraint
partitioning (Karypis and Kumar, "Multilevel algorithms for multi-constraint graph partitioning",
1998). Searches then go by their sum, each scaled to the same total, and keep to all bounds:

    weights of a vertex   12 nonzeros, 1 label    ──▶    12 a + b    12 a    b
                                                         (no bound)
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from daskpart._incidence import group
from daskpart.errors import BalanceWarning, warn
from daskpart.hypergraph import Hypergraph
from daskpart.partitions import Partition

_COMMON_TOTAL = 1 << 28  # of each of several weights: up to seven and their sum take 4 bytes
BOUNDLESS = 1 << 62  # where ε allows more, and more than there is, it need not fit in 64 bits


def with_weights(hypergraph: Hypergraph) -> Hypergraph:
    """Weights that say nothing are taken for 1: the number of vertices is balanced then."""
    if hypergraph.total_weight:
        return hypergraph
    return replace(hypergraph, vertex_weights=np.ones_like(hypergraph.vertex_weights))


def heaviest_allowed(total_weight: int, n_parts: int, epsilon: float) -> int:
    """The weight that no part should exceed."""
    most = max(
        math.floor((1 + epsilon) * total_weight / n_parts + 1e-9), -(-total_weight // n_parts)
    )
    return min(most, max(total_weight, BOUNDLESS))


def columns(hypergraph: Hypergraph) -> NDArray[np.int64]:
    """The weights as searches take them, int64[n_vertices, n_weights]: one, or as of `stacked`."""
    weights = hypergraph.vertex_weights
    return weights if weights.ndim == 2 else weights[:, None]


def stacked(weights: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Several weights of each vertex behind their sum, int64[n_vertices, n_weights + 1].

    Each is multiplied by a whole number, so that they come to about the same total and still tell
    what a part may weigh (`most_of_each`).
    """
    totals = [int(each.sum()) for each in weights]
    common = max(_COMMON_TOTAL, *totals)
    scaled = np.stack(
        [each * (common // total) for each, total in zip(weights, totals, strict=True)], axis=1
    )
    return np.column_stack([scaled.sum(axis=1), scaled])


def most_of_each(weights: NDArray, n_parts: int, epsilon: float | list[float]) -> NDArray[np.int64]:
    """What a part may weigh in each column of `columns`; the sum of several may be anything."""
    totals = [int(total) for total in weights.sum(axis=0, dtype=np.int64)]
    shares = np.broadcast_to(epsilon, max(len(totals) - 1, 1)).tolist()
    if len(totals) == 1:
        return np.array([heaviest_allowed(totals[0], n_parts, shares[0])], np.int64)
    units = [max(int(unit), 1) for unit in np.gcd.reduce(weights[:, 1:], axis=0)]
    most = [
        min(heaviest_allowed(total // unit, n_parts, share) * unit, max(total, BOUNDLESS))
        for total, unit, share in zip(totals[1:], units, shares, strict=True)
    ]
    return np.array([totals[0], *most], np.int64)


def bounds_of_moves(
    hypergraph: Hypergraph, n_parts: int, epsilon: float | list[float]
) -> tuple[int, NDArray[np.int64]]:
    """The least and the most that a part may weigh while vertices move; none becomes empty.

    The most is one for each column of `columns`, the least is of the first: of several weights the
    sum, which may be as light as the largest ε allows.
    """
    weights = columns(hypergraph)
    total = int(weights[:, 0].sum())
    least = max(1, math.floor((1 - float(np.max(epsilon))) * total / n_parts))
    return least, most_of_each(weights, n_parts, epsilon)


def is_free(fixed: NDArray[np.int32] | None, n_vertices: int) -> NDArray[np.bool_]:
    """Which vertices may move: those without a part, -1, in `fixed`; all where that is None."""
    return np.ones(n_vertices, np.bool_) if fixed is None else np.asarray(fixed) < 0


def fill_empty_parts(
    assignment: NDArray[np.int32],
    weights: NDArray[np.int64],
    n_parts: int,
    fixed: NDArray[np.int32] | None = None,
) -> NDArray[np.int32]:
    """Give each empty part half the free weight of the heaviest part with a vertex to spare.

    Fixed vertices (a part, not -1, in `fixed`) stay. Where no part has any to spare, parts stay
    empty.
    """
    sizes = np.bincount(assignment, minlength=n_parts)
    if sizes.all():
        return assignment
    filled = assignment.copy()
    free = is_free(fixed, len(filled))
    load = np.bincount(filled, weights, n_parts)
    spare = np.minimum(np.bincount(filled[free], minlength=n_parts), sizes - 1)
    # the free members of each part, looked for once: many parts may be empty
    movable = np.flatnonzero(free).astype(np.int32)
    pointer, grouped = group(filled[movable], movable, n_parts)
    members = np.split(grouped, pointer[1:-1])
    for empty in np.flatnonzero(sizes == 0).tolist():
        donor = int(np.argmax(np.where(spare < 1, -1, load)))
        if spare[donor] < 1:
            break
        own = members[donor]
        passed = np.cumsum(weights[own])
        n_given = int(np.searchsorted(passed, passed[-1] / 2, side="right"))
        n_given = min(max(n_given, 1), int(spare[donor]))
        members[empty], members[donor] = own[:n_given], own[n_given:]
        filled[members[empty]] = empty
        load[empty] = passed[n_given - 1]
        load[donor] -= load[empty]
        spare[empty] = n_given - 1
        spare[donor] -= n_given
    return filled


def warn_if_too_heavy(
    partition: Partition, epsilon: float, *, searched: bool, what: str = ""
) -> None:
    """Warn of the imbalance reached where it is more than asked.

    A method that did not search for balance (``searched=False``) is excused, unless a single vertex
    makes the balance impossible. `what` tells which of several weights is meant.
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
    warn(
        f"imbalance {partition.imbalance:.4g}{what} was reached where {epsilon:.4g} was asked: "
        f"the heaviest of {n_parts} parts weighs {heaviest}, {allowed} was allowed, and {why}",
        BalanceWarning,
    )
