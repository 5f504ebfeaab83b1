"""Newton's method on many small convex problems at once, each a row.

row ─► the parabola that touches its loss ─► the row where that is least ─► a step towards it,
 ▲                                                                          halved while it
 └──────────────────────────────────────────────────────────────────────────  leads upwards
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]

_MOST_STEPS, _MOST_HALVINGS = 100, 40
_TOLERANCE = 1e-12  # of what a step promises, beside the loss; it is taken still


def newton_rows(
    rows: Rows,
    losses_at: Callable[[Rows], Rows],
    parabolas_at: Callable[[Rows], tuple[NDArray[np.float64], Rows]],
    minima: Callable[[NDArray[np.float64], Rows], Rows],
) -> Rows:
    """The minimum of each row's loss.

    Parameters
    ----------
    rows : float64 ndarray of shape (n, D)
        Where to begin.
    losses_at : callable
        ``losses_at(rows)``, shape (n,).
    parabolas_at : callable
        ``parabolas_at(rows)``: A of shape (n, D, D) and b of shape (n, D) of parabolas
        xᵀAx/2 − bᵀx that have the gradient and the curvature of the loss at the rows.
    minima : callable
        ``minima(A, b)``: the rows where the parabolas are least, under what constrains them.

    Returns
    -------
    float64 ndarray of shape (n, D)
    """
    losses = losses_at(rows)
    for _ in range(_MOST_STEPS):
        left, right = parabolas_at(rows)
        step = minima(left, right) - rows
        gradient = np.einsum("nij,nj->ni", left, rows) - right
        promised = -(gradient * step).sum(axis=1)
        for _ in range(_MOST_HALVINGS):
            after = losses_at(rows + step)
            upwards = after > losses * (1 + _TOLERANCE)
            if not upwards.any():
                break
            step[upwards] /= 2
        rows, losses = rows + step, after
        if (promised <= _TOLERANCE * (1 + losses)).all():
            break
    return rows
