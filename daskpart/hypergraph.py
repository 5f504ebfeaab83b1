"""Nets and pins: which vertices share what, in compressed rows.

A rating matrix as its column-net hypergraph (Abubaker et al., η-PASGD, section 4):

          j0 j1 j2                      vertex i = row i,    weight = nonzeros of row i
      i0   x  .  x      net of j0: {0, 1}
      i1   x  x  .      net of j1: {1, 2}     net j = column j,  cost = 1
      i2   .  x  .      net of j2: {0}

Rows that go to different parts share the columns they both touch: a net of connectivity λ is a
factor row that λ ranks update. The row-net hypergraph is the same thing of the transposed matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._floor.archive import opened_npz
from ._floor.atomic import replacing
from ._floor.checks import amounts, one_of, whole_number, whole_numbers
from ._floor.tables import ShownAsTable
from ._incidence import group, transpose
from .containers.dask_blocks import column_nets, dask_inside
from .containers.matrix import as_graph_matrix, as_matrix
from .errors import InputError

_ARRAYS = ("net_pointer", "pins", "vertex_weights", "net_costs")


@dataclass(frozen=True, eq=False, repr=False)
class Hypergraph(ShownAsTable):
    """A hypergraph in compressed rows. `from_nets` checks its input; this constructor trusts it.

    Parameters
    ----------
    n_vertices : int
        Vertices are 0 … n_vertices - 1.
    net_pointer : int64[n_nets + 1]
        Net n joins ``pins[net_pointer[n]:net_pointer[n + 1]]``.
    pins : int32[n_pins]
        Sorted and without repetition within a net. Nets of no pin or one pin are kept.
    vertex_weights : int64[n_vertices]
        Not negative.
    net_costs : int64[n_nets]
        Not negative.

    Examples
    --------
    >>> import daskpart
    >>> hypergraph = daskpart.Hypergraph.from_nets([0, 2, 5], [0, 1, 1, 2, 3], n_vertices=4)
    >>> hypergraph.n_nets, hypergraph.n_vertices                # of vertices 0, 1, and 1, 2, 3
    (2, 4)
    """

    n_vertices: int
    net_pointer: NDArray[np.int64]
    pins: NDArray[np.int32]
    vertex_weights: NDArray[np.int64]
    net_costs: NDArray[np.int64]

    @classmethod
    def from_nets(
        cls,
        net_pointer: ArrayLike,
        pins: ArrayLike,
        n_vertices: int,
        vertex_weights: ArrayLike | None = None,
        net_costs: ArrayLike | None = None,
    ) -> Hypergraph:
        """Build a hypergraph from nets in compressed rows.

        Parameters
        ----------
        net_pointer : integers [n_nets + 1]
            Starts with 0, never falls, ends with the number of pins.
        pins : integers [n_pins]
            In any order; a vertex that a net names twice counts once.
        n_vertices : int
            At least 0; isolated vertices are welcome.
        vertex_weights, net_costs : whole numbers, optional
            At least 0; 1 each if not given.

        Raises
        ------
        InputError
            A pin out of range, a broken pointer, a negative, fractional or NaN weight or cost.
        """
        n_vertices = whole_number(n_vertices, "n_vertices", least=0)
        starts = whole_numbers(net_pointer, "net pointer entry")
        given = whole_numbers(pins, "pin")
        _check_pointer(starts, len(given))
        wrong = np.flatnonzero((given < 0) | (given >= n_vertices))
        if len(wrong):
            net = np.searchsorted(starts, wrong[0], side="right") - 1
            raise InputError(
                f"pin {given[wrong[0]]} of net {net} is out of range: with {n_vertices} vertices "
                f"the pins are 0 to {n_vertices - 1}"
            )
        n_nets = len(starts) - 1
        weights = amounts(vertex_weights, n_vertices, "vertex weight")
        costs = amounts(net_costs, n_nets, "net cost")
        vertex_pointer, nets = transpose(starts, given.astype(np.int32), n_vertices)
        pointer, sorted_pins = transpose(vertex_pointer, nets, n_nets)
        return cls(n_vertices, pointer, sorted_pins, weights, costs)

    @classmethod
    def column_net(cls, matrix: Any) -> Hypergraph:
        """Rows become vertices (weight: nonzeros of the row), columns become nets (cost 1).

        Parameters
        ----------
        matrix : sparse matrix, sparse.COO, DataFrame, DataArray, …
            Anything that `daskpart.containers.as_matrix` takes. A stored zero is a nonzero here.
        """
        entries = as_matrix(matrix)
        return from_incidence(entries.rows, entries.columns, *entries.shape)

    @classmethod
    def row_net(cls, matrix: Any) -> Hypergraph:
        """The dual: columns become vertices, rows become nets. See `column_net`."""
        entries = as_matrix(matrix)
        return from_incidence(entries.columns, entries.rows, *reversed(entries.shape))

    @classmethod
    def graph(cls, matrix: Any) -> Hypergraph:
        """A square matrix as a graph: one two-pin net for each edge of A + Aᵀ, self loops left out.

        Vertex weights are the nonzeros of the row, as in `column_net`; every edge costs 1.
        """
        instead = "use model='column-net' or 'row-net'"
        entries = as_graph_matrix(matrix, "the graph model needs", instead)
        rows, columns, shape = entries.rows, entries.columns, entries.shape
        proper = rows != columns
        low, high = np.minimum(rows, columns)[proper], np.maximum(rows, columns)[proper]
        pointer, higher = transpose(*group(high, low, shape[0]), shape[0])
        lower = np.repeat(np.arange(shape[0], dtype=np.int32), np.diff(pointer))
        return cls(
            n_vertices=shape[0],
            net_pointer=np.arange(0, 2 * len(higher) + 1, 2, dtype=np.int64),
            pins=np.stack([lower, higher], axis=1).ravel(),
            vertex_weights=np.bincount(rows, minlength=shape[0]).astype(np.int64),
            net_costs=np.ones(len(higher), np.int64),
        )

    @classmethod
    def from_dask(cls, array: Any, axis: Literal["rows", "columns"] = "rows") -> Hypergraph:
        """`column_net` (or `row_net`) of a Dask array, from the pattern alone. **Computes** chunks.

        Each chunk is turned into nets on the worker that holds it; values stay there. To this
        process come 4 bytes a nonzero and 8 a row and column of each chunk; at its peak it holds
        that and the hypergraph, where `column_net` first gathers nonzeros with their values.

        Parameters
        ----------
        array : dask.array.Array of sparse chunks, or an xarray.DataArray over one
            Two-dimensional, with chunks of known size.
        axis : "rows" or "columns", default="rows"
            What becomes the vertices.

        Raises
        ------
        InputError
            Chunks are dense or of unknown size; an entry is not finite.
        """
        one_of(axis, "axis", ("rows", "columns"))
        pointer, pins, weights = column_nets(dask_inside(array), axis)
        costs = np.ones(len(pointer) - 1, np.int64)
        return cls(len(weights), pointer, pins, weights, costs)

    @property
    def n_nets(self) -> int:
        """Number of nets, empty ones included."""
        return len(self.net_pointer) - 1

    @property
    def n_pins(self) -> int:
        """Number of (net, vertex) incidences."""
        return len(self.pins)

    @property
    def total_weight(self) -> int:
        """Sum of the vertex weights."""
        return int(self.vertex_weights.sum())

    @cached_property
    def _transposed(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        return transpose(self.net_pointer, self.pins, self.n_vertices)

    @property
    def vertex_pointer(self) -> NDArray[np.int64]:
        """int64[n_vertices + 1]: vertex v is in nets[vertex_pointer[v]:vertex_pointer[v + 1]]."""
        return self._transposed[0]

    @property
    def nets(self) -> NDArray[np.int32]:
        """int32[n_pins]: the nets of each vertex, sorted. Built on first use, then kept."""
        return self._transposed[1]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the hypergraph to one `.npz` file (no pickle); an old one goes when it is whole."""
        with replacing(path) as file:
            arrays = {name: getattr(self, name) for name in _ARRAYS}
            np.savez_compressed(file, n_vertices=np.int64(self.n_vertices), **arrays)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Hypergraph:
        """Read what `save` wrote; ReadError for a damaged file."""
        with opened_npz(path) as file:
            return cls(int(file["n_vertices"]), *(file[name] for name in _ARRAYS))

    def write(self, path: str | PathLike[str], format: str | None = None) -> None:
        """Write the hypergraph as text for another partitioner; `daskpart.read` reads it back.

        Parameters
        ----------
        path : str or path-like
            hMETIS ``.hgr``, PaToH ``.u`` or METIS ``.graph``; ``.gz``, ``.xz`` or ``.bz2`` behind
            compresses.
        format : "hgr", "patoh" or "metis", optional
            By default told from the name.

        Raises
        ------
        InputError
            No format is told; the file cannot be written; or, for METIS, a net has more than two
            pins.

        Notes
        -----
        Costs and weights are left out where all are 1. A net without pins is an empty line (with
        costs, the cost alone), for which KaHyPar and Mt-KaHyPar refuse the file; ``daskpart
        convert`` leaves such nets out. KaHyPar refuses weights of 0, too. METIS: nets of fewer
        than two pins and nets that cost nothing are left out, and equal edges become one, their
        costs added.
        """
        from .writers import write_hypergraph

        write_hypergraph(self, path, format)

    def __getstate__(self) -> dict[str, Any]:
        # the transposed incidence is rebuilt on demand: it need not travel
        return {name: value for name, value in self.__dict__.items() if name != "_transposed"}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Hypergraph):
            return NotImplemented
        same = (np.array_equal(getattr(self, name), getattr(other, name)) for name in _ARRAYS)
        return self.n_vertices == other.n_vertices and all(same)

    __hash__ = None  # type: ignore[assignment]

    def _rows(self) -> dict[str, Any]:
        sizes = np.diff(self.net_pointer)
        return {
            "vertices": self.n_vertices,
            "nets": self.n_nets,
            "pins": self.n_pins,
            "total weight": self.total_weight,
            "largest net": int(sizes.max(initial=0)),
            "nets of fewer than two pins": int(np.count_nonzero(sizes < 2)),
        }


