"""An addressable binary max-heap over vertices, laid out in flat arrays.

       heap  [ v7 | v2 | v9 | ... ]      highest key first; heap s starts at s * n
       place [ ... v2 -> 1 ... ]         where a vertex sits, or ABSENT, or LOCKED
       size  [ how many in heap 0, in heap 1, … ]

Fiduccia–Mattheyses moves the vertex of highest gain and changes the gains of its neighbours; net
costs may be as large as λ^ρ, so gain buckets would be too many and a heap is used instead.
To empty the heaps, set `size` and `place`.
"""

from __future__ import annotations

import numpy as np

from daskpart._floor.kernels import kernel

ABSENT = -1  # in no heap, may enter one
LOCKED = -2  # fixed, or moved already in this pass
TOP = np.int64(0)  # not a plain 0: numba would compile once more for every literal


@kernel(internal=True, _nrt=False)
def _rise(heap, base, place, key, position):
    """Move the vertex at `position` up to where its key belongs."""
    vertex = heap[base + position]
    value = key[vertex]
    while position > 0:
        parent = (position - 1) >> 1
        other = heap[base + parent]
        if key[other] >= value:
            break
        heap[base + position] = other
        place[other] = position
        position = parent
    heap[base + position] = vertex
    place[vertex] = position


@kernel(internal=True, _nrt=False)
def _sink(heap, base, count, place, key, position):
    """Move the vertex at `position` down to where its key belongs."""
    vertex = heap[base + position]
    value = key[vertex]
    while True:
        child = 2 * position + 1
        if child >= count:
            break
        if child + 1 < count and key[heap[base + child + 1]] > key[heap[base + child]]:
            child += 1
        other = heap[base + child]
        if key[other] <= value:
            break
        heap[base + position] = other
        place[other] = position
        position = child
    heap[base + position] = vertex
    place[vertex] = position


@kernel(internal=True, _nrt=False)
def push(heap, size, which, place, key, vertex):
    """Put an absent vertex into heap `which`."""
    base = which * place.size
    position = size[which]
    heap[base + position] = vertex
    size[which] = position + 1
    _rise(heap, base, place, key, position)


@kernel(internal=True, _nrt=False)
def update(heap, size, which, place, key, vertex):
    """Restore the order after the key of a vertex in heap `which` has changed."""
    base = which * place.size
    _rise(heap, base, place, key, np.int64(place[vertex]))
    _sink(heap, base, size[which], place, key, np.int64(place[vertex]))


@kernel(internal=True, _nrt=False)
def pop(heap, size, which, place, key):
    """Take the vertex of highest key out of heap `which`, which must not be empty."""
    base = which * place.size
    vertex = np.int64(heap[base])
    last = size[which] - 1
    size[which] = last
    place[vertex] = ABSENT
    if last > 0:
        heap[base] = heap[base + last]
        _sink(heap, base, last, place, key, TOP)
    return vertex
