"""CP-ALS over the stored entries alone: what is absent is unknown, and weighs nothing.

    for each mode m
        N_i, b_i ← normal equations of each own row, from the own entries      (kernel)
        reduce    equations of shared rows ─► owners, which add them up        R(R + 3)/2 numbers
        u_i ← (N_i + ridge I)⁻¹ b_i                                            a system a row
        λ, expand as in `als`                                                  R numbers

    minimise  Σ_{stored n} (x_n − x̂_n)²         instead of   ‖X − X̂‖² over all cells

As other entries are known of each row, no two rows share their system, and no Gram is needed. The
messages go between the same ranks as those of `als`, with the same rows; those of the reduce are
wider: half a symmetric matrix and a right-hand side each, in float64.

The fit is 1 − ‖x − x̂‖/‖x‖ over the stored entries. Its residual follows from the equations of the
last mode: ‖x‖² − 2 Σ b·u + Σ uᵀNu.

Sources: Tomasi and Bro, "PARAFAC and missing values", Chemometrics Intell. Lab. Syst. 75 (2005);
Smith, Park, Karypis, "An exploration of optimization algorithms for high performance tensor
completion", SC 2016, §III-A (ALS, a row at a time).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives import Communicator, PerRank

from .als import INNER, SQUARED, Factors, Iteration, Modes, Update
from .kernels.normal_equations import explained, hals_each, solve_each
from .layout.by_row import EntriesByRow
from .layout.sorting import Nonzeros
from .ranks import RankTensor
from .steps import SWEEPS, column_products, normalise_columns


@dataclass(frozen=True)
class StoredEntriesModes(Iteration):
    """ALS over stored entries, ready to run; its rows travel as `modes` has them travel."""

    modes: Modes

    def iterate(
        self, comm: Communicator, tensors: PerRank, factors: Factors, update: Update
    ) -> tuple[Factors, PerRank]:
        """One iteration; fits and sums are over the stored entries."""
        factors = factors.copy()
        for mode in self.modes.updated:
            equations = comm.map(own_equations, tensors, *factors.rows, mode=mode)
            equations = solve_mode(comm, self.modes, tensors, factors, equations, mode, update)
            last = mode == self.modes.updated[-1]
            sums = comm.map(sums_of, factors.rows[mode], equations, tensors, mode=mode, last=last)
            sums = self.modes.normalise_and_expand(comm, factors, sums, mode)
        return factors, sums


def solve_mode(
    comm: Communicator,
    modes: Modes,
    tensors: PerRank,
    factors: Factors,
    equations: PerRank,
    mode: int,
    update: Update,
) -> PerRank:
    """Add up the equations of a mode at the owners of its rows, and solve these; gives the sums."""
    equations = modes.reduce_rows(comm, equations, mode)
    factors.rows[mode] = comm.update(
        solve_own, factors.rows[mode], equations, factors.weights, tensors,
        mode=mode, update=update,
    )  # fmt: skip
    return equations


# -- steps on one rank ---


def own_equations(
    tensor: RankTensor[EntriesByRow], *rows: NDArray[Any], mode: int
) -> NDArray[np.float64]:
    """Equations of the rank's rows along a mode from its own entries."""
    return tensor.layout.normal_equations(mode, rows)


def solve_own(
    rows: NDArray[Any],
    equations: NDArray[np.float64],
    weights: NDArray[np.float64],
    tensor: RankTensor,
    *,
    mode: int,
    update: Update,
) -> NDArray[Any]:
    """Put the solution over the owned rows of a factor, in place."""
    owned = slice(0, tensor.n_owned[mode])
    nonnegative, ridge = update.of(mode)
    solve_equations(equations[owned], rows[owned], weights, nonnegative=nonnegative, ridge=ridge)
    return rows


def solve_equations(
    equations: NDArray[np.float64],
    rows: NDArray[Any],
    weights: NDArray[np.float64],
    *,
    nonnegative: bool = False,
    ridge: float = 0.0,
) -> None:
    """Put the rows that fit their own entries best over `rows`; see `steps.solve_rows`."""
    if nonnegative:
        hals_each(equations, ridge, weights, SWEEPS, rows)
    else:
        solve_each(equations, ridge, rows)


def systems_of(
    equations: NDArray[np.float64], ridge: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """N + ridge I of each row, whole, of shape (n, R, R), and b, of shape (n, R)."""
    n_components = (int(np.sqrt(9 + 8 * equations.shape[1])) - 3) // 2
    above = np.triu_indices(n_components)
    systems = np.empty((len(equations), n_components, n_components))
    systems[:, above[0], above[1]] = systems[:, above[1], above[0]] = equations[:, : len(above[0])]
    return systems + ridge * np.eye(n_components), equations[:, len(above[0]) :]


def sums_of(
    rows: NDArray[Any],
    equations: NDArray[np.float64],
    tensor: RankTensor,
    *,
    mode: int,
    last: bool,
) -> NDArray[np.float64]:
    """Over owned rows: squared norm of each column, then Σ b·u and Σ uᵀNu; shape (R + 2,).

    The last two only in the last mode; 0 elsewhere.
    """
    own = rows[: tensor.n_owned[mode]]
    sums = np.zeros(rows.shape[1] + 2)
    sums[:-2] = column_products(own, own)
    if last:
        sums[INNER], sums[SQUARED] = explained(equations, own)
    return sums


def warm_up_equations(dtype: Any, n_modes: int, nonnegative: bool) -> None:
    """Compile the steps on one entry."""
    entry = Nonzeros(np.zeros((n_modes, 1), np.int32), np.ones(1, dtype))
    layout = EntriesByRow.of(entry, (1,) * n_modes)
    rows = [np.ones((1, 1), dtype) for _ in range(n_modes)]
    for mode in range(n_modes):
        equations = layout.normal_equations(mode, rows)
    solve_equations(equations, rows[0], np.ones(1), nonnegative=nonnegative)
    explained(equations, rows[0])
    normalise_columns(rows[0], np.sqrt(column_products(rows[0], rows[0])))
