"""Any container of a graph, of features and of names, as what a fit needs.

scipy, sparse, Dask, DataArray   entry (i, j): vertex i reads vertex j
networkx                         its nodes are the names
edge list (table, array, list)   source, target, weight (1 where there is none)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
from numpy.typing import NDArray

from daskpart._floor.checks import refuse_masked, refuse_path_or_dataset
from daskpart._floor.words import not_read
from daskpart.containers.coordinates import as_labels, as_values, is_a, refuse_nonfinite
from daskpart.containers.matrix import (
    dask_triples,
    sparse_triples,
    xarray_triples,
)
from daskpart.errors import InputError, ReadError, warn
from daskpart.models.base.labels import LabelIndex, each_text_once
from daskpart.models.base.problem import scipy_rows
from daskpart.readers.dialect import EDGES, choose_columns

from .operators import narrow
from .vertex_names import are_numbers, in_order, is_default, names_of_rows, with_isolated

_ACCEPTED = (
    "a square scipy.sparse matrix, a sparse.COO, a Dask array of sparse chunks, an "
    "xarray.DataArray over one of these, a networkx graph, or an edge list: a DataFrame "
    "(source, target, weight), an integer array of shape (m, 2), or a list of (source, target) or "
    "(source, target, weight)"
)


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph in this process.

    Attributes
    ----------
    adjacency : scipy CSR array of shape (n, n)
        float64; A(i, j) is the weight of the edge i → j.
    names : ndarray of shape (n,) or None
        Of the vertices.
    """

    adjacency: Any
    names: NDArray[Any] | None = None


def read_graph(
    graph: Any,
    n_vertices: int | None,
    names: NDArray[Any] | None,
    symmetrize: bool = False,
    labelled: NDArray[Any] | None = None,
) -> Graph:
    """A graph from any container.

    Parameters
    ----------
    graph : container
        See above; None: no edges, each vertex for itself.
    n_vertices : int or None
        As the features or labels say.
    names : ndarray or None
        Of the rows of features.
    symmetrize : bool
        Whether an edge counts both ways (A + Aᵀ; where both are there, the larger weight).
    labelled : ndarray or None
        Names of vertices as labels say; there may be others, without labels.

    Returns
    -------
    Graph
        Its vertices have the names of the container, and behind them are those that only rows of
        features name, which have no edge. One that numbers them has them in the order of
        their numbers; they get the names of the rows of features, or else of labels, one each in
        that order. Names that are such numbers, too, say which is which: those of features where
        edges or nodes are numbers, not beside a matrix, whose rows are those of the features.

    Raises
    ------
    InputError
        For a matrix that is not square or of another length, an edge to a vertex beyond the graph,
        weights that are not finite, no container of a graph, or edges by name where rows of
        features or labels have none.

    Warns
    -----
    DaskpartWarning
        An edge is there more than once: weights are summed. Labels alone name vertices that no edge
        of a list does. Or nodes of networkx are numbers in
        another order than rising, and rows have no names: they are taken to go by number.
    """
    of_rows, names = names, None if is_default(names) else names
    if graph is None:
        assert n_vertices is not None
        own = labelled if names is None else names  # rows are vertices, so their order is right
        if own is not None and (is_default(own) or len(own) != n_vertices):
            own = None
        return Graph(scipy.sparse.csr_array((n_vertices, n_vertices)), own)
    rows, columns, weights, n, own_names = _edges(graph, n_vertices, names, labelled)
    if own_names is not None and of_rows is not None and not isinstance(graph, Graph):
        own_names = with_isolated(own_names, of_rows)  # of a fit no vertex is added
        n = len(own_names)
    elif is_a(graph, "networkx", "Graph") and of_rows is not None and len(of_rows) > n:
        n = len(of_rows) if are_numbers(of_rows, len(of_rows)) else n  # of nodes 0 to n − 1
    if n_vertices is not None and n != n_vertices:
        if names is not None:
            in_order(own_names, names, "features")  # says which is missing, or none of these
        raise InputError(
            f"the graph has {n} vertices, features and labels have {n_vertices} rows: give one "
            "row for each vertex of the graph"
        )
    weights = as_values(weights, "edge weights").astype(np.float64)
    ends, labels = ("source", "target"), (own_names, own_names)
    refuse_nonfinite(weights, (rows, columns), ends, "edge weights", labels)
    built = scipy.sparse.coo_array((weights, (rows, columns)), shape=(n, n)).tocsr()
    built.sum_duplicates()
    if built.nnz < len(weights):
        warn(
            f"{len(weights) - built.nnz} of {len(weights)} edges repeat another; the weights of "
            "equal edges are summed"
        )
    if symmetrize or (is_a(graph, "networkx", "Graph") and not graph.is_directed()):
        built = _both_ways(built)
    return Graph(
        narrow(built),
        _names_of_numbers(graph, n, names, labelled) if own_names is None else own_names,
    )


