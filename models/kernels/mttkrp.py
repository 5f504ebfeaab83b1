"""MTTKRP of a sparse tensor: the matricized tensor times the Khatri-Rao product of the factors.

    out[i_m, :] += x · Π_{k ≠ m} U_k[i_k, :]          over all nonzeros x at (i_0, …, i_{M-1})

Source: Kolda and Bader, "Tensor decompositions and applications", SIAM Review 51 (2009), §3.4.
"""

from __future__ import annotations

from daskpart._jit import kernel


@kernel
def add_nonzeros(coordinates, values, mode, factors, row, out):
    """Add the products of all nonzeros to the rows of `mode` in `out`, in the order given.

    `coordinates` is [M, nnz], `factors` a tuple of [n_m, R], `row` scratch of shape [R].
    """
    for n in range(values.size):
        row[:] = values[n]
        for k in range(coordinates.shape[0]):
            if k != mode:
                factor = factors[k]
                i = coordinates[k, n]
                for f in range(row.size):
                    row[f] *= factor[i, f]
        i = coordinates[mode, n]
        for f in range(row.size):
            out[i, f] += row[f]
