"""Tensors as hypergraphs: single nonzeros or groups of them are dealt out, factor rows are shared.

    nonzero   i j k        fine grain           medium grain
    a         0 0 1        each a vertex        nonzeros of slice  i=0  j=0  j=1  k=0  k=1
    b         0 1 0                                                  2    1    2    2    1
    c         1 1 0                             a joins j=0 (1; k=1 is as small, j is longer), …

    nets: every index of every mode; those of mode m follow those of mode m - 1

A part that holds nonzeros of index i of mode m reads that row of factor m and adds to it: the net
says who shares it. A group lies in one slice, so the row of that slice need not travel for it; the
slice with the fewest nonzeros, over the modes, makes small groups, which balance well.

Fine grain: Kaya, Uçar, "Scalable sparse tensor decompositions in distributed memory systems", SC
2015.
Medium grain: Karsavuran, Acer, Aykanat, "Partitioning models for general medium-grain parallel
sparse tensor decomposition", IEEE TPDS 32(1), 2021.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import whole_number
from daskpart._floor.kernels import kernel
from daskpart._incidence import transpose
from daskpart.containers.tensor import LabelledTensor, as_tensor
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph

from .model import DataModel

_LARGEST = int(np.iinfo(np.int32).max)


def fine_grain(tensor: Any, *, row_length: int = 1) -> DataModel:
    """Each nonzero a vertex of weight 1, each index of each mode a net.

    Parameters
    ----------
    tensor : container
        Whatever `daskpart.containers.as_tensor` takes; order 2 or more.
    row_length : int, default=1
        The cost of each net: values of a factor row, the rank R of a decomposition.

    Returns
    -------
    DataModel
        Net ``offset[m] + i`` is index i of mode m, where offset adds up the extents before m.

    Raises
    ------
    InputError
        As `as_tensor`; or a row length below 1; or more indices than 32 bits can number.

    Notes
    -----
    Two passes over the coordinates; memory is that of the pins and 8 bytes a nonzero for weights.
    """
    entries, offsets, costs = _checked(tensor, row_length)
    nonzeros = np.arange(entries.nnz, dtype=np.int32)
    pointer = np.zeros(len(costs) + 1, np.int64)
    np.cumsum(_slice_sizes(entries), out=pointer[1:])
    hypergraph = Hypergraph(
        n_vertices=entries.nnz,
        net_pointer=pointer,
        pins=_nonzeros_by_net(entries.coordinates, offsets, pointer),
        vertex_weights=np.ones(entries.nnz, np.int64),
        net_costs=costs,
    )
    return _model("fine-grain", hypergraph, nonzeros, entries, row_length)


def medium_grain(tensor: Any, *, row_length: int = 1) -> DataModel:
    """Groups of nonzeros as vertices, their weight the size; each index of each mode a net.

    Each nonzero joins the slice, over its modes, that has the fewest nonzeros; of equal ones that
    of the longer mode, then of the earlier mode. Slices that no nonzero joins are no vertices.

    Parameters, result, errors: see `fine_grain`.

    Notes
    -----
    Counting passes over the coordinates; memory is that of the coordinates, and of the pins.
    """
    entries, offsets, costs = _checked(tensor, row_length)
    sizes = _slice_sizes(entries)
    longest_first = np.argsort(-np.array(entries.shape), kind="stable")
    slice_of = _smallest_slice(entries.coordinates, offsets, sizes, longest_first)
    weights = np.bincount(slice_of, minlength=len(costs))
    joined = weights > 0
    number = np.cumsum(joined, dtype=np.int32) - np.int32(1)
    vertex_of, weights = number[slice_of], weights[joined]
    nets = _nets_by_vertex(entries.coordinates, offsets, vertex_of, weights)
    vertex_pointer = np.zeros(len(weights) + 1, np.int64)
    np.cumsum(weights * entries.n_modes, out=vertex_pointer[1:])
    net_pointer, pins = transpose(vertex_pointer, nets, len(costs))
    hypergraph = Hypergraph(len(weights), net_pointer, pins, weights.astype(np.int64), costs)
    return _model("medium-grain", hypergraph, vertex_of, entries, row_length)


def _model(
    name: str,
    hypergraph: Hypergraph,
    vertex_of: NDArray[np.int32],
    tensor: LabelledTensor,
    row_length: int,
) -> DataModel:
    return DataModel(
        hypergraph,
        name,
        shape=tensor.shape,
        nnz=tensor.nnz,
        vertex_of=vertex_of,
        tensor=tensor,
        row_length=row_length,
    )


def _checked(
    tensor: Any, row_length: int
) -> tuple[LabelledTensor, NDArray[np.int64], NDArray[np.int64]]:
    """The tensor, the first net of each mode, and the cost of each net."""
    cost = whole_number(row_length, "row_length", least=1)
    entries = as_tensor(tensor)
    offsets = np.concatenate([[0], np.cumsum(entries.shape, dtype=np.int64)])
    if max(int(offsets[-1]), entries.nnz) > _LARGEST:
        raise InputError(
            f"a tensor of shape {entries.shape} with {entries.nnz} nonzeros has too many indices "
            f"or nonzeros for a hypergraph, which numbers up to {_LARGEST}: cut a part of it"
        )
    return entries, offsets[:-1], np.full(int(offsets[-1]), cost, np.int64)


def _slice_sizes(tensor: LabelledTensor) -> NDArray[np.int64]:
    """Nonzeros of each index of each mode, int64[n_nets]."""
    modes = zip(tensor.coordinates, tensor.shape, strict=True)
    return np.concatenate([np.bincount(index, minlength=extent) for index, extent in modes])


@kernel
def _nonzeros_by_net(coordinates: NDArray, offsets: NDArray, pointer: NDArray) -> NDArray:
    """Nonzeros of every net, rising: a pass over each mode."""
    following = pointer[:-1].copy()
    pins = np.empty(coordinates.size, np.int32)
    for mode in range(len(coordinates)):
        for nonzero in range(coordinates.shape[1]):
            net = offsets[mode] + coordinates[mode, nonzero]
            pins[following[net]] = nonzero
            following[net] += 1
    return pins


@kernel
def _smallest_slice(
    coordinates: NDArray, offsets: NDArray, sizes: NDArray, longest_first: NDArray
) -> NDArray:
    """The net of the smallest slice that each nonzero lies in, int32[nnz]."""
    chosen = np.empty(coordinates.shape[1], np.int32)
    for nonzero in range(coordinates.shape[1]):
        best = np.int64(-1)
        for mode in longest_first:
            net = offsets[mode] + coordinates[mode, nonzero]
            if best < 0 or sizes[net] < sizes[best]:
                best = net
        chosen[nonzero] = best
    return chosen


@kernel
def _nets_by_vertex(
    coordinates: NDArray, offsets: NDArray, vertex_of: NDArray, sizes: NDArray
) -> NDArray:
    """The nets of the nonzeros of each vertex, one after another and with repeats."""
    n_modes = len(coordinates)
    nets = np.empty(coordinates.size, np.int32)
    following = np.cumsum(sizes) * n_modes
    for nonzero in range(coordinates.shape[1] - 1, -1, -1):
        vertex = vertex_of[nonzero]
        following[vertex] -= n_modes
        for mode in range(n_modes):
            nets[following[vertex] + mode] = offsets[mode] + coordinates[mode, nonzero]
    return nets
