"""Best-fit packing of items into (round, rank) bins, for rows that travel inside a hypercube.

    sharers 001 110        candidates: corners on a path between two sharers
    owner 001: 001 -> 000 -> 010 -> 110         its load goes into the bins
    owner 000: 000 -> 001,  000 -> 010 -> 110   (round 0: 001, 000) (round 1: 000, 010) ...

Seed of the method: Abubaker et al., §5.3. What owner c adds to the sum of squared loads is a sum
over bits d of terms that depend on c only through its bits from d on: candidates share them, so
all of them are priced in at most about K log λ steps an item, not candidates × λ × log K.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._floor.kernels import kernel
from ._routing import add_route


@kernel
def _distinct_ends(
    members: NDArray, dimensions: int, ends: NDArray, n_ends: NDArray, marks: NDArray, mark: int
) -> None:
    """Row d of `ends`: the distinct lowest d bits of the members, for d = 0 … dimensions."""
    for length in range(dimensions + 1):
        n_ends[length] = 0
        for member in members:
            end = member & ((1 << length) - 1)
            node = (1 << length) | end
            if marks[node] != mark:
                marks[node] = mark
                ends[length, n_ends[length]] = end
                n_ends[length] += 1


@kernel
def _candidates(
    members: NDArray,
    dimensions: int,
    ends: NDArray,
    n_ends: NDArray,
    found: NDArray,
    marks: NDArray,
    head_marks: NDArray,
    mark: int,
) -> int:
    """Corners on the paths between sharers: the head of one sharer's number, the end of another."""
    n_found = 0
    for length in range(dimensions + 1):
        if n_found == 1 << dimensions:
            break
        for member in members:
            head = (member & ((1 << dimensions) - 1)) >> length
            node = (1 << (dimensions - length)) | head
            if head_marks[node] == mark:
                continue
            head_marks[node] = mark
            for place in range(n_ends[length]):
                corner = (head << length) | ends[length, place]
                if marks[corner] != mark:
                    marks[corner] = mark
                    found[n_found] = corner
                    n_found += 1
    return n_found


@kernel
def _price_of_head(bit: int, head: int, ends: NDArray, n_ends: NDArray, load: NDArray) -> int:
    """What round `bit` adds to the squares for an owner whose number from `bit` on is `head`."""
    price = 0
    for place in range(n_ends[bit + 1]):
        end = ends[bit + 1, place]
        if (end >> bit) & 1 != head & 1:
            corner = end | ((head >> 1) << (bit + 1))
            price += 2 * (load[bit + 1, corner] + load[bit + 1, corner ^ (1 << bit)]) + 2
    return price


@kernel
def _price_of_corner(
    corner: int,
    dimensions: int,
    ends: NDArray,
    n_ends: NDArray,
    load: NDArray,
    prices: NDArray,
    price_marks: NDArray,
    mark: int,
) -> int:
    """The sum over the bits; a head that was priced already is looked up."""
    total = 0
    for bit in range(dimensions):
        head = corner >> bit
        node = (1 << (dimensions - bit)) | head
        if price_marks[node] != mark:
            price_marks[node] = mark
            prices[node] = _price_of_head(bit, head, ends, n_ends, load)
        total += prices[node]
    return total


@kernel
def _best_owner(
    members: NDArray,
    dimensions: int,
    load: NDArray,
    ends: NDArray,
    n_ends: NDArray,
    found: NDArray,
    prices: NDArray,
    marks: NDArray,
    mark: int,
) -> int:
    """The candidate that adds least to the sum of squared loads. Rows of `marks` are scratch."""
    n_corners = 1 << dimensions
    _distinct_ends(members, dimensions, ends, n_ends, marks[0], mark)
    n_found = _candidates(members, dimensions, ends, n_ends, found, marks[1], marks[2], mark)
    best, best_price = -1, 0
    for place in range(n_found):
        corner = found[place]
        price = _price_of_corner(corner, dimensions, ends, n_ends, load, prices, marks[3], mark)
        if best < 0 or price < best_price:
            best, best_price = corner, price
    # every owner but the member itself also pays the fold out of a folded member
    for member in members:
        if member < n_corners:
            continue
        partner = member - n_corners
        out = 2 * (load[dimensions + 1, member] + load[dimensions + 1, partner]) + 2
        into = 2 * (load[0, member] + load[0, partner]) + 2
        price = (
            into
            - out
            + _price_of_corner(partner, dimensions, ends, n_ends, load, prices, marks[3], mark)
        )
        if price < best_price:
            best, best_price = member, price
    return best


@kernel
def pack_embedded(
    pointer: NDArray, parts: NDArray, order: NDArray, n_parts: int, dimensions: int, n_passes: int
) -> NDArray:
    """Owners, int32[n_items], each the best fit when its turn comes; -1 where no part touches.

    Items of one part stay there. Further passes take each item out and fit it anew, so the sum of
    squared loads never rises.
    """
    n_corners = 1 << dimensions
    owners = np.full(len(pointer) - 1, -1, np.int32)
    load = np.zeros((dimensions + 2, n_parts), np.int64)
    ends = np.empty((dimensions + 1, n_corners), np.int64)
    n_ends = np.zeros(dimensions + 1, np.int64)
    found = np.empty(n_corners, np.int64)
    prices = np.empty(2 * n_corners, np.int64)
    marks = np.full((5, 2 * n_corners), -1, np.int64)
    mark = 0
    for turn in range(n_passes):
        for item in order:
            members = parts[pointer[item] : pointer[item + 1]]
            if len(members) < 2:
                if len(members) == 1:
                    owners[item] = members[0]
                continue
            if turn > 0:
                add_route(members, owners[item], dimensions, -1, load, load, marks[4], mark)
            mark += 1
            owners[item] = _best_owner(
                members, dimensions, load, ends, n_ends, found, prices, marks, mark
            )
            mark += 1
            add_route(members, owners[item], dimensions, 1, load, load, marks[4], mark)
            mark += 1
    return owners
