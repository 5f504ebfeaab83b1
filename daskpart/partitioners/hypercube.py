"""Hypercube mapping: each level of the recursion decides one bit of the ranks, least first.

    level 0, bit 0          {all}                    net n is split:     n ─┬─ n' in 0
    level 1, bit 1     {xx0}     {xx1}                                      └─ n" in 1
    level 2, bit 2   x00   x10  x01   x11
                                            {xx0} first: n' cut        -> n" is left out (removal)
    at each level, piece after piece:                    n' all left   -> n" + pin fixed left
                                                         n' all right  -> n" + pin fixed right

A row pays once for each bit in which its sharers differ, however many subnets differ there. So the
state of the siblings of one ancestor is kept over a level (nil, left, right, or both: cut), and a
subnet pays only if it takes its ancestor to *cut* first: the costs paid over the whole recursion
are Σ cost × popcount(OR & ~AND) of the final ranks, exactly. A subnet of a single pin still says
where its ancestor is, and with an anchor it can be cut, so it is kept.

Abubaker et al., latency hiding in sparse tensor decomposition, §5.2, Fig. 2 and Algorithm 3. There
K is a power of two. Here a piece of the ranks ≡ b (mod 2^d) below K is split by bit d as long as it
holds two; at the last level the corners below 2^⌊log2 K⌋ split from the ranks that fold onto them,
and corners without one come first, as their bit is 0 already.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel, working_clock
from daskpart.hypergraph import Hypergraph

from .balance import heaviest_allowed
from .engine import Engine
from .pieces import Piece, halve, root, two_sides
from .recursive import RecursiveResult

_CUT = 3  # left is 1, right is 2


@kernel
def _note_sides(
    net_pointer: NDArray,
    pins: NDArray,
    ancestors: NDArray,
    sides: NDArray,
    costs: NDArray,
    state: NDArray,
) -> int:
    """Add each subnet's sides to the state of its ancestor; returns the costs of those now cut."""
    paid = 0
    for net in range(len(net_pointer) - 1):
        ancestor = ancestors[net]
        before = state[ancestor]
        for position in range(net_pointer[net], net_pointer[net + 1]):
            state[ancestor] |= 1 + sides[pins[position]]
        if before != _CUT and state[ancestor] == _CUT:
            paid += costs[ancestor]
    return paid


@kernel
def _anchor(
    net_pointer: NDArray, pins: NDArray, ancestors: NDArray, state: NDArray, n_vertices: int
) -> tuple[NDArray, NDArray, NDArray]:
    """Nets that can still pay, each pinned to where its siblings are: pointer, pins, which nets.

    Vertex n_vertices is to be fixed left, n_vertices + 1 right.
    """
    n_nets = len(net_pointer) - 1
    pointer = np.zeros(n_nets + 1, np.int64)
    kept_pins = np.empty(len(pins) + n_nets, np.int32)
    kept = np.empty(n_nets, np.int32)
    n_kept, end = 0, 0
    for net in range(n_nets):
        known = state[ancestors[net]]
        n_pins = net_pointer[net + 1] - net_pointer[net]
        if known == _CUT or (known == 0 and n_pins < 2):
            continue
        for position in range(net_pointer[net], net_pointer[net + 1]):
            kept_pins[end] = pins[position]
            end += 1
        if known != 0:
            kept_pins[end] = n_vertices + known - 1
            end += 1
        kept[n_kept] = net
        n_kept += 1
        pointer[n_kept] = end
    return pointer[: n_kept + 1], kept_pins[:end], kept[:n_kept]


