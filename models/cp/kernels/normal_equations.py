"""Normal equations of single factor rows, from the stored entries of each row alone.

    z_n = Π_{k≠m} U_k[i_k]                  for each entry x_n of row i

    a row of equations    │ N_00 N_01 … N_0R │ N_11 … N_1R │ … │ N_RR │ b_0 … b_R │   float64
                            upper half of N = Σ z_n z_nᵀ               b = Σ x_n z_n

    solve_each            u = (N + ridge I)⁻¹ b       by Cholesky, a row at a time
    hals_each             the same over u ≥ 0

Where entries weigh differently, both z_n and x_n are multiplied by the root of the weight.

The rows z_n of some entries are gathered, and their Gram is taken by the kernel that also serves
whole factors (`row_products`). A row with fewer entries than components has a singular N: then the
smallest multiple of its largest diagonal entry that makes it regular is added, which is close to
the solution of least norm. A row without any entry is 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.kernels import kernel

from .dense import factorise, hals_row
from .row_products import GRAM_WIDTH, add_gram

_ENTRIES_AT_A_TIME = 64  # of 32 components in float64: half the first-level cache
_FIRST_JITTER, _JITTER_GROWS = 1e-12, 100.0  # of the largest diagonal entry
_SMALLEST_PIVOT = 1e-13  # of its diagonal entry


def equation_width(n_components: int) -> int:
    """Numbers that the equations of a row take: R(R + 1)/2 of N and R of b."""
    return n_components * (n_components + 3) // 2


def equations_bytes(n_components: int) -> int:
    """Bytes of the equations of a row: sums of many products, so they are float64 throughout."""
    return 8 * equation_width(n_components)


def add_equations(
    coordinates: NDArray[np.int32],
    values: NDArray,
    order: NDArray,
    pointer: NDArray[np.int64],
    mode: int,
    factors: tuple[NDArray, ...],
    roots: NDArray,
) -> NDArray[np.float64]:
    """The equations of all rows of a mode.

    Parameters
    ----------
    coordinates : ndarray of int32 of shape (n_modes, nnz)
    values : ndarray of shape (nnz,)
    order : ndarray of unsigned integers of shape (nnz,)
        Entries by their row in this mode.
    pointer : int64 ndarray of shape (n_rows + 1,)
        Row i has the entries ``order[pointer[i]:pointer[i + 1]]``.
    mode : int
    factors : tuple of C-contiguous ndarray of shape (rows of the mode, R), one type
        Of all modes; the one of `mode` is not read.
    roots : ndarray of shape (nnz,) or (0,)
        Of the weights of entries, by which `values` are multiplied already; empty: all are 1.

    Returns
    -------
    float64 ndarray of shape (n_rows, R(R + 3)/2)
    """
    n_components = factors[0].shape[1]
    out = np.zeros((len(pointer) - 1, equation_width(n_components)))
    others = tuple(k for k in range(len(factors)) if k != mode)
    room = np.empty((_ENTRIES_AT_A_TIME, n_components))
    gram = np.empty((n_components, n_components))
    _add_rows(
        (0.0,) * GRAM_WIDTH, coordinates, values, roots, order, pointer, others,
        tuple(factors[k] for k in others), room, room.ctypes.data, gram, gram.ctypes.data, out,
    )  # fmt: skip
    return out


@kernel
def _add_rows(
    template, coordinates, values, roots, order, pointer, others, factors, room, room_address,
    gram, gram_address, out,
):  # fmt: skip
    n_components = room.shape[1]
    half = out.shape[1] - n_components
    for i in range(out.shape[0]):
        gram[:] = 0.0
        for begin in range(pointer[i], pointer[i + 1], room.shape[0]):
            n_here = min(room.shape[0], pointer[i + 1] - begin)
            for place in range(n_here):
                n = order[begin + place]
                row = factors[0][coordinates[others[0], n]]
                root = np.float64(roots[n]) if roots.size else 1.0
                for r in range(n_components):
                    room[place, r] = root * row[r]
                for k in range(1, len(others)):
                    row = factors[k][coordinates[others[k], n]]
                    for r in range(n_components):
                        room[place, r] *= row[r]
                value = np.float64(values[n])
                for r in range(n_components):
                    out[i, half + r] += value * room[place, r]
            add_gram(template, room[:n_here], room_address, gram, gram_address)
        place = 0
        for r in range(n_components):
            for s in range(r, n_components):
                out[i, place] = gram[r, s]
                place += 1


@kernel(internal=True)
def _unpack(equations, i, ridge, system):
    """N + ridge I of row i, whole; gives its largest diagonal entry, without the ridge."""
    place, largest = 0, 0.0
    for r in range(system.shape[0]):
        largest = max(largest, equations[i, place])
        for s in range(r, system.shape[0]):
            system[r, s] = equations[i, place]
            system[s, r] = equations[i, place]
            place += 1
        system[r, r] += ridge
    return largest


@kernel
def solve_each(equations, ridge, rows):
    """Put the solution of each row's equations over `rows`, of shape (n, R)."""
    n = rows.shape[1]
    half = equations.shape[1] - n
    system, lower, row = np.empty((n, n)), np.zeros((n, n)), np.empty(n)
    for i in range(rows.shape[0]):
        largest = _unpack(equations, i, ridge, system)
        if largest == 0.0 or not np.isfinite(largest):
            rows[i] = largest * 0.0  # nothing is known of it; what overflowed becomes NaN
            continue
        added, jitter = 0.0, _FIRST_JITTER
        while jitter < 1e6 and not factorise(system, added, _SMALLEST_PIVOT, lower):
            added = jitter * largest
            jitter *= _JITTER_GROWS
        for r in range(n):
            entry = equations[i, half + r]
            for k in range(r):
                entry -= lower[r, k] * row[k]
            row[r] = entry / lower[r, r]
        for r in range(n - 1, -1, -1):
            entry = row[r]
            for k in range(r + 1, n):
                entry -= lower[k, r] * row[k]
            row[r] = entry / lower[r, r]
        for r in range(n):
            rows[i, r] = row[r]


@kernel(fastmath=True)
def hals_each(equations, ridge, weights, n_sweeps, rows):
    """Nonnegative least squares of each row, some sweeps from ``rows[i] ∗ weights`` on."""
    n = rows.shape[1]
    half = equations.shape[1] - n
    system, row = np.empty((n, n)), np.empty(n)
    for i in range(rows.shape[0]):
        largest = _unpack(equations, i, ridge, system)
        if largest == 0.0:
            rows[i] = 0.0
            continue
        for r in range(n):
            row[r] = rows[i, r] * weights[r]
        hals_row(equations[i, half:], system, n_sweeps, row)
        for r in range(n):
            rows[i, r] = row[r]


@kernel
def explained(equations, rows):
    """Σ b·u and Σ uᵀNu over rows: what the squared residual of the entries follows from."""
    n = rows.shape[1]
    half = equations.shape[1] - n
    inner, squared = 0.0, 0.0
    for i in range(rows.shape[0]):
        place = 0
        for r in range(n):
            left = np.float64(rows[i, r])
            inner += left * equations[i, half + r]
            squared += left * left * equations[i, place]
            place += 1
            for s in range(r + 1, n):
                squared += 2.0 * left * np.float64(rows[i, s]) * equations[i, place]
                place += 1
    return inner, squared