def _both_ways(built: Any) -> Any:
    """A graph whose edges count both ways: the larger weight where both are stored."""
    if not built.nnz or built.data.min() > 0:
        return scipy.sparse.csr_array(built.maximum(built.T.tocsr()))
    # for scipy a direction that is not there is 0: so weights by their rank, from 1
    weights, ranks = np.unique(built.data, return_inverse=True)
    ranked = scipy.sparse.csr_array((ranks + 1, built.indices, built.indptr), built.shape)
    both = scipy.sparse.csr_array(ranked.maximum(ranked.T.tocsr()))
    return scipy.sparse.csr_array((weights[both.data - 1], both.indices, both.indptr), both.shape)


def _names_of_numbers(
    graph: Any, n: int, names: NDArray[Any] | None, labelled: NDArray[Any] | None
) -> Any:
    """Names of vertices that a graph only numbers, as features say, or else labels."""
    if names is not None:  # row i of a matrix and row i of the features are the same vertex
        # that of a fit, whose rows of features were 0 to n − 1, has these numbers
        has_numbers = isinstance(graph, np.ndarray | list | tuple | Graph) or any(
            is_a(graph, *kind) for kind in (("pandas", "DataFrame"), ("networkx", "Graph"))
        )
        return np.arange(n) if has_numbers and are_numbers(names, n) else names
    if labelled is None or is_default(labelled):
        return None
    return labelled if len(labelled) == n and not are_numbers(labelled, n) else np.arange(n)


def _edges(
    graph: Any, n: int | None, names: NDArray[Any] | None, labelled: NDArray[Any] | None
) -> tuple[Any, ...]:
    """Sources, targets, weights, number of vertices, their names."""
    if isinstance(graph, Graph):
        own = graph.adjacency.tocoo()
        return *own.coords, own.data, graph.adjacency.shape[0], graph.names
    if is_a(graph, "networkx", "Graph"):
        rows_are_plain = n is not None or (labelled is not None and is_default(labelled))
        nodes = _rising(list(graph.nodes), names is None and rows_are_plain)
        plain = nodes == list(range(len(nodes))) and nodes == list(graph.nodes)
        labels = None if plain else as_labels(pd.Series(nodes, dtype=object).to_numpy())
        return *_networkx_edges(graph, nodes), len(nodes), labels
    if is_a(graph, "pandas", "DataFrame"):
        return _edge_list(*_frame_columns(graph), n, names, labelled)
    if is_a(graph, "xarray", "DataArray"):
        rows, columns, values, shape, sources, targets, *_ = xarray_triples(graph)
        if sources is not None and targets is not None and not np.array_equal(sources, targets):
            raise InputError(
                "both sides of the graph must name the same vertices in one order; of a file of "
                "edges daskpart.read(path, 'edges') makes such a graph"
            )
        return rows, columns, values, _side(shape), targets if sources is None else sources
    if isinstance(graph, np.ndarray):
        return _edge_list(*_array_columns(graph), n, names, labelled)
    if isinstance(graph, list | tuple):
        return _edge_list(*_frame_columns(_frame_of(graph)), n, names, labelled)
    if not (scipy.sparse.issparse(graph) or hasattr(graph, "nnz") or hasattr(graph, "chunks")):
        raise InputError(not_read(graph, "graph", _ACCEPTED))
    read = dask_triples if is_a(graph, "dask.array", "Array") else sparse_triples
    rows, columns, values, shape = read(graph)
    return rows, columns, values, _side(shape), None


