"""Recursive bipartitioning, breadth first, to any number of parts.

                      K = 5, target 3 : 2
             2 : 1                         1 : 1          a left side takes ⌈K/2⌉ parts
        1 : 1       {2}                {3}       {4}
     {0}     {1}

Abubaker et al., Algorithm 3: a net that a bipartition cuts is split between the sides (or removed,
as the objective says), and λ of its *ancestor*, the net of the whole hypergraph, rises at once;
every later bipartition of any of its subnets prices it at toll[λ + 1] - toll[λ]. (The algorithm as
printed runs k to 2^ℓ in its last loop; it is 2^ℓ - 1.)

Imbalance a bipartition may use: (L K' / W')^(1 / ⌈log2 K'⌉) - 1, where W' and K' are the piece's
weight and parts, and L the weight that a final part may reach. A piece that came out light leaves
more freedom to its own bipartitions, and no path of the tree can exceed L.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from daskpart._jit import kernel
from daskpart.errors import EngineError
from daskpart.hypergraph import Hypergraph

from .balance import heaviest_allowed

if TYPE_CHECKING:
    from .engine import Engine
    from .objectives import Objective


@dataclass(frozen=True)
class RecursiveResult:
    """What recursive bipartitioning found.

    Parameters
    ----------
    assignment : int32[n_vertices]
    cost_paid : int
        Sum of the prices of all nets cut: Σ cost × toll[λ] of the assignment, exactly.
    n_bipartitions : int
        Calls of the engine.
    engine_seconds : float
        Time spent in these calls.
    """

    assignment: NDArray[np.int32]
    cost_paid: int
    n_bipartitions: int
    engine_seconds: float


@dataclass(frozen=True)
class _Piece:
    """A node of the recursion: a sub-hypergraph that is to become n_parts parts."""

    hypergraph: Hypergraph
    vertices: NDArray[np.int32]  # numbers in the whole hypergraph
    ancestors: NDArray[np.int32]  # nets of the whole hypergraph
    first_part: int
    n_parts: int

    @property
    def n_left(self) -> int:
        return (self.n_parts + 1) // 2


@kernel
def _number_sides(sides: NDArray) -> NDArray:
    """The number of each vertex among those of its side."""
    number = np.empty(len(sides), np.int32)
    n_left = 0
    for vertex in range(len(sides)):
        if sides[vertex] == 0:
            number[vertex] = n_left
            n_left += 1
        else:
            number[vertex] = vertex - n_left
    return number


@kernel
def _split_nets(
    net_pointer: NDArray,
    pins: NDArray,
    prices: NDArray,
    ancestors: NDArray,
    sides: NDArray,
    number: NDArray,
    keeps_cut_nets: bool,
    connectivity: NDArray,
    pointers: NDArray,
    side_pins: NDArray,
    side_ancestors: NDArray,
) -> tuple[int, int, int]:
    """One pass over the pins: both sides' nets, and λ of the ancestors of the cut nets raised.

    Row s of the last three arrays takes side s. Subnets of fewer than two pins can never be cut
    again and are left out. Returns the cost paid and the number of nets of each side.
    """
    paid = 0
    n_nets = np.zeros(2, np.int64)
    ends = np.zeros(2, np.int64)
    for net in range(len(net_pointer) - 1):
        starts_left, starts_right = ends[0], ends[1]
        for position in range(net_pointer[net], net_pointer[net + 1]):
            pin = pins[position]
            side = sides[pin]
            side_pins[side, ends[side]] = number[pin]
            ends[side] += 1
        cut = ends[0] > starts_left and ends[1] > starts_right
        if cut:
            paid += prices[net]
            connectivity[ancestors[net]] += 1
        for side in range(2):
            start = starts_left if side == 0 else starts_right
            if ends[side] - start < 2 or (cut and not keeps_cut_nets):
                ends[side] = start
            else:
                side_ancestors[side, n_nets[side]] = ancestors[net]
                n_nets[side] += 1
                pointers[side, n_nets[side]] = ends[side]
    return paid, n_nets[0], n_nets[1]


def recursive_bipartition(
    hypergraph: Hypergraph,
    n_parts: int,
    objective: Objective,
    engine: Engine,
    epsilon: float = 0.03,
    random_state: int = 0,
    fixed: NDArray[np.int32] | None = None,
) -> RecursiveResult:
    """Cut a hypergraph into n_parts by n_parts - 1 bipartitions.

    Parameters
    ----------
    hypergraph : Hypergraph
    n_parts : int
        Any number from 1 to n_vertices.
    objective : Objective
        Prices the nets.
    engine : Engine
        Anything with `bipartition` (see `daskpart.partitioners.engine`).
    epsilon : float
        Asked imbalance of the final parts.
    random_state : int
        Each bipartition gets a seed of its own, drawn from this and its place in the tree.
    fixed : int32[n_vertices], optional
        The part that a vertex must go to, -1 where it is free.

    Raises
    ------
    EngineError
        The engine's answer is not one side (0 or 1) a vertex, or moves a fixed vertex.
    """
    tolls = objective.tolls(n_parts)
    steps = np.append(np.diff(tolls), 0)  # steps[λ]: what the next cut costs
    connectivity = np.ones(hypergraph.n_nets, np.int32)
    allowed = heaviest_allowed(hypergraph.total_weight, n_parts, epsilon)
    assignment = np.zeros(hypergraph.n_vertices, np.int32)
    pieces = deque([_root(hypergraph, n_parts)])
    cost_paid, n_bipartitions, engine_seconds = 0, 0, 0.0
    while pieces:
        piece = pieces.popleft()
        if piece.n_parts == 1 or len(piece.vertices) < 2:
            assignment[piece.vertices] = piece.first_part
            continue
        prices = hypergraph.net_costs[piece.ancestors] * steps[connectivity[piece.ancestors]]
        priced = replace(piece.hypergraph, net_costs=prices)
        started = time.perf_counter()
        sides = _bipartition(priced, piece, engine, allowed, random_state, fixed)
        engine_seconds += time.perf_counter() - started
        n_bipartitions += 1
        children, paid = _split(priced, piece, sides, objective.keeps_cut_nets, connectivity)
        pieces.extend(children)
        cost_paid += paid
    if fixed is not None:  # only a piece of a single vertex may still differ
        assignment[fixed >= 0] = fixed[fixed >= 0]
    return RecursiveResult(assignment, cost_paid, n_bipartitions, engine_seconds)


def _root(hypergraph: Hypergraph, n_parts: int) -> _Piece:
    every_vertex = np.arange(hypergraph.n_vertices, dtype=np.int32)
    every_net = np.arange(hypergraph.n_nets, dtype=np.int32)
    return _Piece(hypergraph, every_vertex, every_net, 0, n_parts)


def _bipartition(
    priced: Hypergraph,
    piece: _Piece,
    engine: Engine,
    allowed: int,
    random_state: int,
    fixed: NDArray[np.int32] | None,
) -> NDArray[np.int8]:
    """Ask the engine for two sides, with targets as the parts on either side."""
    if priced.total_weight == 0:  # weights that say nothing: balance the number of vertices
        priced = replace(priced, vertex_weights=np.ones_like(priced.vertex_weights))
        allowed = -(-priced.n_vertices // piece.n_parts)
    total = priced.total_weight
    left = min(-(-total * piece.n_left // piece.n_parts), total)
    targets = np.array([left, total - left], np.int64)
    depth = (piece.n_parts - 1).bit_length()
    freedom = (allowed * piece.n_parts / total) ** (1 / depth) - 1
    wanted = None if fixed is None else _fixed_sides(piece, fixed)
    seeds = np.random.SeedSequence([random_state, piece.first_part, piece.n_parts])
    seed = int(seeds.generate_state(1)[0])
    sides = np.asarray(engine.bipartition(priced, targets, max(freedom, 0.0), wanted, seed))
    return _checked_sides(sides, len(piece.vertices), wanted, engine)


def _fixed_sides(piece: _Piece, fixed: NDArray[np.int32]) -> NDArray[np.int8]:
    parts = fixed[piece.vertices]
    sides = (parts >= piece.first_part + piece.n_left).astype(np.int8)
    return np.where(parts < 0, np.int8(-1), sides)


def _checked_sides(
    sides: NDArray, n_vertices: int, wanted: NDArray[np.int8] | None, engine: Engine
) -> NDArray[np.int8]:
    name = getattr(engine, "name", type(engine).__name__)
    if sides.shape != (n_vertices,) or not ((sides == 0) | (sides == 1)).all():
        raise EngineError(
            f"engine {name!r} answered an array of shape {sides.shape} and type {sides.dtype}: "
            f"{n_vertices} sides, each 0 or 1, were asked"
        )
    if wanted is not None and ((wanted >= 0) & (wanted != sides)).any():
        moved = int(np.flatnonzero((wanted >= 0) & (wanted != sides))[0])
        raise EngineError(f"engine {name!r} moved fixed vertex {moved} to side {sides[moved]}")
    return sides.astype(np.int8, copy=False)


def _split(
    priced: Hypergraph,
    piece: _Piece,
    sides: NDArray[np.int8],
    keeps_cut_nets: bool,
    connectivity: NDArray[np.int32],
) -> tuple[tuple[_Piece, _Piece], int]:
    """The two pieces that a bipartition leaves, and what the cut nets paid."""
    number = _number_sides(sides)
    pointers = np.zeros((2, priced.n_nets + 1), np.int64)
    side_pins = np.empty((2, priced.n_pins), np.int32)
    side_ancestors = np.empty((2, priced.n_nets), np.int32)
    paid, *n_nets = _split_nets(
        priced.net_pointer,
        priced.pins,
        priced.net_costs,
        piece.ancestors,
        sides,
        number,
        keeps_cut_nets,
        connectivity,
        pointers,
        side_pins,
        side_ancestors,
    )
    children = []
    for side, first, n_parts in (
        (0, piece.first_part, piece.n_left),
        (1, piece.first_part + piece.n_left, piece.n_parts - piece.n_left),
    ):
        here = sides == side
        # copies, so that the buffers of the whole piece can go
        pointer = pointers[side, : n_nets[side] + 1].copy()
        part = Hypergraph(
            n_vertices=int(here.sum()),
            net_pointer=pointer,
            pins=side_pins[side, : pointer[-1]].copy(),
            vertex_weights=piece.hypergraph.vertex_weights[here],
            net_costs=np.zeros(n_nets[side], np.int64),  # priced when its turn comes
        )
        ancestors = side_ancestors[side, : n_nets[side]].copy()
        children.append(_Piece(part, piece.vertices[here], ancestors, first, n_parts))
    return (children[0], children[1]), int(paid)
