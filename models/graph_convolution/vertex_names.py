"""Vertices by their names: what a user gives for some of them, brought into the order of the graph.

    graph      vertices  b, c, a          the order that all else is brought into
    X          rows      a, b, c   ──▶    in_order: each must be there; others have no edge
    y          labels    c, a      ──▶    by_vertex: the others are unlabelled
    mask       names or booleans   ──▶    mask_of

Names are those of an index. A matrix has none: its rows are those of X, and have their names. Where
X has none either, or edges are between numbers, an index of numbers from 0 to n − 1, in any order,
goes by these; other names are given to the vertices in order. Arrays are in the order of the rows
of X, or else of the graph, and so is what has pandas' default index 0, 1, 2 … where these are no
names of vertices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from daskpart._floor.checks import as_array
from daskpart.containers.coordinates import as_labels, is_a
from daskpart.errors import InputError
from daskpart.models.base.labels import LabelIndex, more_labels

from .targets import Targets


def names_of_rows(data: Any) -> NDArray[Any] | None:
    """Names of vertices from the index of a Series, DataFrame or DataArray; None without one.

    InputError for a graph where rows of features or labels are expected.
    """
    if is_a(data, "networkx", "Graph"):
        raise InputError(
            "a graph of networkx stands where rows are expected: give it as graph=, and as X "
            "features of its nodes, or None"
        )
    if is_a(data, "pandas", "Series") or is_a(data, "pandas", "DataFrame"):
        return as_labels(data.index.to_numpy())
    if is_a(data, "xarray", "DataArray") and data.dims[0] in data.coords:
        return as_labels(data.coords[data.dims[0]].values)
    return None


def is_default(names: NDArray[Any] | None) -> bool:
    """Whether they are 0, 1, 2 …, which an index says that nobody gave; None says no more."""
    return names is None or (
        names.dtype.kind in "iu" and np.array_equal(names, np.arange(len(names)))
    )


def are_numbers(names: NDArray[Any], n: int) -> bool:
    """Whether they tell vertices by number: whole numbers from 0 to n − 1, each at most once."""
    if names.dtype.kind not in "iu" or not len(names) or not 0 <= names.min() <= names.max() < n:
        return False
    return bool((np.bincount(names.astype(np.int64), minlength=n) <= 1).all())


def that_name(given: NDArray[Any] | None, vertices: NDArray[Any] | None, n: int) -> Any:
    """Names of rows, or None where they say nothing of the vertices, so that rows are in order."""
    if given is None or (vertices is None and not are_numbers(given, n)):
        return None
    if vertices is not None and is_default(given) and not pd.Index(given).isin(vertices).all():
        return None
    return given


def in_order(names: NDArray[Any] | None, given: NDArray[Any] | None, what: str) -> Any:
    """Positions that put rows named `given` into the order of `names`; None: they are in it.

    They are, too, where their names say nothing of the vertices.

    Raises
    ------
    InputError
        For names that the graph does not have, or that are missing.
    """
    own = None if names is None else that_name(given, names, len(names))
    order = rows_by_name(names, own, what)
    if names is not None and order is not None and (order < 0).any():
        lacking = int((order < 0).sum())
        first = names[[np.argmin(order)]].tolist()[0]
        raise InputError(
            f"{what} name {len(order) - lacking:,} of the {len(order):,} vertices, and not "
            f"{first!r}: give a row for each"
        )
    return order


def with_isolated(own: NDArray[Any], names: NDArray[Any]) -> NDArray[Any]:
    """Vertices of a graph, behind them those that rows of features name and no edge.

    None are added where a vertex has no row: then the names are others, or a row is missing.
    """
    if len(names) <= len(own):
        return own
    found = LabelIndex(own, len(own), "vertex").find(names)
    new = pd.unique(names[found < 0])  # what comes twice is told with its rows
    if not len(new) or np.unique(found[found >= 0]).size < len(own):
        return own
    return more_labels(own, new, "vertex")


def rows_by_name(names: NDArray[Any] | None, given: NDArray[Any] | None, what: str) -> Any:
    """For each of `names` the place in `given`, −1 where it has none; None: all have their own.

    Raises
    ------
    InputError
        For names that the graph does not have, or that come twice.
    """
    if names is None or given is None or np.array_equal(names, given):
        return None
    places = LabelIndex(names, len(names), "vertex").find(given)
    if (places < 0).any():
        first, some = given[places < 0].tolist()[0], ", ".join(map(repr, names[:3].tolist()))
        raise InputError(
            f"{what} name {first!r}, which is no vertex of the graph (those are {some} …); names "
            f"that are none: {int((places < 0).sum()):,}"
        )
    order = np.full(len(names), -1, np.int64)
    order[places] = np.arange(len(places))
    if int((order >= 0).sum()) < len(places):
        seen = pd.Index(given)
        raise InputError(f"{what} name {seen[seen.duplicated()].tolist()[0]!r} more than once")
    return order


def placed(
    given: NDArray[Any] | None, row_names: Any, vertices: Any, n: int, what: str
) -> tuple[Any, int]:
    """Where the row of each vertex is, as `rows_by_name` says it, and how many rows there must be.

    Parameters
    ----------
    given : ndarray or None
        Names as an index says; where they say nothing, rows are in the order of those of X.
    row_names : ndarray or None
        Of the rows of X.
    vertices : ndarray or None
        Names of the vertices; None: 0 to n − 1.
    n : int
        Number of vertices.
    what : str
        For errors, which are InputErrors.
    """
    own = that_name(given, vertices, n)
    own = that_name(row_names, vertices, n) if own is None else own
    rows = rows_by_name(np.arange(n) if vertices is None else vertices, own, what)
    return rows, n if own is None else len(own)


def by_vertex(targets: Targets, rows: Any, n_rows: int) -> Targets:
    """Targets in the order of the vertices, where `placed` found them (InputError: not so many)."""
    if len(targets.values) != n_rows:
        raise InputError(
            f"{len(targets.values)} labels for {n_rows} vertices: give one for each, or a "
            "Series whose index names the vertices"
        )
    return targets if rows is None else targets.at(rows)


def mask_of(mask: Any, vertices: Any, row_names: Any, n: int, name: str) -> NDArray[np.bool_]:
    """A mask of vertices, whatever says it.

    Parameters
    ----------
    mask : array-like
        Booleans or positions, in the order of the rows of X; a Series of booleans by name; names.
    vertices : ndarray or None
        Names of the vertices.
    row_names : ndarray or None
        Of the rows of X.
    n : int
        Number of vertices.
    name : str
        For errors, which are InputErrors.
    """
    given = as_array(mask, name)
    if given.dtype == object and pd.api.types.infer_dtype(given.ravel()) == "boolean":
        lacking = int(pd.isna(given).sum())  # as pandas gives its nullable ones
        if lacking:
            raise InputError(f"{name} lacks {lacking} of its values: give True or False for each")
        given = given.astype(bool)
    if vertices is not None and given.dtype.kind in "OUT":
        return _chosen(LabelIndex(vertices, n, "vertex").positions(mask), n)
    own = names_of_rows(mask) if _is_mask(given) else None
    rows, n_rows = placed(own, row_names, vertices, n, name)
    if _is_mask(given):
        found = given.astype(bool)
        if found.shape != (n_rows,):
            raise InputError(f"{name} has shape {found.shape}, there are {n_rows} vertices")
    elif given.dtype.kind not in "iu" or given.ndim != 1:
        raise InputError(f"{name} must be {n_rows} booleans, or positions of vertices")
    elif given.size and not 0 <= given.min() <= given.max() < n_rows:
        raise InputError(
            f"{name} names vertices {given.min()} to {given.max()}; there are 0 to {n_rows - 1}"
        )
    else:
        found = _chosen(given, n_rows)
    return found if rows is None else found[rows] & (rows >= 0)


def _is_mask(given: NDArray[Any]) -> bool:
    """Whether it is a value for each vertex: booleans, or 0 and 1 more often than positions are."""
    if given.dtype == bool:
        return True
    return given.dtype.kind in "iu" and given.size > 2 and bool(np.isin(given, (0, 1)).all())


def _chosen(positions: NDArray[Any], n: int) -> NDArray[np.bool_]:
    chosen = np.zeros(n, bool)
    chosen[positions] = True
    return chosen


def by_row(values: NDArray[Any], vertices: Any, given: Any) -> tuple[NDArray[Any], Any]:
    """Values by vertex in the order of the rows named `given`, all there, and the names of these.

    Rows whose names say nothing of the vertices are in the order of these.
    """
    own = that_name(given, vertices, len(values))
    places = rows_by_name(own, vertices, "vertices")
    return (values, vertices) if places is None else (values[places], own)


def named(values: NDArray[Any], names: Any, columns: Any = None) -> Any:
    """Values by vertex, under the names of the vertices where there are some."""
    if names is None:
        return values
    if values.ndim == 1:
        return pd.Series(values, index=names)
    return pd.DataFrame(values, index=names, columns=columns)