def hypercube_mapping(
    hypergraph: Hypergraph,
    n_parts: int,
    engine: Engine,
    epsilon: float = 0.03,
    random_state: int = 0,
    fixed: NDArray[np.int32] | None = None,
) -> RecursiveResult:
    """Parts that are ranks of a hypercube, at a small concurrent volume.

    Parameters, errors: see `recursive_bipartition`. Of any number of parts, ranks from
    2^⌊log2 n_parts⌋ on are the partners, one bit further, of those that they fold onto; the engine
    must take fixed vertices of weight 0.

    Returns
    -------
    RecursiveResult
        Its `cost_paid` is `Connectivity.concurrent_volume` of the assignment.
    """
    allowed = heaviest_allowed(hypergraph.total_weight, n_parts, epsilon)
    pieces = [root(hypergraph, n_parts)]
    cost_paid, engine_seconds = 0, 0.0
    for bit in range((n_parts - 1).bit_length()):
        level = _Level(hypergraph.net_costs, engine, allowed, random_state, fixed, bit)
        pieces = level.split_all(pieces)
        cost_paid += level.cost_paid
        engine_seconds += level.engine_seconds
    assignment = np.zeros(hypergraph.n_vertices, np.int32)
    for piece in pieces:
        assignment[piece.vertices] = piece.first_part
    return RecursiveResult(assignment, cost_paid, engine_seconds)


class _Level:
    """One level of the recursion: the state of every net of the whole hypergraph, nil at first."""

    def __init__(
        self,
        costs: NDArray[np.int64],
        engine: Engine,
        allowed: int,
        random_state: int,
        fixed: NDArray[np.int32] | None,
        bit: int,
    ) -> None:
        self.costs, self.engine, self.allowed = costs, engine, allowed
        self.random_state, self.fixed, self.bit = random_state, fixed, bit
        self.state = np.zeros(len(costs), np.int8)
        self.connectivity = np.ones(len(costs), np.int32)  # `halve` counts it; no price needs it
        self.cost_paid, self.engine_seconds = 0, 0.0

    def split_all(self, pieces: list[Piece]) -> list[Piece]:
        """Both sides of every piece, those of one part (whose bit is 0) first and as they are."""
        whole = [piece for piece in pieces if piece.n_parts == 1]
        for piece in whole:
            self._note(piece, np.zeros(len(piece.vertices), np.int8))
        halves = [half for piece in pieces if piece.n_parts > 1 for half in self._split(piece)]
        return whole + halves

    def _split(self, piece: Piece) -> tuple[Piece, Piece]:
        sides = self._sides(piece)
        self._note(piece, sides)
        prices, first_right = piece.hypergraph.net_costs, piece.first_part + (1 << self.bit)
        children, _ = halve(piece, sides, prices, first_right, self.connectivity, least_pins=1)
        return children

    def _note(self, piece: Piece, sides: NDArray[np.int8]) -> None:
        nets = piece.hypergraph
        self.cost_paid += int(
            _note_sides(nets.net_pointer, nets.pins, piece.ancestors, sides, self.costs, self.state)
        )

    def _sides(self, piece: Piece) -> NDArray[np.int8]:
        """The engine's bipartition of the piece with its two anchors."""
        nets, n_vertices = piece.hypergraph, len(piece.vertices)
        wanted = self._wanted(piece)
        if n_vertices == 0:
            return wanted[:-2]
        pointer, pins, kept = _anchor(
            nets.net_pointer, nets.pins, piece.ancestors, self.state, n_vertices
        )
        anchored = Hypergraph(
            n_vertices=n_vertices + 2,
            net_pointer=pointer,
            pins=pins,
            vertex_weights=np.append(nets.vertex_weights, [0, 0]),
            net_costs=self.costs[piece.ancestors[kept]],
        )
        seeds = [self.random_state, piece.first_part, self.bit]
        started = working_clock()
        sides = two_sides(anchored, piece.n_parts, self.engine, self.allowed, seeds, wanted)
        self.engine_seconds += working_clock() - started
        return sides[:-2]

    def _wanted(self, piece: Piece) -> NDArray[np.int8]:
        """The side of each vertex and of the two anchors, -1 where it is free."""
        wanted = np.full(len(piece.vertices) + 2, -1, np.int8)
        wanted[-2:] = 0, 1
        if self.fixed is not None:
            parts = self.fixed[piece.vertices]
            wanted[:-2] = np.where(parts < 0, -1, (parts >> self.bit) & 1)
        return wanted
