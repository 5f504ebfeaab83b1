"""Who owns each shared row: drawn, or packed so that no rank moves many more rows than the others.

    row (λ)      sharers           point to point: K bins         embedded: a bin a rank and round
    a (4)        0 1 2 3           a -> 0   3 sent, 3 received    a -> 2, the tree of E-cube paths
    b (3)        0 2 3             b -> 2   …                     from 2 adds least to Σ load²
    c (2)        1 3               c -> 3                         c -> 1 …

Best fit decreasing: rows that most parts share first, each to the owner that adds least. Abubaker
et al., latency hiding in sparse tensor decomposition, §5.3. The loads are rows sent and received in
an expand; by duality that is also what a rank sends in an expand and its reduce.

A hop from a to b loads both alike, and so does one from b to a: rows of two parts cost the same
whoever owns them. What decides between equals is that rows sent, and rows received, are balanced,
too: all ranks wait for the one that sends most, and then for the one that receives most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import checked_seed, several, whole_number
from daskpart._floor.kernels import kernel
from daskpart.connectivity import Connectivity
from daskpart.errors import InputError

from .routes import add_route, n_dimensions


def random_owners(
    connectivities: Sequence[Connectivity], random_state: int = 0
) -> list[Connectivity]:
    """Each item is owned by one of its sharers, drawn evenly; the baseline of the paper.

    Parameters
    ----------
    connectivities : sequence of Connectivity
        One a mode, all with the same number of parts.
    random_state : int, default=0
        Same number, same owners.

    Returns
    -------
    list of Connectivity
        The same with owners.

    Raises
    ------
    InputError
        There is no mode, or modes have other numbers of parts.
    """
    modes = _checked(connectivities)
    seeds = np.random.SeedSequence(checked_seed(random_state)).generate_state(len(modes))
    return [mode.with_random_owners(int(seed)) for mode, seed in zip(modes, seeds, strict=True)]


def packed_owners(connectivities: Sequence[Connectivity]) -> list[Connectivity]:
    """Owners for point-to-point expands and reduces: each a sharer, all modes share the bins.

    Parameters
    ----------
    connectivities : sequence of Connectivity
        One a mode, all with the same number of parts.

    Returns
    -------
    list of Connectivity
        The same with owners. The rows that a rank sends and receives, summed over the modes, are
        balanced, by items that two parts share the rows that it sends; their total does not depend
        on owners.

    Raises
    ------
    InputError
        As of `random_owners`.

    Examples
    --------
    >>> import daskpart, scipy.sparse
    >>> X = scipy.sparse.random(60, 40, 0.1, "csr", random_state=0)
    >>> hypergraph = daskpart.Hypergraph.column_net(X)
    >>> partition = daskpart.partition(hypergraph, 4)
    >>> connectivity = daskpart.Connectivity.from_partition(hypergraph, partition)
    >>> (owned,) = daskpart.owners.packed_owners([connectivity])
    >>> owned.owners.shape
    (40,)
    """
    modes = _checked(connectivities)
    joined = Connectivity(  # the items of all modes as those of one
        pointer=np.concatenate(
            [[0], np.cumsum(np.concatenate([np.diff(m.pointer) for m in modes]))]
        ),
        parts=np.concatenate([mode.parts for mode in modes]),
        counts=np.concatenate([mode.counts for mode in modes]),
        n_parts=modes[0].n_parts,
        costs=np.concatenate([mode.costs for mode in modes]),
    )
    owners = joined.with_packed_owners().owners
    assert owners is not None
    pieces = np.split(owners, np.cumsum([mode.n_items for mode in modes])[:-1])
    return [replace(mode, owners=piece) for mode, piece in zip(modes, pieces, strict=True)]


def embedded_packed_owners(
    connectivities: Sequence[Connectivity], *, n_passes: int = 2
) -> list[Connectivity]:
    """Owners for expands and reduces inside a hypercube allreduce.

    A bin for each rank and each round; a row goes to the owner that adds least to the sum of the
    squared loads of the bins, and of equal ones to the one that adds least to the squares of rows
    sent and rows received. Candidates are the sharers and the ranks that forward the row from one
    sharer to another: its concurrent volume is the same for all of them where K is a power of two.
    Any number of parts: ranks from 2^⌊log2 K⌋ on fold onto a partner, as in the collectives.
    Each mode has bins of its own, as each has a collective of its own.

    Parameters
    ----------
    connectivities : sequence of Connectivity
        One a mode, all with the same number of parts.
    n_passes : int, default=2
        After the first pass, which is the paper's, each pass takes every row out of its bins and
        fits it anew.

    Returns
    -------
    list of Connectivity
        The same with owners; see `hypercube_volume` for what they cost.

    Raises
    ------
    InputError
        As of `random_owners`; or `n_passes` is below 1.

    Notes
    -----
    Eq. 1 of the paper squares the sum of squares once more, which orders candidates the same way
    within a round; here the sum of the squares alone is used. What decides between equals is ours:
    the paper says nothing of it. An item takes about K log λ steps.
    """
    n_passes = whole_number(n_passes, "n_passes", least=1)
    owned = []
    for mode in _checked(connectivities):
        order = np.argsort(-mode.connectivity, kind="stable")
        dimensions = n_dimensions(mode.n_parts)
        owners = pack_embedded(mode.pointer, mode.parts, order, mode.n_parts, dimensions, n_passes)
        owned.append(replace(mode, owners=owners))
    return owned


def _checked(connectivities: Sequence[Connectivity]) -> list[Connectivity]:
    if isinstance(connectivities, Connectivity):
        raise InputError("one Connectivity was given: give a list with one for each mode")
    modes = several(connectivities, "connectivities", "a list with a Connectivity a mode")
    if not modes or not all(isinstance(mode, Connectivity) for mode in modes):
        raise InputError(f"connectivities are {modes!r}: give a list with a Connectivity a mode")
    numbers = sorted({mode.n_parts for mode in modes})
    if len(numbers) > 1:
        raise InputError(f"the modes have {numbers} parts: all must have the same number")
    return modes


# -- bins (round, rank) for rows that travel inside a hypercube
#
#     sharers 001 110        candidates: corners on a path between two sharers
#     owner 001: 001 -> 000 -> 010 -> 110         its load goes into the bins
#     owner 000: 000 -> 001,  000 -> 010 -> 110   (round 0: 001, 000) (round 1: 000, 010) ...
#
# What owner c adds to the sum of squared loads is a sum over bits d of terms that depend on c only
# through its bits from d on: candidates share them, so all of them are priced in at most about
# K log λ steps an item, not candidates × λ × log K. A price is a pair, compared from the left: what
# is added to Σ (sent + received)², and to Σ sent² + Σ received². `load` holds sent and received.


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
def _price_of_hop(turn: int, source: int, destination: int, load: NDArray) -> tuple[int, int]:
    """What one row more between two ranks adds to the squares."""
    sent, received = load
    one_way = sent[turn, source] + received[turn, destination]
    other_way = received[turn, source] + sent[turn, destination]
    return 2 * (one_way + other_way) + 2, 2 * one_way + 2


@kernel
def _price_of_head(
    bit: int, head: int, ends: NDArray, n_ends: NDArray, load: NDArray
) -> tuple[int, int]:
    """What round `bit` adds to the squares for an owner whose number from `bit` on is `head`."""
    price, of_ways = 0, 0
    for place in range(n_ends[bit + 1]):
        end = ends[bit + 1, place]
        if (end >> bit) & 1 != head & 1:
            corner = end | ((head >> 1) << (bit + 1))
            added = _price_of_hop(bit + 1, corner ^ (1 << bit), corner, load)
            price, of_ways = price + added[0], of_ways + added[1]
    return price, of_ways


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
) -> tuple[int, int]:
    """The sum over the bits; a head that was priced already is looked up."""
    price, of_ways = 0, 0
    for bit in range(dimensions):
        head = corner >> bit
        node = (1 << (dimensions - bit)) | head
        if price_marks[node] != mark:
            price_marks[node] = mark
            prices[node] = _price_of_head(bit, head, ends, n_ends, load)
        price, of_ways = price + prices[node, 0], of_ways + prices[node, 1]
    return price, of_ways


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
    """The candidate of least price. Rows of `marks` are scratch."""
    n_corners = 1 << dimensions
    _distinct_ends(members, dimensions, ends, n_ends, marks[0], mark)
    n_found = _candidates(members, dimensions, ends, n_ends, found, marks[1], marks[2], mark)
    best, least = -1, (0, 0)
    for place in range(n_found):
        corner = found[place]
        price = _price_of_corner(corner, dimensions, ends, n_ends, load, prices, marks[3], mark)
        if best < 0 or price < least:
            best, least = corner, price
    # every owner but the member itself also pays the fold out of a folded member
    for member in members:
        if member < n_corners:
            continue
        partner = member - n_corners
        inside = _price_of_corner(partner, dimensions, ends, n_ends, load, prices, marks[3], mark)
        into = _price_of_hop(0, member, partner, load)
        out = _price_of_hop(dimensions + 1, partner, member, load)
        price = inside[0] + into[0] - out[0], inside[1] + into[1] - out[1]
        if price < least:
            best, least = member, price
    return best


@kernel
def pack_embedded(
    pointer: NDArray, parts: NDArray, order: NDArray, n_parts: int, dimensions: int, n_passes: int
) -> NDArray:
    """Owners, int32[n_items], each the best fit when it is its turn; -1 where no part touches.

    Items of one part stay there. Further passes take each item out and fit it anew, so the sum of
    squared loads never rises.
    """
    n_corners = 1 << dimensions
    owners = np.full(len(pointer) - 1, -1, np.int32)
    load = np.zeros((2, dimensions + 2, n_parts), np.int64)  # sent, received
    ends = np.empty((dimensions + 1, n_corners), np.int64)
    n_ends = np.zeros(dimensions + 1, np.int64)
    found = np.empty(n_corners, np.int64)
    prices = np.empty((2 * n_corners, 2), np.int64)
    marks = np.full((5, 2 * n_corners), -1, np.int64)
    mark = 0
    for number in range(n_passes):
        for item in order:
            members = parts[pointer[item] : pointer[item + 1]]
            if len(members) < 2:
                if len(members) == 1:
                    owners[item] = members[0]
                continue
            if number > 0:
                add_route(members, owners[item], dimensions, -1, load[0], load[1], marks[4], mark)
            mark += 1
            owners[item] = _best_owner(
                members, dimensions, load, ends, n_ends, found, prices, marks, mark
            )
            mark += 1
            add_route(members, owners[item], dimensions, 1, load[0], load[1], marks[4], mark)
            mark += 1
    return owners
