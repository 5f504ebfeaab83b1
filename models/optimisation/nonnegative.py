"""Least squares over w ≥ 0, exactly, of rows that no other iteration moves.

    min wᵀAw / 2 − bᵀw  over w ≥ 0     A = VΛVᵀ     =     min ‖Λ^½Vᵀw − Λ^(−½)Vᵀb‖  over w ≥ 0

which Lawson's and Hanson's active sets solve in finitely many steps, where coordinate descent may
take any number of sweeps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.blas import one_blas_thread

_SINGULAR = 1e-14  # of the largest eigenvalue, below which one is taken for 0


@one_blas_thread  # of small matrices, for which several would only wait for each other
def nonnegative_rows(
    systems: NDArray[np.float64], products: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The minimum over w ≥ 0 for each row.

    Parameters
    ----------
    systems : ndarray of shape (n, F, F), or (F, F) for all rows
        A, positive semidefinite.
    products : ndarray of shape (n, F)
        b.

    Returns
    -------
    rows : float64 ndarray of shape (n, F)
    """
    values, vectors = np.linalg.eigh(systems)
    there = values > _SINGULAR * values[..., -1:]
    scales = np.sqrt(np.where(there, values, 0))
    roots = scales[..., :, None] * np.swapaxes(vectors, -1, -2)
    inverse = np.divide(1, scales, out=np.zeros_like(scales), where=there)
    goals = inverse * np.einsum("...fg,...f->...g", vectors, products)
    roots = np.broadcast_to(roots, (len(products), *roots.shape[-2:]))
    most = 100 * products.shape[1]  # several times what any row has been seen to take
    from scipy.optimize import nnls  # workers, few of which need it, start without

    found = [nnls(root, goal, maxiter=most)[0] for root, goal in zip(roots, goals, strict=True)]
    return np.array(found).reshape(products.shape)