def _networkx_edges(graph: Any, nodes: list[Any]) -> tuple[Any, Any, Any]:
    """Sources and targets by the order of the nodes, and weights; of each edge one direction."""
    places = {node: place for place, node in enumerate(nodes)}
    edges = list(graph.edges(data="weight", default=1))
    for source, target, weight in edges:
        if not isinstance(weight, int | float | np.number | np.bool_):
            raise InputError(
                f"the edge from {source!r} to {target!r} has the weight {weight!r}: edge weights "
                "must be numbers; an edge without the attribute weighs 1"
            )
    ends = [(places[source], places[target]) for source, target, _ in edges]
    rows, columns = np.array(ends, np.int64).reshape(-1, 2).T
    return rows, columns, np.array([weight for *_, weight in edges])


def _rising(nodes: list[Any], rows_have_no_names: bool) -> list[Any]:
    """Nodes of networkx in rising order where they are numbers, else in their own.

    A graph made of edges has its nodes in the order in which these name them.
    """
    if not all(isinstance(node, int | np.integer) for node in nodes):
        return nodes
    rising = sorted(nodes)
    if rising != nodes and rows_have_no_names:
        falls = next(i for i, own in enumerate(nodes) if own != rising[i])
        begin = max(falls - 2, 0)
        shown = "… " * (begin > 0) + str(nodes[begin : falls + 2])[1:-1]
        warn(
            f"the nodes of the graph are numbers in the order {shown} …, and rows "
            "of features or labels have no names: these are taken to go by number, from "
            f"{rising[0]}. To say otherwise give a DataFrame, or a Series, whose index names nodes"
        )
    return rising


def _side(shape: tuple[int, ...]) -> int:
    if shape[0] != shape[1]:
        raise InputError(
            f"the graph is a matrix of shape {tuple(shape)}: it must be square, a row and a column "
            "for each vertex (scikit-learn's cross-validation cuts rows out of it: hold labels out "
            "by −1 in y instead, and score with mask=…)"
        )
    return int(shape[0])


def _array_columns(edges: NDArray[Any]) -> tuple[Any, Any, Any]:
    refuse_masked(edges, "edges")
    if edges.ndim != 2 or edges.shape[1] not in (2, 3):
        raise InputError(
            f"the graph is a dense array of shape {edges.shape}; allowed is an edge list of shape "
            "(m, 2) or (m, 3). A dense adjacency: scipy.sparse.csr_array(array); an edge_index of "
            "shape (2, m), whose targets read their sources: edge_index[[1, 0]].T"
        )
    weights = edges[:, 2] if edges.shape[1] == 3 else np.ones(len(edges))
    return edges[:, 0], edges[:, 1], weights


def _frame_of(edges: Any) -> pd.DataFrame:
    """A list of edges as a table; of networkx's edge attributes the weight."""
    if _is_pair_of_ends(edges):
        raise InputError(
            "the graph is no list of edges but a pair of arrays, as DGL has its edges (src, dst), "
            "whose targets read their sources: give np.stack([dst, src], axis=1)"
        )
    lengths = {len(edge) if isinstance(edge, list | tuple | np.ndarray) else 0 for edge in edges}
    if len(lengths) > 1 or not lengths <= {2, 3}:
        raise InputError(
            f"the graph is a list of {len(edges)}, which is no list of edges: each is (source, "
            "target), or all of them (source, target, weight)"
        )
    columns = [list(column) for column in zip(*edges, strict=True)] or [[], []]
    if len(columns) == 3 and all(isinstance(each, dict) for each in columns[2]):
        columns[2] = [each.get("weight", 1) for each in columns[2]]
    return pd.DataFrame(dict(enumerate(columns)))


def _is_pair_of_ends(edges: Any) -> bool:
    """Whether these are all sources and all targets, not two edges."""
    if len(edges) != 2 or not all(isinstance(each, list | tuple | np.ndarray) for each in edges):
        return False
    are_arrays = isinstance(edges, tuple) and all(isinstance(each, np.ndarray) for each in edges)
    return len(edges[0]) == len(edges[1]) and (are_arrays or len(edges[0]) > 3)


def _frame_columns(frame: Any) -> tuple[Any, Any, Any]:
    """Source, target and weight as the reader of files finds them."""
    names = [str(name) for name in frame.columns]
    try:
        places = choose_columns(names, len(names), None, "the graph", EDGES)
    except ReadError:
        raise InputError(
            f"the graph is a DataFrame with the columns {', '.join(names[:8])}; allowed are "
            "'source' and 'target' (and 'weight'), or two or three in that order. Of a table with "
            "a row and a column for each vertex, table.stack().loc[lambda w: w != 0].reset_index() "
            "has such lines"
        ) from None
    source, target, *weights = (frame.iloc[:, place] for place in places)
    return source, target, weights[0].to_numpy() if weights else np.ones(len(frame))


