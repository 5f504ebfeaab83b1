"""New users without training: each row has a closed form when the item factors stay (`transform`).

    ratings of new users ──► normal equations, a block of users at a time ──► Cholesky ──► w, b

Cost: O(nnz F² + users F³), memory bounded by the block.
"""

from __future__ import annotations

import numpy as np

from daskpart._floor.blas import one_blas_thread
from daskpart.errors import InputError
from daskpart.models.optimisation.nonnegative import nonnegative_rows

from .kernels.scoring import normal_equations, solve_equations
from .scaling import split_unit
from .state import MFState

_BLOCK_WORDS = 1 << 23  # float64 words of one block of equations: 64 MB


@one_blas_thread
@np.errstate(over="ignore", invalid="ignore")  # what is not finite is refused at the end
def solve_rows(
    pointer: np.ndarray,
    columns: np.ndarray,
    values: np.ndarray,
    factors: MFState,
    regularization: float,
    biases: bool,
    nonnegative: bool = False,
    weights: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Factor rows and biases that minimise eq. 1 for new rows, items held fixed.

    Parameters
    ----------
    pointer : int64 ndarray of shape (n + 1,)
        Ratings of new row i are ``pointer[i]:pointer[i + 1]``.
    columns : int32 ndarray of shape (nnz,)
        Positions of the items.
    values : ndarray of shape (nnz,)
    factors : MFState
    regularization : float
        γ of the fit; where it is 0, the solution of least norm is taken.
    biases : bool
        Whether rows have a bias.
    nonnegative : bool
        Whether factors are at least 0; the bias may have any sign.
    weights : ndarray of shape (nnz,), optional
        How much each rating counts, its part of γ as well.

    Returns
    -------
    rows : float32 ndarray of shape (n, F)
    row_bias : float32 ndarray of shape (n,)

    Raises
    ------
    InputError
        For ratings so large that float32 cannot hold the rows.
    """
    n_rows, n_components = pointer.size - 1, factors.n_components
    n_unknowns = n_components + int(biases)
    # in the unit of the fit, so that γ means what it meant there
    unit = factors.trained_unit
    of_users, of_items = split_unit(unit)
    known = np.ones((factors.n_items, n_unknowns))
    np.divide(factors.item_factors, np.float32(of_items), out=known[:, :n_components])
    residuals = values.astype(np.float64) - factors.global_mean - factors.item_bias[columns]
    residuals /= unit
    counts = np.ones(len(values)) if weights is None else weights.astype(np.float64)
    solution = np.zeros((n_rows, n_components + 1))
    block = max(1, _BLOCK_WORDS // n_unknowns**2)
    for begin in range(0, n_rows, block):
        pointers = pointer[begin : begin + block + 1]
        n_block = pointers.size - 1
        left = np.zeros((n_block, n_unknowns, n_unknowns))
        right = np.zeros((n_block, n_unknowns))
        normal_equations(
            pointers, columns, residuals, counts, known, float(regularization), left, right
        )
        if nonnegative:
            solved = _nonnegative(left, right, n_components)
        else:
            solved = _solve(left, right, regularization)
        solution[begin : begin + n_block, :n_unknowns] = solved
    solution[:, :n_components] *= of_users
    solution[:, n_components] *= unit
    rows = solution.astype(np.float32)
    if not np.isfinite(rows).all():
        raise InputError(
            f"new ratings go up to {np.abs(values).max():g} in size, and their factors beyond the "
            "range of float32 (3e38): give them in the unit of the ratings of the fit"
        )
    return np.ascontiguousarray(rows[:, :n_components]), rows[:, n_components].copy()


def _solve(left: np.ndarray, right: np.ndarray, regularization: float) -> np.ndarray:
    """Solutions of some equations, those of least norm where there are many."""
    solution = np.full_like(right, np.nan)
    if regularization > 0:
        solve_equations(left, right, solution)
    rest = np.isnan(solution[:, 0])
    if rest.any():
        inverse = np.linalg.pinv(left[rest], hermitian=True)
        solution[rest] = (inverse @ right[rest, :, None])[..., 0]
    return solution


def _nonnegative(left: np.ndarray, right: np.ndarray, n_components: int) -> np.ndarray:
    """Minima with the first components at 0 or above; a bias behind them may have any sign."""
    found = np.empty_like(right)
    system, product = left[:, :n_components, :n_components], right[:, :n_components]
    if found.shape[1] > n_components:  # the best bias for any row is put into the equations
        beside, own = left[:, -1, :n_components], left[:, -1, -1:]
        own = np.maximum(own, np.finfo(np.float64).tiny)
        system = system - beside[:, :, None] * (beside / own)[:, None]
        product = product - beside * (right[:, -1:] / own)
    found[:, :n_components] = rows = nonnegative_rows(system, product)
    if found.shape[1] > n_components:
        found[:, -1] = (right[:, -1] - (beside * rows).sum(axis=1)) / own[:, 0]
    return found
