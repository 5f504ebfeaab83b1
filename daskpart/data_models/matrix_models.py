"""Matrices and graphs as hypergraphs: rows are dealt out, columns are what they share.

    A      0 1 2 3        column-net          with self loops         graph
    0      .  x  .  .     net 1: 0            net 0: 0                edges of A + Aᵀ
    1      x  .  x  .     net 0: 1            net 1: 0 1              0-1  1-2  2-3
    2      .  .  .  x     net 2: 1            net 2: 1 2
    3      .  .  .  .     net 3: 2            net 3: 2 3

A vertex of a graph owns its features, so the part that holds vertex j is among those that need row
j of H: with self loops connectivity - 1 is the exact number of rows that travel (Demirci, Haldar,
Ferhatosmanoglu, "Scalable graph convolutional network training on distributed-memory systems",
VLDB 2022, section 4.3.2). The graph model counts a vertex with two neighbours in one part twice,
and both ends of a one-way edge (section 4.3.1).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.containers.matrix import LabelledMatrix, as_graph_matrix, as_matrix
from daskpart.hypergraph import Hypergraph, from_incidence

from .model import DataModel


def column_net(matrix: Any, *, nets: bool = True) -> DataModel:
    """Rows become vertices (weight: nonzeros of the row), columns become nets (cost 1).

    Parameters
    ----------
    matrix : container
        Whatever `daskpart.containers.as_matrix` takes. A stored zero is a nonzero here.
    nets : bool, default=True
        False: only the vertices, which takes less time, for methods that look at no net.

    Returns
    -------
    DataModel
        Of M vertices and N nets.

    Raises
    ------
    InputError
        As `daskpart.containers.as_matrix`.

    Examples
    --------
    >>> import daskpart, scipy.sparse
    >>> from daskpart import data_models
    >>> X = scipy.sparse.random(60, 40, 0.1, "csr", random_state=0)
    >>> model = data_models.column_net(X)
    >>> model.hypergraph.n_vertices, model.hypergraph.n_nets
    (60, 40)
    >>> partition = daskpart.partition(model, 4)        # as of X by model="column-net"
    """
    entries = as_matrix(matrix)
    n_rows = entries.shape[0]
    hypergraph = Hypergraph.column_net(entries) if nets else _vertices(entries.rows, n_rows)
    return _model("column-net", hypergraph, entries)


def row_net(matrix: Any, *, nets: bool = True) -> DataModel:
    """The dual of `column_net`: columns become vertices, rows become nets.

    Parameters, result, errors: see `column_net`.
    """
    entries = as_matrix(matrix)
    n_columns = entries.shape[1]
    hypergraph = Hypergraph.row_net(entries) if nets else _vertices(entries.columns, n_columns)
    return replace(_model("row-net", hypergraph, entries), vertex_of=entries.columns)


def column_net_self_loops(matrix: Any, *, nets: bool = True) -> DataModel:
    """Vertices of a graph, weighing the nonzeros of their row of A + I; nets are columns of A + I.

    Parameters
    ----------
    matrix : container
        Square; row i says whose features vertex i needs. Whether its diagonal is stored does not
        matter.
    nets : bool, default=True
        As of `column_net`.

    Returns
    -------
    DataModel
        Of as many nets as vertices; net j is what vertices read of vertex j.

    Raises
    ------
    InputError
        The matrix is not square, its rows and columns have other names, or nothing is stored in it.
    """
    entries = as_graph_matrix(matrix, "self loops need", "use model='column-net' or 'row-net'")
    n_vertices = entries.shape[0]
    others, own = entries.rows != entries.columns, np.arange(n_vertices, dtype=np.int32)
    rows = np.concatenate([entries.rows[others], own])
    if nets:
        columns = np.concatenate([entries.columns[others], own])
        hypergraph = from_incidence(rows, columns, n_vertices, n_vertices)
    else:
        hypergraph = _vertices(rows, n_vertices)
    return _model("column-net-self-loops", hypergraph, entries)


def graph(matrix: Any, *, self_loops: bool = False) -> DataModel:
    """The graph that METIS takes: one two-pin net for each edge of A + Aᵀ; weights as the rows.

    Every edge costs 1, whatever value A has there, and a vertex weighs the nonzeros of its row (to
    METIS itself it is 1). For a graph with edge weights read a METIS file, or give
    `Hypergraph.from_nets` the edges with `net_costs`: their cut-net is METIS's edge cut.

    Parameters
    ----------
    matrix : container
        Square; directed or not.
    self_loops : bool, default=False
        Whether a vertex weighs the nonzeros of its row of A + I, as a convolution's work does,
        rather than of A.

    Returns
    -------
    DataModel
        Its nets have two pins each, i < j; loops are none.

    Raises
    ------
    InputError
        The matrix is not square, its rows and columns have other names, or nothing is stored in it.
    """
    entries = as_matrix(matrix)
    hypergraph = Hypergraph.graph(entries)
    if self_loops:
        on_diagonal = entries.rows[entries.rows == entries.columns]
        missing = 1 - np.bincount(on_diagonal, minlength=hypergraph.n_vertices)
        hypergraph = replace(hypergraph, vertex_weights=hypergraph.vertex_weights + missing)
    return _model("graph", hypergraph, entries)


def bipartite(matrix: Any) -> DataModel:
    """Examples (rows) as vertices of weight 1, parameters (columns) as nets: what Parsa cuts.

    Li, Andersen, Smola, "Graph partitioning via parallel submodular approximation to accelerate
    distributed machine learning", 2015, section 2: parts of as many examples each.

    Parameters, result, errors: see `column_net`.
    """
    entries = as_matrix(matrix)
    hypergraph = Hypergraph.column_net(entries)
    ones = np.ones(hypergraph.n_vertices, np.int64)
    return _model("bipartite", replace(hypergraph, vertex_weights=ones), entries)


def _vertices(rows: NDArray[np.int32], n_vertices: int) -> Hypergraph:
    """Vertices that weigh their nonzeros, with nothing that they share."""
    weights, nothing = np.bincount(rows, minlength=n_vertices), np.zeros(0, np.int64)
    return Hypergraph(n_vertices, np.zeros(1, np.int64), nothing.astype(np.int32), weights, nothing)


def _model(name: str, hypergraph: Hypergraph, entries: LabelledMatrix) -> DataModel:
    return DataModel(hypergraph, name, entries.shape, entries.nnz, vertex_of=entries.rows)
