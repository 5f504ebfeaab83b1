"""Cholesky of one small matrix, A = L Lᵀ, in place and in the type of its entries.

Rows of factors are solved by the ten thousand, each from equations of its own: LAPACK's calls cost
as much as their work there, and do half of it twice, as an LU knows of no symmetry.
"""

from __future__ import annotations

import numpy as np

from daskpart._floor.kernels import kernel


@kernel(internal=True, fastmath=True)
def cholesky(left):
    """Put L over the lower half of `left`, 1 / diagonal in the diagonal; False if it has none."""
    for i in range(left.shape[0]):
        own = left[i]
        for j in range(i):
            other = left[j]
            inner = own[j]
            for k in range(j):
                inner -= own[k] * other[k]
            own[j] = inner * other[j]
        pivot = own[i]
        for k in range(i):
            pivot -= own[k] * own[k]
        if not pivot > 0.0:
            return False
        own[i] = 1.0 / np.sqrt(pivot)
    return True


@kernel(internal=True, fastmath=True)
def substitute(left, vector):
    """Solve L Lᵀ x = vector in place."""
    n = left.shape[0]
    for i in range(n):
        line = left[i]
        inner = vector[i]
        for k in range(i):
            inner -= line[k] * vector[k]
        vector[i] = inner * line[i]
    for i in range(n - 1, -1, -1):
        line = left[i]
        x = vector[i] * line[i]
        vector[i] = x
        for k in range(i):
            vector[k] -= line[k] * x
