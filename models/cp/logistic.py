"""CP of yes and no: the logistic loss over the stored entries, by weighted least squares.

    for each mode m
        s_n ← c + x̂_n, x̂ the decomposition, at the own entries
        w_n ← tanh(s_n / 2) / 2s_n
        N_i, b_i ← Σ w_n z_n z_nᵀ, Σ (y_n − ½ − c w_n) z_n of each own row      as in `completion`
        reduce, u_i ← (N_i + ridge I)⁻¹ b_i, λ, expand                          as in `completion`
    allreduce of Σ log(1 + exp(s_n)) − y_n s_n

    minimise  Σ_{stored n} log(1 + exp(s_n)) − y_n s_n + ½ ridge Σ λ_r²

    x_n     1 ─► y_n = 1  yes        0, or else −1 ─► y_n = 0  no

s is the logarithm of the odds of a 1, so 1/(1 + exp(−s)) is its probability; c is that of the share
of ones, from which the decomposition tells what an entry adds: where nothing is known, nothing.
The loss of an entry is at most a parabola in s that touches it at the present s, of curvature w;
the minimum of all parabolas along a mode is a system a row, and no update raises the loss. Messages
are those of `completion`, and nothing else travels but the loss.

The fit is the share of the deviance that is explained, 1 − loss / loss of the share of ones: 1 is
exact, 0 no better than one and the same probability for all entries.

Sources: Jaakkola and Jordan, "Bayesian parameter estimation via variational methods", Statistics
and Computing 10 (2000), the bound; Hong, Kolda and Duersch, "Generalized canonical polyadic tensor
decomposition", SIAM Review 62 (2020), the loss (there Bernoulli with logit link).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from daskpart._floor.blas import one_blas_thread
from daskpart._floor.words import in_digits
from daskpart.collectives import Communicator, PerRank, hypercube_allreduce
from daskpart.errors import InputError
from daskpart.models.optimisation.log_loss import log_loss_derivatives, log_losses
from daskpart.models.optimisation.newton import newton_rows
from daskpart.models.optimisation.nonnegative import nonnegative_rows

from .als import Factors, Iteration, Modes, Update
from .completion import solve_mode, systems_of
from .layout.by_row import EntriesByRow
from .ranks import RankTensor
from .state import CPState
from .steps import column_products


@dataclass(frozen=True)
class LogisticModes(Iteration):
    """Updates of yes and no, ready to run; their rows travel as `modes` has them travel.

    Attributes
    ----------
    modes : PointToPointModes or EmbeddedModes
        By `np.sqrt`, as sums are those of squares alone.
    intercept : float
        c.
    """

    modes: Modes
    intercept: float = 0.0

    def iterate(
        self, comm: Communicator, tensors: PerRank, factors: Factors, update: Update
    ) -> tuple[Factors, PerRank]:
        """One iteration; its one sum is the loss, without the ridge."""
        factors = factors.copy()
        for mode in self.modes.updated:
            equations = comm.map(
                own_equations, tensors, factors.weights, *factors.rows,
                mode=mode, intercept=self.intercept,
            )  # fmt: skip
            solve_mode(comm, self.modes, tensors, factors, equations, mode, update)
            sums = comm.map(squared_norms, factors.rows[mode], tensors, mode=mode)
            self.modes.normalise_and_expand(comm, factors, sums, mode)
        loss = comm.map(own_loss, tensors, factors.weights, *factors.rows, intercept=self.intercept)
        return factors, hypercube_allreduce(comm, loss, label="allreduce")

    def at(self, state: CPState, of_tensor: Sequence[float]) -> LogisticModes:
        """With c of these entries; of a fit that goes on with that of before."""
        return replace(self, intercept=state.intercept if state.epoch else log_odds(of_tensor))

    def fit(self, sums: NDArray[np.float64], of_tensor: Sequence[float]) -> float:
        """The share of the deviance that is explained."""
        return explained_deviance(float(sums[0]), of_tensor)


# -- the loss ---


def answers_of(values: NDArray[Any]) -> NDArray[np.float64]:
    """How many values are 1, 0, and −1; refuses others, and 0 beside −1 (InputError)."""
    counts = np.array([np.count_nonzero(values == kind) for kind in (1, 0, -1)], np.float64)
    if counts.sum() < values.size:
        wrong = values[~np.isin(values, (1, 0, -1))][0]
        raise InputError(
            "loss='logistic' is of yes and no, 1 and 0 (or −1), and "
            f"{in_digits(wrong)} is neither: say yourself where a yes begins, as by values >= 4, "
            "or take loss='squared'"
        )
    check_answers(counts)
    return counts


def check_answers(of_tensor: Sequence[float] | NDArray[np.float64]) -> None:
    """Refuse `answers_of` where no is said in two ways (InputError)."""
    _, zeros, minus = of_tensor
    if zeros and minus:
        raise InputError(
            "loss='logistic' takes no as 0 or as −1, and both are there: leave out what is not "
            "known, and give one number for no"
        )


def log_odds(of_tensor: Sequence[float]) -> float:
    """c, of the share of yes, by `answers_of`.

    Raises
    ------
    InputError
        Where all are yes, or all no.
    """
    if only := _only_answer(of_tensor):
        raise InputError(
            f"all stored entries say {only}, and loss='logistic' tells one from the other: store "
            "both, a no as 0 or −1 (what is not stored is unknown)"
        )
    return float(np.log(of_tensor[0] / (of_tensor[1] + of_tensor[2])))


def _only_answer(of_tensor: Sequence[float]) -> str:
    """Yes or no, where all say that; else nothing."""
    yes, zeros, minus = of_tensor
    return "" if yes and zeros + minus else "yes" if yes else "no"


def explained_deviance(loss: float, of_tensor: Sequence[float]) -> float:
    """1 − loss / loss of the share of yes, by `answers_of`; NaN where all say the same."""
    yes, no = of_tensor[0], of_tensor[1] + of_tensor[2]
    if not (yes and no):
        return float("nan")
    null = xlogy(yes + no, yes + no) - xlogy(yes, yes) - xlogy(no, no)
    return float(1.0 - loss / null)


def loss_of(logits: NDArray[Any], values: NDArray[Any]) -> float:
    """Σ log(1 + exp(s)) − y s; values as of `answers_of`."""
    return float(log_losses(values, logits).sum())


def score_of(logits: NDArray[np.float64], values: NDArray[np.float64]) -> float:
    """The share of the deviance of entries that a decomposition explains."""
    of_tensor = answers_of(values).tolist()
    if only := _only_answer(of_tensor):
        raise InputError(
            f"all stored entries say {only}, and the score, a share of the deviance, divides by "
            "that of one probability for all, which is 0 then: give entries of both, or judge by "
            "predict"
        )
    return explained_deviance(loss_of(logits, values), of_tensor)


# -- steps on one rank ---


def own_answers(tensor: RankTensor) -> NDArray[np.float64]:
    """How many of a rank's entries are 1, 0, and −1."""
    return answers_of(tensor.layout.values)


