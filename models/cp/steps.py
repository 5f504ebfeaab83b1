"""The dense steps of CP-ALS on the rows of one factor: solve, Gram, sums, normalise.

products (MTTKRP) ─┐
V = ∗ other Grams ─┴─► solve_rows ─► U ─► column_products ─► λ ─► normalise_columns ─► gram_of

V ≻ 0                U = M V⁻¹ by Cholesky
V rank-deficient     U = M V⁺, the solution of least norm; to the rounding of the factors, for what
                     that adds to their Grams would pass for components of its own
nonnegative          a few sweeps of HALS from the rows as they are
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .kernels.dense import add_column_products, divide_columns, hals_rows, invert
from .kernels.row_products import gram_of, multiply_rows

SWEEPS = 4  # of HALS: more of them cost more than another iteration gains


def column_products(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
    """Σ_i left_ir · right_ir for each component, float64 of shape (R,)."""
    sums = np.zeros(left.shape[1])
    add_column_products(left, right, sums)
    return sums


def inverse_of(system: NDArray[np.float64], precision: Any) -> NDArray[np.float64]:
    """V⁻¹; V⁺ where V is singular to the rounding of `precision`; NaN where V overflowed."""
    if not np.isfinite(system).all():
        return np.full_like(system, np.nan)
    smallest = len(system) * float(np.finfo(precision).eps)
    inverse, regular = invert(system, smallest)
    if not regular:
        inverse[:] = np.linalg.pinv(system, rcond=smallest, hermitian=True)
    return inverse


def solve_rows(
    products: NDArray[Any],
    system: NDArray[np.float64],
    rows: NDArray[Any],
    weights: NDArray[np.float64],
    *,
    nonnegative: bool = False,
    ridge: float = 0.0,
    precision: Any = None,
) -> None:
    """Put the rows of a factor that fit best, given all other factors, over `rows`.

    Parameters
    ----------
    products : ndarray of shape (n, R)
        Their MTTKRP.
    system : float64 ndarray of shape (R, R)
        V, the product of the Grams of all other modes.
    rows : ndarray of shape (n, R)
        Overwritten; where HALS begins.
    weights : float64 ndarray of shape (R,)
        λ, by which `rows` are to be multiplied to fit the tensor; HALS begins there.
    nonnegative : bool
        Keep every entry at 0 or above.
    ridge : float
        Added to the diagonal of V.
    precision : dtype, optional
        Of the factors that V was made of; default: that of `rows`.
    """
    if ridge:
        system = system + ridge * np.eye(len(system))
    if nonnegative:
        hals_rows(products, system, weights, SWEEPS, rows)
    else:
        precision = rows.dtype if precision is None else precision
        multiply_rows(products, inverse_of(system, precision), rows)


def normalise_columns(rows: NDArray[Any], weights: NDArray[np.float64]) -> None:
    """Divide each column by its norm, in place; columns of zeros stay."""
    norms = np.where(weights > 0, weights, 1.0).astype(rows.dtype)
    divide_columns(rows, norms, np.finfo(rows.dtype).tiny)


def warm_up(dtype: Any, nonnegative: bool = False) -> None:
    """Compile these steps, on a single row."""
    rows = np.ones((1, 1), dtype)
    solve_rows(rows.copy(), gram_of(rows), rows, np.ones(1), nonnegative=nonnegative)
    normalise_columns(rows, np.sqrt(column_products(rows, rows)))
