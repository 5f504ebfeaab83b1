"""The pieces of a recursion: a sub-hypergraph on its way to become several parts, and its halving.

    piece: vertices 0 2 5 7, parts 0..2        net a {0 2 5}   sides 0 0 1
      ├─ left   0 2, parts 0 1                     a' {0 2}
      └─ right  5 7, part 2                        a" {5}      both know their ancestor, net a

Imbalance a bipartition may use: (L K' / W')^(1 / ⌈log2 K'⌉) - 1, where W' and K' are the piece's
weight and parts, and L the weight that a final part may reach. A piece that came out light leaves
more freedom to its own bipartitions, and no path of the tree can exceed L.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel
from daskpart.errors import EngineError
from daskpart.hypergraph import Hypergraph

from .balance import with_weights
from .checks import LARGEST_EPSILON, checked_answer

if TYPE_CHECKING:
    from .engine import Engine


@dataclass(frozen=True)
class Piece:
    """A node of the recursion: a sub-hypergraph that is to become n_parts parts.

    Parameters
    ----------
    hypergraph : Hypergraph
        Its vertices and what is left of the nets; net costs are set when it is bipartitioned.
    vertices : int32[n_vertices]
        Their numbers in the whole hypergraph.
    ancestors : int32[n_nets]
        The net of the whole hypergraph that each net comes from.
    first_part, n_parts : int
        The least of its parts, and how many it is to become.
    """

    hypergraph: Hypergraph
    vertices: NDArray[np.int32]
    ancestors: NDArray[np.int32]
    first_part: int
    n_parts: int

    @property
    def n_left(self) -> int:
        """Parts of the left side: ⌈n_parts / 2⌉."""
        return (self.n_parts + 1) // 2


def _number_sides(sides: NDArray[np.int8]) -> NDArray[np.int32]:
    """The number of each vertex among those of its side."""
    n_right = np.cumsum(sides, dtype=np.int32)
    return np.where(sides == 0, np.arange(len(sides), dtype=np.int32) - n_right, n_right - 1)


@kernel
def _split_nets(
    net_pointer, pins, prices, ancestors, sides, number, keeps_cut_nets, least_pins, connectivity,
    pointers, side_pins, side_ancestors, n_nets, ends,
):  # fmt: skip
    """One pass over the pins: both sides' nets, and λ of the ancestors of the cut nets raised.

    Row s of the last five arrays takes side s; the last two, nets and pins of each side, are 0
    before. Returns the cost paid.
    """
    paid = 0
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
            if ends[side] - start < least_pins or (cut and not keeps_cut_nets):
                ends[side] = start
            else:
                side_ancestors[side, n_nets[side]] = ancestors[net]
                n_nets[side] += 1
                pointers[side, n_nets[side]] = ends[side]
    return paid


def root(hypergraph: Hypergraph, n_parts: int) -> Piece:
    """The whole hypergraph as a piece."""
    every_vertex = np.arange(hypergraph.n_vertices, dtype=np.int32)
    every_net = np.arange(hypergraph.n_nets, dtype=np.int32)
    return Piece(hypergraph, every_vertex, every_net, 0, n_parts)


def two_sides(
    hypergraph: Hypergraph,
    n_parts: int,
    engine: Engine,
    allowed: int,
    seeds: list[int],
    wanted: NDArray[np.int8] | None,
) -> NDArray[np.int8]:
    """Ask the engine for two sides, with targets as the parts on either side.

    Parameters
    ----------
    hypergraph : Hypergraph
        With the net costs that a cut is to pay. If no vertex weighs anything, their number is
        balanced; vertices of weight 0 that are fixed then count too.
    n_parts : int
        At least 2; the left side is to become ⌈n_parts / 2⌉ of them.
    engine : Engine
    allowed : int
        The weight that a final part may reach.
    seeds : list of int
        What the engine's seed is drawn from.
    wanted : int8[n_vertices], optional
        The side of each fixed vertex, -1 where it is free.

    Raises
    ------
    EngineError
        The engine's answer is not one side (0 or 1) a vertex, or moves a fixed vertex.
    """
    if hypergraph.total_weight == 0:
        hypergraph = with_weights(hypergraph)
        allowed = -(-hypergraph.n_vertices // n_parts)
    total = hypergraph.total_weight
    left = min(-(-total * ((n_parts + 1) // 2) // n_parts), total)
    targets = np.array([left, total - left], np.int64)
    freedom = (allowed * n_parts / total) ** (1 / (n_parts - 1).bit_length()) - 1
    # a light piece may all be on one side: no engine takes, or needs, an ε beyond the largest
    freedom = min(max(freedom, 0.0), LARGEST_EPSILON)
    seed = int(np.random.SeedSequence(seeds).generate_state(1)[0])
    answer = np.asarray(engine.bipartition(hypergraph, targets, freedom, wanted, seed))
    sides = checked_answer(answer, hypergraph.n_vertices, 2, engine.name).astype(np.int8)
    if wanted is not None and ((wanted >= 0) & (wanted != sides)).any():
        moved = int(np.flatnonzero((wanted >= 0) & (wanted != sides))[0])
        raise EngineError(
            f"engine {engine.name!r} moved fixed vertex {moved} to side {sides[moved]}"
        )
    return sides


def halve(
    piece: Piece,
    sides: NDArray[np.int8],
    prices: NDArray[np.int64],
    first_right: int,
    connectivity: NDArray[np.int32],
    *,
    keeps_cut_nets: bool = True,
    least_pins: int = 2,
) -> tuple[tuple[Piece, Piece], int]:
    """The two pieces that a bipartition leaves, and what the cut nets paid.

    Parameters
    ----------
    piece : Piece
    sides : int8[n_vertices]
    prices : int64[n_nets]
        What each net pays if it is cut.
    first_right : int
        The least part of the right side.
    connectivity : int32[n_nets of the whole hypergraph]
        Raised by one for the ancestor of each net cut.
    keeps_cut_nets : bool
        Whether a cut net is split; else it is removed.
    least_pins : int
        Subnets of fewer pins are left out; those of one can never be cut again.
    """
    nets = piece.hypergraph
    number = _number_sides(sides)
    pointers = np.zeros((2, nets.n_nets + 1), np.int64)
    side_pins = np.empty((2, nets.n_pins), np.int32)
    side_ancestors = np.empty((2, nets.n_nets), np.int32)
    n_nets, ends = np.zeros(2, np.int64), np.zeros(2, np.int64)
    paid = _split_nets(
        nets.net_pointer,
        nets.pins,
        prices,
        piece.ancestors,
        sides,
        number,
        keeps_cut_nets,
        least_pins,
        connectivity,
        pointers,
        side_pins,
        side_ancestors,
        n_nets,
        ends,
    )
    children = []
    for side, first, n_parts in (
        (0, piece.first_part, piece.n_left),
        (1, first_right, piece.n_parts - piece.n_left),
    ):
        here = sides == side
        # copies, so that the buffers of the whole piece can go
        pointer = pointers[side, : n_nets[side] + 1].copy()
        part = Hypergraph(
            n_vertices=int(here.sum()),
            net_pointer=pointer,
            pins=side_pins[side, : pointer[-1]].copy(),
            vertex_weights=nets.vertex_weights[here],
            net_costs=np.zeros(n_nets[side], np.int64),
        )
        ancestors = side_ancestors[side, : n_nets[side]].copy()
        children.append(Piece(part, piece.vertices[here], ancestors, first, n_parts))
    return (children[0], children[1]), int(paid)
