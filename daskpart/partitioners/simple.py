"""Two partitioners that look at the weights only: the baselines of every table.

random   shuffle, heavy classes first, each vertex to the lightest part    2 0 1 1 2 0 …
block    cut the row of vertices where the running weight passes k W / K   0 0 0 1 1 2 …
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel
from daskpart.hypergraph import Hypergraph


@kernel
def _to_lightest(order: NDArray, weights: NDArray, n_parts: int, assignment: NDArray) -> None:
    """Each vertex in turn to the lightest part; the parts wait in a binary heap."""
    load = np.zeros(n_parts, np.int64)
    heap = np.arange(n_parts).astype(np.int32)
    for vertex in order:
        part = heap[0]
        assignment[vertex] = part
        load[part] += weights[vertex]
        place = 0
        while True:
            child = 2 * place + 1
            if child >= n_parts:
                break
            if child + 1 < n_parts and load[heap[child + 1]] < load[heap[child]]:
                child += 1
            if load[heap[child]] >= load[part]:
                break
            heap[place] = heap[child]
            place = child
        heap[place] = part


def random_parts(hypergraph: Hypergraph, n_parts: int, random_state: int) -> NDArray[np.int32]:
    """A random assignment balanced by weight, in O(n log K).

    Vertices are shuffled within classes of like weight (powers of two), heavy classes first, so
    that light vertices even out what heavy ones leave. Vertices of weight 0 are dealt round, the
    lightest part first, so that none stays empty.
    """
    weights = hypergraph.vertex_weights
    shuffled = np.random.default_rng(random_state).permutation(hypergraph.n_vertices)
    weight_class = np.frexp(weights[shuffled].astype(np.float64))[1]
    order = shuffled[np.argsort(-weight_class, kind="stable")]
    assignment = np.empty(hypergraph.n_vertices, np.int32)
    weighty = weights[order] > 0
    _to_lightest(order[weighty], weights, n_parts, assignment)
    light = order[~weighty]
    load = np.bincount(assignment[order[weighty]], weights[order[weighty]], n_parts)
    lightest_first = np.argsort(load, kind="stable")
    assignment[light] = lightest_first[np.arange(len(light)) % n_parts]
    return assignment


def block_parts(hypergraph: Hypergraph, n_parts: int) -> NDArray[np.int32]:
    """Contiguous ranges of vertices, cut nearest to equal weight; no range is empty. O(n)."""
    n_vertices = hypergraph.n_vertices
    passed = np.concatenate([[0], np.cumsum(hypergraph.vertex_weights)])
    wanted = float(passed[-1]) * np.arange(1, n_parts) / n_parts  # K times the sum may be too much
    after = np.searchsorted(passed, wanted)
    nearer_before = wanted - passed[after - 1] < passed[after] - wanted
    cuts = after - nearer_before
    step = np.arange(1, n_parts)
    # every part keeps a vertex: cuts rise by at least one, from both ends
    cuts = np.maximum.accumulate(np.maximum(cuts, step) - step) + step
    cuts = np.minimum(cuts, n_vertices - n_parts + step)
    return np.repeat(np.arange(n_parts), np.diff(cuts, prepend=0, append=n_vertices)).astype(
        np.int32
    )