def from_incidence(
    vertices: NDArray[np.int32], nets: NDArray[np.int32], n_vertices: int, n_nets: int
) -> Hypergraph:
    """From the vertex and the net of each nonzero, int32[nnz], trusted; costs are 1.

    Vertex weights count the nonzeros, equal ones too. Two counting passes: grouped by vertex first,
    so that the pins of a net come out sorted and once.
    """
    vertex_pointer, grouped = group(vertices, nets, n_vertices)
    net_pointer, pins = transpose(vertex_pointer, grouped, n_nets)
    return Hypergraph(
        n_vertices=int(n_vertices),
        net_pointer=net_pointer,
        pins=pins,
        vertex_weights=np.diff(vertex_pointer),
        net_costs=np.ones(n_nets, np.int64),
    )


def _check_pointer(pointer: NDArray[np.int64], n_pins: int) -> None:
    if len(pointer) == 0 or pointer[0] != 0 or pointer[-1] != n_pins:
        given = "is empty" if len(pointer) == 0 else f"runs from {pointer[0]} to {pointer[-1]}"
        raise InputError(f"net_pointer {given}: it must run from 0 to the number of pins, {n_pins}")
    falling = np.flatnonzero(np.diff(pointer) < 0)
    if len(falling):
        raise InputError(f"net_pointer falls after net {falling[0]}: it must never fall")
