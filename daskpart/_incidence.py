"""Kernels that build and transpose an incidence in compressed rows. Every one is a counting sort.

    compressed by net               compressed by vertex
    net_pointer  0 3 5              vertex_pointer  0 1 3 4 5
    pins         0 1 2 | 1 3   <->  nets            0 | 0 1 | 0 | 1

Transposing visits the rows in order, so the transposed rows come out sorted, and equal entries
of a row come out side by side: sorting and de-duplication cost nothing more than transposing twice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._floor.kernels import kernel


@kernel
def transpose(pointer: NDArray, indices: NDArray, n_columns: int) -> tuple[NDArray, NDArray]:
    """Turn rows into columns; an entry that a row holds twice is kept once.

    Returns ``(column_pointer int64[n_columns + 1], rows int32[n_kept])`` with sorted columns.
    """
    n_rows = len(pointer) - 1
    last_row = np.full(n_columns, -1, np.int32)
    ends = np.zeros(n_columns + 1, np.int64)
    for row in range(n_rows):
        for position in range(pointer[row], pointer[row + 1]):
            column = indices[position]
            if last_row[column] != row:
                last_row[column] = row
                ends[column + 1] += 1
    for column in range(n_columns):
        ends[column + 1] += ends[column]
        last_row[column] = -1
    rows = np.empty(ends[n_columns], np.int32)
    following = ends[:-1].copy()
    for row in range(n_rows):
        for position in range(pointer[row], pointer[row + 1]):
            column = indices[position]
            if last_row[column] != row:
                last_row[column] = row
                rows[following[column]] = row
                following[column] += 1
    return ends, rows


@kernel
def group(keys: NDArray, values: NDArray, n_keys: int) -> tuple[NDArray, NDArray]:
    """Collect the values of equal keys, in the order given: ``(pointer, values by key)``."""
    pointer = np.zeros(n_keys + 1, np.int64)
    for key in keys:
        pointer[key + 1] += 1
    for key in range(n_keys):
        pointer[key + 1] += pointer[key]
    following = pointer[:-1].copy()
    grouped = np.empty(len(values), np.int32)
    for position in range(len(keys)):
        key = keys[position]
        grouped[following[key]] = values[position]
        following[key] += 1
    return pointer, grouped


@kernel
def group_pairs(
    items: NDArray, parts: NDArray, counts: NDArray, n_items: int, n_parts: int
) -> tuple[NDArray, NDArray, NDArray]:
    """Compress (item, part, count) triples: parts sorted, counts of equal pairs added."""
    by_part_pointer, by_part = group(parts, np.arange(len(parts)).astype(np.int32), n_parts)
    sizes = np.zeros(n_items + 1, np.int64)
    last_part = np.full(n_items, -1, np.int32)
    for part in range(n_parts):
        for position in range(by_part_pointer[part], by_part_pointer[part + 1]):
            item = items[by_part[position]]
            if last_part[item] != part:
                last_part[item] = part
                sizes[item + 1] += 1
    for item in range(n_items):
        sizes[item + 1] += sizes[item]
        last_part[item] = -1
    sorted_parts = np.empty(sizes[n_items], np.int32)
    added = np.zeros(sizes[n_items], np.int64)
    following = sizes[:-1].copy()
    for part in range(n_parts):
        for position in range(by_part_pointer[part], by_part_pointer[part + 1]):
            entry = by_part[position]
            item = items[entry]
            if last_part[item] != part:
                last_part[item] = part
                sorted_parts[following[item]] = part
                following[item] += 1
            added[following[item] - 1] += counts[entry]
    return sizes, sorted_parts, added


@kernel
def first_bad_pin(net_pointer: NDArray, pins: NDArray, n_vertices: int) -> tuple[int, int]:
    """The net and the position of the first pin outside 0..n_vertices-1, or (-1, -1)."""
    for net in range(len(net_pointer) - 1):
        for position in range(net_pointer[net], net_pointer[net + 1]):
            if pins[position] < 0 or pins[position] >= n_vertices:
                return net, position
    return -1, -1