def _edge_list(
    source: Any,
    target: Any,
    weights: Any,
    n: int | None,
    names: NDArray[Any] | None,
    labelled: NDArray[Any] | None,
) -> tuple[Any, ...]:
    """Ends of edges as positions: by names where vertices have some, else as they are."""
    both, at = map(list, zip(each_text_once(source), each_text_once(target), strict=True))
    if {side.dtype.kind for side in both} == {"i", "u"}:  # together NumPy would make them floats
        both = [pd.Index(side.astype(object)).infer_objects().to_numpy() for side in both]
    ends, n_sources = np.concatenate(both), len(both[0])

    def by_edge(of_ends: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        return of_ends[:n_sources][at[0]], of_ends[n_sources:][at[1]]

    if pd.isna(ends).any():
        raise InputError("an edge lacks its source or its target; drop such lines")
    numbers = not len(ends) or (ends.dtype.kind in "iuf" and bool((ends == np.floor(ends)).all()))
    if labelled is not None and is_default(labelled):
        n, labelled = len(labelled) if n is None else n, None
    if n is not None and labelled is not None and (len(labelled) != n or are_numbers(labelled, n)):
        labelled = None  # rows of features are 0 to n − 1, and labels name some or all of these
    if names is None and n is not None and labelled is None:
        if not numbers:
            raise InputError(
                f"edges name vertices, such as {ends.tolist()[0]!r}, and the {n} rows of features "
                "or labels have no names, so nothing says which row is whose: give a DataFrame, or "
                "a Series, whose index names vertices, or number the vertices of edges 0, 1, 2 …"
            )
    elif names is None and labelled is not None:
        names = _labelled_first(labelled, ends, has_features=n is not None)
    if names is None and not numbers:
        codes, found = pd.factorize(ends, sort=True)
        names, places = as_labels(found), codes
    elif names is None:
        n = int(ends.max(initial=-1)) + 1 if n is None else n
        places = ends.astype(np.int64)
        outside = (places < 0) | (places >= n)
        if outside.any():
            n_outside = sum(int(side.sum()) for side in by_edge(outside))
            raise InputError(
                f"{n_outside} ends of edges lie beyond the graph, such as vertex "
                f"{places[outside][0]}: its {n} vertices are 0 to {n - 1}"
            )
        return *by_edge(places), weights, n, None
    else:
        places = LabelIndex(names, len(names), "vertex").find(ends)
        if (places < 0).any():
            without = ends[places < 0]
            raise InputError(
                f"edges name {without.tolist()[0]!r}, which no row of features has as its name "
                f"(those are {', '.join(map(repr, names[:3].tolist()))} …); vertices without a "
                f"row: {len(pd.unique(without)):,}. Give a row for each"
            )
    return *by_edge(places), weights, len(names), names


def _labelled_first(labelled: NDArray[Any], ends: NDArray[Any], has_features: bool) -> NDArray[Any]:
    """Names of all vertices, those that have labels first, in their order."""
    of_labels, of_edges = pd.Index(labelled), pd.Index(ends).unique()
    alone = labelled[~of_labels.isin(of_edges)]
    if len(alone) and len(of_edges) and not has_features:
        warn(
            f"{len(alone):,} of {len(labelled):,} labels are of vertices that no edge names, "
            f"such as {alone.tolist()[0]!r}: without edges and features they teach nothing "
            "(is the name misspelt?)"
        )
    return as_labels(of_labels.append(of_edges.difference(of_labels)).to_numpy())


def read_features(X: Any) -> tuple[Any, NDArray[Any] | None]:
    """Features as a numpy or scipy array (or a DataFrame), and the names of its rows."""
    refuse_path_or_dataset(X, "X", "features in memory, such as daskpart.read(path)")
    names = names_of_rows(X)
    if is_a(X, "xarray", "DataArray"):
        X = X.data
    if is_a(X, "dask.array", "Array"):
        X = X.compute()
    refuse_masked(X, "features")
    return scipy_rows(X), names
