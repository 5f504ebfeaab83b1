"""New users without training: each row is a problem of its own when the item factors stay.

    ratings of new users ──► normal equations, a block of users at a time ──► Cholesky ──► w, b
                                   ▲                                                       │
                                   └───── yes or no: Newton's method, a few such steps ◄───┘

Cost: O(nnz F² + users F³), times the steps; memory bounded by the block.
"""

from __future__ import annotations

import numpy as np

from daskpart._floor.blas import one_blas_thread
from daskpart.errors import InputError
from daskpart.models.optimisation.log_loss import log_loss_derivatives, log_losses
from daskpart.models.optimisation.newton import newton_rows
from daskpart.models.optimisation.nonnegative import nonnegative_rows

from .kernels.scoring import normal_equations, predict_pairs, solve_equations
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
    *,
    logistic: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Factor rows and biases that minimise the loss for new rows, items held fixed.

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
    logistic : bool
        Whether values are 1 for yes and 0 for no, and the loss that of these.

    Returns
    -------
    rows : float32 ndarray of shape (n, F)
    row_bias : float32 ndarray of shape (n,)

    Raises
    ------
    InputError
        For ratings so large that float32 cannot hold the rows; without γ under the logistic loss.
    """
    if logistic and not regularization:
        raise InputError(
            'new rows of loss="logistic" have no solution without a penalty, as scores could tell '
            "yes from no ever more surely: fit with regularization above 0"
        )
    n_rows, n_components = pointer.size - 1, factors.n_components
    n_unknowns = n_components + int(biases)
    # in the unit of the fit, so that γ means what it meant there
    unit = factors.trained_unit
    of_users, of_items = split_unit(unit)
    known = np.ones((factors.n_items, n_unknowns))
    np.divide(factors.item_factors, np.float32(of_items), out=known[:, :n_components])
    residuals = values.astype(np.float64) - factors.global_mean - factors.item_bias[columns]
    residuals /= unit
    level = factors.item_bias.astype(np.float64) + factors.global_mean
    counts = np.ones(len(values)) if weights is None else weights.astype(np.float64)
    solution = np.zeros((n_rows, n_components + 1))
    block = max(1, _BLOCK_WORDS // n_unknowns**2)
    for begin in range(0, n_rows, block):
        pointers = pointer[begin : begin + block + 1]
        n_block = pointers.size - 1
        if logistic:
            own = slice(pointers[0], pointers[-1])
            problem = _Answers(
                pointers - pointers[0], columns[own], values[own], counts[own], known, level,
                regularization,
            )  # fmt: skip
            solved = problem.solved(n_components, nonnegative)
        else:
            left = np.zeros((n_block, n_unknowns, n_unknowns))
            right = np.zeros((n_block, n_unknowns))
            normal_equations(
                pointers, columns, residuals, counts, known, float(regularization), left, right
            )
            solved = _minima(left, right, regularization, n_components, nonnegative)
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


class _Answers:
    """Σ_j c_j (−ln σ(± s_j) + γ/2 ‖x‖²), s_j = o_j + ⟨x, x_j⟩, of each row of a block.

    Parameters
    ----------
    pointer, columns, answers, counts : ndarray
        As of `solve_rows`, of the block alone.
    known : float64 ndarray of shape (N, D)
        x_j of each item.
    level : float64 ndarray of shape (N,)
        o_j of each item.
    regularization : float
    """

    def __init__(
        self,
        pointer: np.ndarray,
        columns: np.ndarray,
        answers: np.ndarray,
        counts: np.ndarray,
        known: np.ndarray,
        level: np.ndarray,
        regularization: float,
    ) -> None:
        self._pointer, self._columns, self._known, self._level = pointer, columns, known, level
        self._answers, self._counts = answers.astype(np.float64), counts
        self._n_rows = pointer.size - 1
        self._rows = np.repeat(np.arange(self._n_rows, dtype=np.int32), np.diff(pointer))
        self._regularization, self._penalty = regularization, regularization * self._sums(counts)

    def solved(self, n_components: int, nonnegative: bool) -> np.ndarray:
        """The minimum of each row."""

        def minima(left: np.ndarray, right: np.ndarray) -> np.ndarray:
            return _minima(left, right, self._regularization, n_components, nonnegative)

        begin = np.zeros((self._n_rows, self._known.shape[1]))
        return newton_rows(begin, self._losses, self._parabolas, minima)

    def _scores(self, found: np.ndarray) -> np.ndarray:
        """Of each answer."""
        scores, nothing = np.empty(self._rows.size), np.zeros(self._n_rows)
        predict_pairs(
            self._rows, self._columns, found, self._known, nothing, self._level, 0.0, scores
        )
        return scores

    def _losses(self, found: np.ndarray) -> np.ndarray:
        """Of each row."""
        losses = self._sums(self._counts * log_losses(self._answers, self._scores(found)))
        return losses + self._penalty / 2 * np.square(found).sum(axis=1)

    def _parabolas(self, found: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """See `newton_rows`."""
        scores = self._scores(found)
        slope, curvature = log_loss_derivatives(self._answers, scores)
        residuals = scores - self._level[self._columns] - slope / curvature
        n_unknowns = found.shape[1]
        left = np.zeros((self._n_rows, n_unknowns, n_unknowns))
        right = np.zeros((self._n_rows, n_unknowns))
        weights = self._counts * curvature
        normal_equations(
            self._pointer, self._columns, residuals, weights, self._known, 0.0, left, right
        )
        diagonal = np.arange(n_unknowns)
        left[:, diagonal, diagonal] += self._penalty[:, None]
        return left, right

    def _sums(self, of_answers: np.ndarray) -> np.ndarray:
        return np.bincount(self._rows, of_answers, self._n_rows)


def _minima(
    left: np.ndarray,
    right: np.ndarray,
    regularization: float,
    n_components: int,
    nonnegative: bool,
) -> np.ndarray:
    """Where the parabola of each system is least; of many such places that of least norm."""
    if nonnegative:
        return _nonnegative(left, right, n_components)
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
