"""The matrices that layers multiply by, from the adjacency A of a graph.

    normalised   D^−1/2 (A + I) D^−1/2, D the row sums of A + I        GCN, SGC, APPNP
    mean         D^−1 A, D the row sums of A; a row of zeros stays      SAGE
    sum          A + (1 + ε) I                                          GIN
    pattern      1 where A + I is not 0                                 GAT

Row i says whose features vertex i reads, so edge i → j is A(i, j), as in scipy.sparse.csgraph.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from daskpart.errors import InputError


def operator_of(kind: str, adjacency: Any, dtype: str, epsilon: float = 0.0) -> Any:
    """One of the matrices above, a scipy CSR array with int32 columns.

    Raises
    ------
    InputError
        For negative weights where they are divided by roots of their sums, or by their sums.
    """
    n = adjacency.shape[0]
    negative = int((adjacency.data < 0).sum())
    if negative and kind in ("normalised", "mean"):
        raise InputError(
            f"{negative} edges have negative weights, and layers that divide by sums of weights "
            "(all but gin and gat) need them from 0: shift them, take their size, or layer='gin'"
        )
    if kind == "mean":
        degrees = np.asarray(adjacency.sum(axis=1), np.float64).ravel()
        inverse = np.divide(1, degrees, out=np.zeros(n), where=degrees > 0)
        return _csr(scipy.sparse.diags_array(inverse) @ adjacency, dtype)
    looped = adjacency + (1 + epsilon) * scipy.sparse.eye_array(n, format="csr")
    if kind == "normalised":
        root = scipy.sparse.diags_array(1 / np.sqrt(np.asarray(looped.sum(axis=1)).ravel()))
        looped = root @ looped @ root
    elif kind == "pattern":
        looped = _csr(looped, dtype)
        looped.data[:] = 1
    return _csr(looped, dtype)


def _csr(matrix: Any, dtype: str) -> Any:
    found = scipy.sparse.csr_array(matrix).astype(dtype, copy=False)
    found.sort_indices()
    found.indices = found.indices.astype(np.int32, copy=False)
    return found
