"""Moves of single vertices that lower the concurrent volume: each bit of a rank is a cut of its
own.

    net n, 5 pins in ranks  001 001 011 001 101       bit 2   bit 1   bit 0
    pins that have the bit                              1       1       5
    n pays                                            cost    cost      -

    v in 101 is alone in bit 2 of n: to flip that bit gains the cost, whatever other bits do

A net pays for a bit if some of its pins have it and some do not, so the concurrent volume is the
sum over the bits of a cut of the whole hypergraph in two. What a move from p to q gains is the sum
of what the bits of p XOR q gain, and the best of all K parts is found exactly, in about K steps.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel
from daskpart.hypergraph import Hypergraph
from daskpart.partitioners.balance import is_free
from daskpart.partitioners.rounds import run_rounds
from daskpart.partitions import Partition


def _count_bits(
    hypergraph: Hypergraph, assignment: NDArray[np.int32], n_bits: int
) -> NDArray[np.int32]:
    """Pins of each net that have each bit, int32[n_nets, n_bits]."""
    counts = np.zeros((hypergraph.n_nets, n_bits), np.int32)
    net_of = np.repeat(np.arange(hypergraph.n_nets), np.diff(hypergraph.net_pointer))
    parts = assignment[hypergraph.pins]
    for bit in range(n_bits):
        has_bit = (parts >> bit) & 1 == 1
        counts[:, bit] = np.bincount(net_of[has_bit], minlength=hypergraph.n_nets)
    return counts


def _volume(hypergraph: Hypergraph, counts: NDArray[np.int32]) -> int:
    """Σ cost × bits that some pins have and some do not."""
    differ = (counts > 0) & (counts < np.diff(hypergraph.net_pointer)[:, None])
    return int(hypergraph.net_costs @ differ.sum(axis=1))


@kernel
def _gains_of_bits(
    vertex_nets: NDArray,
    own: int,
    net_pointer: NDArray,
    costs: NDArray,
    counts: NDArray,
    steps: NDArray,
    gains: NDArray,
) -> bool:
    """What it gains to flip each bit of the vertex; whether any of them gains."""
    last = len(steps) - 1
    promising = False
    for bit in range(counts.shape[1]):
        gain = 0.0
        for net in vertex_nets:
            n_pins = net_pointer[net + 1] - net_pointer[net]
            here = counts[net, bit] if (own >> bit) & 1 else n_pins - counts[net, bit]
            there = n_pins - here + 1
            if last < 0:
                gain += costs[net] * ((here == 1) - (there == 1))
            else:
                gain += costs[net] * (steps[min(here, last)] - steps[min(there, last)])
        gains[bit] = gain
        promising = promising or gain > 1e-6
    return promising


@kernel
def _best_part(
    own: int, weight: int, gains: NDArray, load: NDArray, most: int, sums: NDArray
) -> int:
    """The part with room that gains most, the vertex's own if none gains. `sums` is scratch."""
    sums[0] = 0.0
    for bit in range(len(gains)):  # sums[m]: what the bits of m gain
        for flipped in range(1 << bit):
            sums[flipped | (1 << bit)] = sums[flipped] + gains[bit]
    best, best_gain = own, 1e-6
    for part in range(len(load)):
        gain = sums[part ^ own]
        if gain < best_gain or part == own or load[part] + weight > most:
            continue
        if gain > best_gain or (best != own and load[part] < load[best]):
            best, best_gain = part, gain
    return best


@kernel
def _one_round(
    order: NDArray,
    vertex_pointer: NDArray,
    nets: NDArray,
    net_pointer: NDArray,
    weights: NDArray,
    costs: NDArray,
    steps: NDArray,
    assignment: NDArray,
    load: NDArray,
    least: int,
    most: int,
    counts: NDArray,
) -> int:
    """Offer every vertex its best part once; returns how many moved."""
    gains = np.empty(counts.shape[1])
    sums = np.empty(1 << counts.shape[1])
    n_moved = 0
    for vertex in order:
        own = assignment[vertex]
        if load[own] - weights[vertex] < least:
            continue
        mine = nets[vertex_pointer[vertex] : vertex_pointer[vertex + 1]]
        if not _gains_of_bits(mine, own, net_pointer, costs, counts, steps, gains):
            continue
        best = _best_part(own, weights[vertex], gains, load, most, sums)
        if best == own:
            continue
        for net in mine:
            for bit in range(counts.shape[1]):
                counts[net, bit] += ((best >> bit) & 1) - ((own >> bit) & 1)
        assignment[vertex] = best
        load[own] -= weights[vertex]
        load[best] += weights[vertex]
        n_moved += 1
    return n_moved


def lower_concurrent_volume(
    hypergraph: Hypergraph,
    assignment: NDArray[np.int32],
    n_parts: int,
    bounds: tuple[int, int],
    *,
    random_state: int = 0,
    fixed: NDArray[np.int32] | None = None,
    max_rounds: int = 8,
) -> NDArray[np.int32]:
    """Lower Σ cost × popcount(OR & ~AND) of the part numbers by moves of single vertices.

    Parameters, result: see `daskpart.partitioners.label_propagation.polish`. A round takes about
    log K steps a pin and K a vertex.
    """
    smooth, plain = (
        _descend(hypergraph, assignment, n_parts, bounds, random_state, fixed, max_rounds, smoothed)
        for smoothed in (True, False)
    )
    return min((assignment, 0), smooth, plain, key=lambda found: found[1])[0]


def _descend(
    hypergraph: Hypergraph,
    assignment: NDArray[np.int32],
    n_parts: int,
    bounds: tuple[int, int],
    random_state: int,
    fixed: NDArray[np.int32] | None,
    max_rounds: int,
    smoothed: bool,
) -> tuple[NDArray[np.int32], int]:
    """All rounds from one start, with or without the smoothed ones; and the change of volume."""
    n_bits = (n_parts - 1).bit_length()
    moved = assignment.astype(np.int32)
    load = Partition(moved, n_parts, hypergraph.vertex_weights).part_weights.copy()
    counts = _count_bits(hypergraph, moved, n_bits)
    free = np.flatnonzero(is_free(fixed, hypergraph.n_vertices))
    rng = np.random.default_rng(random_state)

    def offer_all(steps: NDArray[np.float64]) -> int:
        return _one_round(
            rng.permutation(free),
            hypergraph.vertex_pointer,
            hypergraph.nets,
            hypergraph.net_pointer,
            hypergraph.vertex_weights,
            hypergraph.net_costs,
            steps,
            moved,
            load,
            *bounds,
            counts,
        )

    total = partial(_volume, hypergraph, counts)
    start = total()
    run_rounds(offer_all, total, len(free), max_rounds, smoothed=smoothed)
    return moved, total() - start
