"""The last resort for balance: vertices change places where moves alone bring no part within.

    at most 10     part a   6 5       b has room for none of a:
                   part b   4 3       but 5 for 4, and a has 6 4, b has 5 3

Each step makes the best exchange of a vertex of a part that is too heavy for one of another part,
or for none. The best leaves least beyond the limits, over all parts and weights, even if more than
before; who came then stays for some steps, lest the search undo it at once. So chains over three
parts and more come about (tabu search, Glover 1989). Nets are not looked at: whatever heeds them
was tried before.
"""

from __future__ import annotations

import numpy as np

from daskpart._floor.kernels import kernel
from daskpart._floor.sums import sums_by_key

VERTICES = 4096  # the heaviest, which take part: single moves share the others out
STAYS = (3, 12)  # steps for which a vertex stays that has come, drawn from 3 to 11
PATIENCE = 1000  # steps that bring nothing better, after which the search ends
WORK = 1 << 27  # pairs that it looks at, at most


@kernel(_nrt=False)
def _best_exchange(weights, part, n_vertices, excess, beyond, free_at, step, bar):
    """Return (vertex, other, by how much it changes what is beyond, pairs looked at).

    The last of `part` are a vertex without weight in each part, for which another one may leave it.
    A vertex that stays is let go for a change below the `bar`. Without any the vertex is -1.
    """
    chosen, partner, change, n_pairs = np.int64(-1), np.int64(-1), np.int64(0), np.int64(0)
    for vertex in range(n_vertices):
        here = part[vertex]
        if beyond[here] == 0:
            continue
        n_pairs += part.size
        for other in range(part.size):
            there = part[other]
            if there == here:
                continue
            grown = -beyond[here] - beyond[there]
            for each in range(excess.shape[1]):
                moved = weights[vertex, each] - weights[other, each]
                grown += max(excess[here, each] - moved, 0) + max(excess[there, each] + moved, 0)
            stays = max(free_at[vertex], free_at[other]) > step
            if (chosen < 0 or grown < change) and (not stays or grown < bar):
                chosen, partner, change = np.int64(vertex), np.int64(other), grown
    return chosen, partner, change, n_pairs


def exchanged(
    assignment: np.ndarray, weights: np.ndarray, n_parts: int, most: np.ndarray, free: np.ndarray
) -> np.ndarray:
    """Exchange vertices until no part is beyond the limits, or nothing better is found.

    Parameters
    ----------
    assignment : int32[n_vertices]
        It is not changed. No part that has a vertex becomes empty.
    weights : int64[n_vertices, n_weights]
    n_parts : int
    most : int64[n_weights]
        What a part may weigh; as much as the heaviest vertex, where that weighs more.
    free : bool[n_vertices]
        The others stay where they are.

    Returns
    -------
    int32[n_vertices]
        With less beyond the limits, or as it was.
    """
    loads = sums_by_key(assignment, weights, n_parts)
    excess = loads - np.maximum(most, weights.max(axis=0, initial=0))
    beyond = np.maximum(excess, 0).sum(axis=1)
    total = least = int(beyond.sum())
    if not total:
        return assignment
    movable = np.flatnonzero(free)
    movable = movable[np.argsort(-weights[movable, 0], kind="stable")[:VERTICES]]
    nobody = np.zeros((n_parts, len(most)), np.int64)
    weights = np.concatenate([weights[movable], nobody])
    part = np.concatenate([assignment[movable], np.arange(n_parts, dtype=np.int32)])
    best, free_at = assignment[movable], np.zeros(part.size, np.int64)
    rng = np.random.default_rng(0)
    step, last, n_pairs = 0, 0, 0
    while least > 0 and step - last < PATIENCE and n_pairs < WORK:
        vertex, other, change, looked_at = _best_exchange(
            weights, part, movable.size, excess, beyond, free_at, step, least - total
        )
        step, n_pairs = step + 1, n_pairs + looked_at
        if vertex < 0:
            continue
        moved = weights[vertex] - weights[other]
        here, there = part[vertex], part[other]
        for where, change_there in ((here, -moved), (there, moved)):
            excess[where] += change_there
            beyond[where] = np.maximum(excess[where], 0).sum()
        for which, where in ((vertex, there), (other, here)):
            if which < movable.size:
                part[which], free_at[which] = where, step + rng.integers(*STAYS)
        total += change
        if total < least:
            best, least, last = part[: movable.size].copy(), total, step
    found = assignment.copy()
    found[movable] = best
    return found
