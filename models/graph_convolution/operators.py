"""The matrices that layers multiply by, from the adjacency A of a graph.

    normalised   D^−1/2 (A + I) D^−1/2, D the row sums of A + I        GCN, SGC, APPNP
                 I only where A has no loop: one that is stored keeps its weight
    mean         D^−1 A, D the row sums of A; a row of zeros stays      SAGE
    sum          A + (1 + ε) I                                          GIN
    pattern      1 where an edge is stored, of any weight, and on the diagonal   GAT

Row i says whose features vertex i reads, so edge i → j is A(i, j), as in scipy.sparse.csgraph.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from daskpart._floor.checks import one_of
from daskpart.errors import InputError

OPERATORS = ("normalised", "mean", "sum", "pattern")


def operator_of(kind: str, adjacency: Any, dtype: str, epsilon: float = 0.0) -> Any:
    """One of the matrices above, a scipy CSR array with int32 columns.

    Raises
    ------
    InputError
        For another word than these; for negative weights where they are divided by roots of their
        sums, or by their sums; and for weights that `dtype` does not hold, or their sums float64.
    """
    one_of(kind, "operator", OPERATORS)
    n = adjacency.shape[0]
    negative = int((adjacency.data < 0).sum())
    if negative and kind in ("normalised", "mean"):
        raise InputError(
            f"{negative} edges have negative weights, and layers that divide by sums of weights "
            "(all but gin and gat) need them from 0: shift them, take their size, or layer='gin'"
        )
    if kind == "mean":
        degrees = _sums_of_rows(adjacency)
        inverse = np.divide(1, degrees, out=np.zeros(n), where=degrees > 0)
        mean = adjacency.astype(np.float64)  # a copy
        mean.data *= _by_entry(inverse, mean)
        return _csr(mean, dtype)
    if kind == "pattern":
        return _csr(with_loops(adjacency), dtype)
    of_itself = np.full(n, 1 + epsilon)
    if kind == "normalised":  # else a graph with its loops, as of DGL, would count them twice
        of_itself[adjacency.diagonal() != 0] = 0
    looped = adjacency + scipy.sparse.diags_array(of_itself, format="csr")
    if kind == "normalised":
        root = 1 / np.sqrt(_sums_of_rows(looped))
        looped.data *= _by_entry(root, looped)
        looped.data *= root[looped.indices]
    refuse_beyond(dtype, looped.data, "edge weights")
    return _csr(looped, dtype)


def refuse_beyond(dtype: str, values: NDArray[Any], what: str) -> None:
    """Refuse numbers that would be infinite in this dtype (InputError); they are finite."""
    largest = max(float(values.max(initial=0)), -float(values.min(initial=0)))
    if largest > float(np.finfo(dtype).max):
        raise InputError(
            f"{what} go up to {largest:.3g} in size, and {dtype} ends before: scale them, or take "
            "dtype='float64'"
        )


def with_loops(adjacency: Any) -> Any:
    """A + I as ones, int8 CSR."""
    ones = scipy.sparse.csr_array(
        (np.ones(adjacency.nnz, np.int8), adjacency.indices, adjacency.indptr),
        shape=adjacency.shape,
    )
    found = ones + scipy.sparse.eye_array(adjacency.shape[0], dtype=np.int8, format="csr")
    found.data[:] = 1
    found.sort_indices()
    return found


def _sums_of_rows(matrix: Any) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):  # it is told
        sums = np.asarray(matrix.sum(axis=1), np.float64).ravel()
    if np.isinf(sums).any():
        raise InputError("sums of edge weights are too large for a float: divide the weights")
    return sums


def _by_entry(of_row: NDArray[np.float64], matrix: Any) -> NDArray[np.float64]:
    """What a row has, for each of its entries: quicker than a product with a diagonal."""
    return np.repeat(of_row, np.diff(matrix.indptr))


def _csr(matrix: Any, dtype: str) -> Any:
    return narrow(scipy.sparse.csr_array(matrix).astype(dtype, copy=False))


def narrow(matrix: Any) -> Any:
    """A CSR array with sorted columns and the smallest indices, in place."""
    matrix.sort_indices()
    matrix.indices = matrix.indices.astype(np.int32, copy=False)
    if matrix.nnz < np.iinfo(np.int32).max:
        matrix.indptr = matrix.indptr.astype(np.int32, copy=False)
    return matrix