def own_equations(
    tensor: RankTensor[EntriesByRow],
    weights: NDArray[np.float64],
    *rows: NDArray[Any],
    mode: int,
    intercept: float,
) -> NDArray[np.float64]:
    """Equations of the rank's rows along a mode from its own entries."""
    return equations_of(tensor.layout, mode, rows, weights, intercept)


def equations_of(
    layout: EntriesByRow,
    mode: int,
    factors: Sequence[NDArray[Any]],
    weights: NDArray[np.float64],
    intercept: float,
) -> NDArray[np.float64]:
    """The equations of all rows of a mode, for the parabolas at the present values."""
    half = (layout.reconstruct(factors, weights) + intercept) / 2
    # w = tanh(s/2)/2s, which comes to 1/4 where s comes to 0
    small = np.abs(half) < np.sqrt(np.finfo(half.dtype).eps)
    half[small] = 1
    curvature = np.where(small, 0.25, np.tanh(half) / (4 * half))
    roots = np.sqrt(curvature, dtype=half.dtype)
    targets = np.where(layout.values > 0, 0.5, -0.5) - intercept * curvature
    centres = (targets / roots).astype(half.dtype)
    return layout.normal_equations(mode, factors, centres, roots)


def squared_norms(rows: NDArray[Any], tensor: RankTensor, *, mode: int) -> NDArray[np.float64]:
    """Of each column over the rank's owned rows, shape (R,)."""
    own = rows[: tensor.n_owned[mode]]
    return column_products(own, own)


def own_loss(
    tensor: RankTensor[EntriesByRow],
    weights: NDArray[np.float64],
    *rows: NDArray[Any],
    intercept: float,
) -> NDArray[np.float64]:
    """Of the rank's entries, shape (1,)."""
    layout = tensor.layout
    return np.array([loss_of(layout.reconstruct(rows, weights) + intercept, layout.values)])


# -- a fitted model in use ---


@one_blas_thread  # of small matrices, for which several would only wait for each other
def new_logistic_rows(
    layout: EntriesByRow,
    factors: Sequence[NDArray[np.float64]],
    mode: int,
    *,
    nonnegative: bool,
    ridge: float,
    intercept: float,
) -> NDArray[np.float64]:
    """Rows of new slices along a mode, with the weights in them, all other factors fixed.

    Each row is a convex problem of its own, and solved by Newton's method.

    Parameters
    ----------
    layout : EntriesByRow
        Of the new slices.
    factors : sequence of float64 ndarray of shape (I_m, R)
        Of all modes, that of `mode` with a row for each new slice, whatever it holds.
    mode : int
    nonnegative : bool
    ridge, intercept : float
    """
    values, index = layout.values, layout.coordinates[mode]
    answers_of(values)
    n_rows, n_components = factors[mode].shape
    ones = np.ones(n_components)

    def logits(rows: NDArray[np.float64]) -> NDArray[Any]:
        given = [rows if m == mode else factor for m, factor in enumerate(factors)]
        return layout.reconstruct(given, ones) + intercept

    def losses_at(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        of_rows = np.bincount(index, log_losses(values, logits(rows)), n_rows)
        return of_rows + ridge / 2 * np.square(rows).sum(axis=1)

    def parabolas_at(rows: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any]]:
        there = logits(rows)
        slope, curvature = log_loss_derivatives(values, there)
        roots = np.sqrt(curvature)
        centres = roots * (there - intercept) - slope / roots
        return systems_of(layout.normal_equations(mode, factors, centres, roots), ridge)

    def minima(left: NDArray[Any], right: NDArray[Any]) -> NDArray[np.float64]:
        if nonnegative:
            return nonnegative_rows(left, right)
        return (np.linalg.pinv(left, hermitian=True) @ right[..., None])[..., 0]

    return newton_rows(np.zeros((n_rows, n_components)), losses_at, parabolas_at, minima)
