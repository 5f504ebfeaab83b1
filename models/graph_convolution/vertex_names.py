"""Vertices by their names: what a user gives for some of them, brought into the order of the graph.

    graph      vertices  b, c, a          the order that all else is brought into
    X          rows      a, b, c   ──▶    in_order: each must be there
    y          labels    c, a      ──▶    by_vertex: the others are unlabelled
    mask       names or booleans   ──▶    mask_of

Names are those of an index; where X has names and y is an array, y goes with the rows of X.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from daskpart.containers.coordinates import as_labels, is_a
from daskpart.errors import InputError
from daskpart.models.base.labels import LabelIndex

from .targets import Targets, as_mask, is_mask


def names_of_rows(data: Any) -> NDArray[Any] | None:
    """Names of vertices from the index of a Series, DataFrame or DataArray; None without names."""
    if is_a(data, "pandas", "Series") or is_a(data, "pandas", "DataFrame"):
        return _names_of(data)
    if is_a(data, "xarray", "DataArray") and data.dims[0] in data.coords:
        return as_labels(data.coords[data.dims[0]].values)
    return None


def _names_of(frame: Any) -> NDArray[Any] | None:
    """An index of plain numbers in order is none."""
    if isinstance(frame.index, pd.RangeIndex):
        return None
    if frame.index.dtype.kind in "iu" and (np.arange(len(frame)) == frame.index.to_numpy()).all():
        return None
    return as_labels(frame.index.to_numpy())


def in_order(names: NDArray[Any] | None, given: NDArray[Any] | None, what: str) -> Any:
    """Positions that put rows named `given` into the order of `names`; None: they are in it.

    Raises
    ------
    InputError
        For names that the graph does not have, or that are missing.
    """
    order = rows_by_name(names, given, what)
    if order is not None and (order < 0).any():
        lacking = int((order < 0).sum())
        raise InputError(
            f"{what} name {len(order) - lacking} of the {len(order)} vertices: give a row for each"
        )
    return order


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
        raise InputError(
            f"{what} name {given[places < 0].tolist()[0]!r}, which is no vertex of the graph; "
            f"names that are none: {int((places < 0).sum()):,}"
        )
    order = np.full(len(names), -1, np.int64)
    order[places] = np.arange(len(places))
    if int((order >= 0).sum()) < len(places):
        seen = pd.Index(given)
        raise InputError(f"{what} name {seen[seen.duplicated()][0]!r} more than once")
    return order


def by_vertex(targets: Targets, vertices: Any, names: Any, n_vertices: int) -> Targets:
    """Targets in the order of the vertices: by name where both have names.

    Raises
    ------
    InputError
        For a name that is no vertex, or comes twice; without names, for another length.
    """
    rows = rows_by_name(vertices, names, "labels")
    if rows is not None and names is not None and len(targets.values) == len(names):
        return targets.at(rows)
    if len(targets.values) != n_vertices:
        raise InputError(
            f"{len(targets.values)} labels for {n_vertices} vertices: give one for each, or a "
            "Series whose index names the vertices"
        )
    return targets


def mask_of(mask: Any, vertices: Any, row_names: Any, n: int, name: str) -> NDArray[np.bool_]:
    """A mask of vertices, whatever says it.

    Parameters
    ----------
    mask : array-like
        Booleans or positions, in the order of the rows of X; a Series of booleans by name; names.
    vertices : ndarray or None
        Names of the vertices.
    row_names : ndarray or None
        Of the rows of X; None: in the order of the vertices.
    n : int
        Number of vertices.
    name : str
        For errors, which are InputErrors.
    """
    if not is_mask(mask) and vertices is not None and np.asarray(mask).dtype.kind in "OUT":
        return as_mask(LabelIndex(vertices, n, "vertex").positions(mask), n, name)
    own = names_of_rows(mask) if is_mask(mask) else None
    given = row_names if own is None else own
    rows = rows_by_name(vertices, given, name)
    if rows is None:
        return as_mask(mask, n, name)
    return as_mask(mask, len(given), name)[rows] & (rows >= 0)


def named(values: NDArray[Any], names: Any, columns: Any = None) -> Any:
    """Values by vertex, under the names of the vertices where there are some."""
    if names is None:
        return values
    if values.ndim == 1:
        return pd.Series(values, index=names)
    return pd.DataFrame(values, index=names, columns=columns)
