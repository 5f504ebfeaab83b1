"""Hold ratings out: the same cells as one matrix, dealt to two of the same shape.

all      * * . *        train    * . . *        test     . * . .
         . * * .    =            . * * .    +            . . . .
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
import sparse
import xarray

from daskpart.errors import InputError


def train_test_split_ratings(
    X: Any, test_fraction: float = 0.1, random_state: int | np.random.Generator = 0
) -> tuple[Any, Any]:
    """Deal the entries of a sparse matrix at random to a training and a test matrix.

    Parameters
    ----------
    X : xarray.DataArray over sparse.COO, sparse.COO, or scipy.sparse array or matrix
    test_fraction : float, default 0.1
        Between 0 and 1, both excluded. round(test_fraction * nnz) entries are held out.
    random_state : int or numpy.random.Generator, default 0

    Returns
    -------
    train, test : of the type of `X`
        Same shape, labels, names and dtype as `X`; scipy.sparse input gives csr. Explicit zeros
        stay entries.

    Raises
    ------
    InputError
        `X` is not sparse, or so small that one side would be empty.
    """
    if not 0 < test_fraction < 1:
        raise InputError(
            f"test_fraction={test_fraction}; it must be between 0 and 1, both excluded"
        )
    if isinstance(X, xarray.DataArray):
        train, test = train_test_split_ratings(X.data, test_fraction, random_state)
        return X.copy(data=train), X.copy(data=test)
    is_scipy = sp.issparse(X)
    if not is_scipy and not isinstance(X, sparse.COO):
        raise InputError(
            f"X is {type(X).__name__}; give a DataArray over sparse.COO, a sparse.COO, or a "
            "scipy.sparse array"
        )
    n_entries = len(X.tocoo().data) if is_scipy else X.nnz
    n_test = round(test_fraction * n_entries)
    if not 0 < n_test < n_entries:
        raise InputError(
            f"test_fraction={test_fraction} of {n_entries} entries holds out {n_test}; "
            "both sides need at least one"
        )
    held_out = np.zeros(n_entries, bool)
    generator = np.random.default_rng(random_state)
    held_out[generator.choice(n_entries, n_test, replace=False, shuffle=False)] = True
    take = _take_scipy if is_scipy else _take_coo
    return take(X, ~held_out), take(X, held_out)


def _take_coo(X: sparse.COO, chosen: np.ndarray) -> sparse.COO:
    return sparse.COO(
        X.coords[:, chosen],
        X.data[chosen],
        shape=X.shape,
        sorted=True,
        has_duplicates=False,
        fill_value=X.fill_value,
    )


def _take_scipy(X: Any, chosen: np.ndarray) -> Any:
    entries = X.tocoo()
    kind = sp.csr_array if isinstance(X, sp.sparray) else sp.csr_matrix
    return kind((entries.data[chosen], (entries.row[chosen], entries.col[chosen])), shape=X.shape)
