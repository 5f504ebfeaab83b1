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

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.checks import whole_number
from daskpart._incidence import group
from daskpart.containers.tensor import LabelledTensor, as_tensor
from daskpart.errors import InputError
from daskpart.hypergraph import Hypergraph, from_incidence

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
    A counting sort a mode; memory is that of the pins and 8 bytes a nonzero for weights.
    """
    entries, _, costs = _checked(tensor, row_length)
    nonzeros = np.arange(entries.nnz, dtype=np.int32)
    modes = zip(entries.coordinates, entries.shape, strict=True)
    by_index = [group(index, nonzeros, extent) for index, extent in modes]
    sizes = np.concatenate([np.diff(pointer) for pointer, _ in by_index])
    hypergraph = Hypergraph(
        n_vertices=entries.nnz,
        net_pointer=np.concatenate([[0], np.cumsum(sizes)]),
        pins=np.concatenate([pins for _, pins in by_index]),
        vertex_weights=np.ones(entries.nnz, np.int64),
        net_costs=costs,
    )
    shape, nnz = entries.shape, entries.nnz
    return DataModel(hypergraph, "fine-grain", shape, nnz, nonzeros, entries, row_length)


def medium_grain(tensor: Any, *, row_length: int = 1) -> DataModel:
    """Groups of nonzeros as vertices, their weight the size; each index of each mode a net.

    Each nonzero joins the slice, over its modes, that has the fewest nonzeros; of equal ones that
    of the longer mode, then of the earlier mode. Slices that no nonzero joins are no vertices; the
    others are in the order of their modes, then of their indices.

    Parameters, result, errors: see `fine_grain`.

    Notes
    -----
    Counting sorts of the pins; memory is some three times theirs.
    """
    entries, offsets, costs = _checked(tensor, row_length)
    nets = entries.coordinates + offsets[:, None].astype(np.int32)
    slice_of = _smallest_slice(nets, entries.shape)
    weights = np.bincount(slice_of, minlength=len(costs))
    joined = weights > 0
    number = np.cumsum(joined, dtype=np.int32) - np.int32(1)
    vertex_of, weights = number[slice_of], weights[joined]
    pins_of = np.tile(vertex_of, entries.n_modes)
    hypergraph = replace(
        from_incidence(pins_of, nets.ravel(), len(weights), len(costs)),
        vertex_weights=weights.astype(np.int64),
        net_costs=costs,
    )
    shape, nnz = entries.shape, entries.nnz
    return DataModel(hypergraph, "medium-grain", shape, nnz, vertex_of, entries, row_length)


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


def _smallest_slice(nets: NDArray[np.int32], shape: tuple[int, ...]) -> NDArray[np.int32]:
    """The net of the smallest slice of each nonzero, int32[nnz]; `nets`: int32[n_modes, nnz]."""
    sizes = np.bincount(nets.ravel())
    first, *others = np.argsort(-np.array(shape), kind="stable")
    chosen = nets[first]
    for mode in others:
        chosen = np.where(sizes[nets[mode]] < sizes[chosen], nets[mode], chosen)
    return chosen
