"""CP of counts: the Poisson loss, by multiplicative updates.

    for each mode m
        Φ ← MTTKRP of x_n / x̂_n            over the own nonzeros, which are passed over twice
        reduce    Φ of shared rows ─► owners, which add them up
        A ← A ∗ λ ∗ Φ
        λ ← column sums of A, by an allreduce; A ← A / λ; expand as in `als`
    allreduce of Σ x log x̂

    minimise  Σ_{all cells} x̂ − x log x̂       instead of   ‖X − X̂‖²

    absent entries unknown, z_n = Π_{k≠m} U_k[i_k]
        reduce    Φ and Σ z_n over the stored entries of each row         2 R numbers
        A ← A ∗ λ ∗ Φ / Σ z_n
        allreduce of Σ x̂ and Σ x log x̂

    minimise  Σ_{stored n} x̂_n − x_n log x̂_n

Columns sum to 1, so a column is how the counts of a component are spread over a mode, and λ says
how many they are. An absent entry is a count of 0: what it adds is x̂ alone, and all x̂ together are
Σ λ; over all cells Σ z_n is 1. So an iteration sees the nonzeros alone, needs no Gram, and what
travels is as in ALS. Columns of fixed factors are as given: then the product of their sums stands
for that 1. Where absent entries are unknown, x̂ counts at the stored ones alone, zeros among them,
and their Σ z_n differs from row to row. No multiplication raises the loss. A mode takes one step:
with several before the next mode more passes led to the same loss.

An entry of a factor that has come to 0 stays there under multiplication. Where the counts want it
larger, Φ above 1, it begins again at a hundredth of the mean of its factor.

The fit is the share of the deviance that is explained, 1 − D(X, X̂) / D(X, mean of X), with
D = 2 Σ x log(x/x̂) − x + x̂ over the cells that are known: 1 is exact, 0 no better than one and the
same number for all of them.

Sources: Chi and Kolda, "On tensors, sparsity, and nonnegative factorizations", SIAM J. Matrix Anal.
Appl. 33 (2012), Algorithm 3 (CP-APR by multiplicative updates, of one inner iteration); Lee and
Seung, "Algorithms for non-negative matrix factorization", NIPS 2000.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from daskpart.collectives import Communicator, PerRank, hypercube_allreduce
from daskpart.errors import InputError

from .als import Factors, Iteration, Modes, Update
from .layout.layout import TensorLayout
from .ranks import RankTensor
from .state import CPState

_DEAD, _AGAIN = 1e-10, 1e-2  # of the mean entry of a factor: what counts as 0, and where it begins
_MOST_STEPS, _ENOUGH = 500, 1e-7  # of new rows: updates, and the change that ends them
_LEAST = np.finfo(np.float64).tiny  # that a logarithm is taken of


@dataclass(frozen=True)
class CountModes(Iteration):
    """Updates of counts, ready to run; their rows travel as `modes` has them travel.

    Attributes
    ----------
    modes : PointToPointModes or EmbeddedModes
        By `counts_of`.
    shape : tuple of int
        Of the tensor.
    n_cells : float
        That are known.
    unknown : bool
        Whether these are the stored entries alone, and not all.
    sums_of_fixed : tuple of float, one a component
        Product of the column sums of all fixed factors.
    """

    modes: Modes
    shape: tuple[int, ...]
    n_cells: float
    unknown: bool = False
    sums_of_fixed: tuple[float, ...] = ()

    def iterate(
        self, comm: Communicator, tensors: PerRank, factors: Factors, update: Update
    ) -> tuple[Factors, PerRank]:
        """One iteration; its sums are Σ x̂ over the cells that are known, and Σ x log x̂."""
        factors = factors.copy()
        for mode in self.modes.updated:
            ratios = comm.map(
                own_ratios, tensors, factors.weights, *factors.rows,
                mode=mode, unknown=self.unknown,
            )  # fmt: skip
            ratios = self.modes.reduce_rows(comm, ratios, mode)
            factors.rows[mode] = comm.update(
                multiply_owned, factors.rows[mode], ratios, factors.weights, tensors,
                mode=mode, extent=self.shape[mode], unknown=self.unknown,
                over_all_cells=self.sums_of_fixed,
            )  # fmt: skip
            sums = comm.map(owned_sums, factors.rows[mode], tensors, mode=mode)
            self.modes.normalise_and_expand(comm, factors, sums, mode)
        sums = comm.map(
            own_likelihood, tensors, factors.weights, *factors.rows, unknown=self.unknown
        )
        sums = hypercube_allreduce(comm, sums, label="allreduce")
        if not self.unknown:
            sums = comm.map(sums_of_model, factors.weights, sums, over_all_cells=self.sums_of_fixed)
        return factors, sums

    def at(self, state: CPState, of_tensor: Sequence[float]) -> CountModes:
        """With the sums of the factors that stay; a first fit needs cells that differ."""
        if not state.epoch:
            check_differences(of_tensor, self.n_cells)
        updated = self.modes.updated
        fixed = [factor for mode, factor in enumerate(state.factors) if mode not in updated]
        sums = times_column_sums(np.ones(state.n_components), fixed)
        return replace(self, sums_of_fixed=tuple(sums.tolist()))

    def fit(self, sums: NDArray[np.float64], of_tensor: Sequence[float]) -> float:
        """The share of the deviance that is explained."""
        return explained_deviance(sums, of_tensor, self.n_cells)


def with_sums_of_1(state: CPState, fixed: Collection[int] = ()) -> CPState:
    """A state whose columns sum to 1, but for those of `fixed` modes; sums go into the weights."""
    weights, factors = state.weights, []
    for mode, factor in enumerate(state.factors):
        if mode in fixed:
            factors.append(factor)
            continue
        sums = factor.sum(axis=0, dtype=np.float64)
        factors.append((factor / np.where(sums > 0, sums, 1.0)).astype(factor.dtype))
        weights = weights * sums
    return replace(state, weights=weights, factors=factors)


# -- the loss ---


def check_counts(values: NDArray[Any]) -> None:
    """Refuse values below 0 (InputError)."""
    lowest = values.min(initial=0)
    if lowest < 0:
        raise InputError(
            f"loss='poisson' is of counts, and {lowest:g} is below 0: give values of 0 or above, "
            "or loss='squared'"
        )


def sums_of_counts(values: NDArray[Any]) -> NDArray[np.float64]:
    """Σ x and Σ x log x of the nonzeros."""
    check_counts(values)
    numbers = values.astype(np.float64)
    return np.array([numbers.sum(), xlogy(numbers, numbers).sum()])


Sums = Sequence[float] | NDArray[np.float64]  # Σ x and Σ x log x of a tensor; Σ x̂ and Σ x log x̂


def check_sums(of_tensor: Sums, n_cells: float) -> None:
    """Refuse a tensor, by its Σ x and Σ x log x, whose sums overflow, or that counts nothing."""
    if not np.isfinite(of_tensor).all():
        raise InputError(
            "the values are too large: the sum of x log x overflows. Divide the tensor by its "
            "largest value."
        )
    if not of_tensor[0]:  # all factors would come to 0
        _refuse_alike()


def check_differences(of_tensor: Sums, n_cells: float) -> None:
    """Refuse one of which nothing can be explained (InputError)."""
    check_sums(of_tensor, n_cells)
    if not _null_deviance(of_tensor, n_cells):
        _refuse_alike()


def _refuse_alike() -> NoReturn:
    raise InputError(
        "all cells have the same value, or all that are known: loss='poisson' measures what is "
        "explained beyond it, and nothing is"
    )


def explained_deviance(of_model: Sums, of_tensor: Sums, n_cells: float) -> float:
    """1 − D(X, X̂) / D(X, mean of X), over so many cells; NaN where all cells are alike."""
    total, logarithms = of_tensor
    fitted, fitted_logarithms = of_model
    deviance = logarithms - fitted_logarithms - (total - fitted)
    null = _null_deviance(of_tensor, n_cells)
    return float(1.0 - deviance / null) if null else float("nan")


def _null_deviance(of_tensor: Sums, n_cells: float) -> float:
    """Half of the deviance of the mean of all cells; 0 where that is rounding alone."""
    total, logarithms = of_tensor
    null = float(logarithms - total * np.log(total / n_cells)) if total else 0.0
    return null if null > 1e-12 * total else 0.0


def count_losses(values: NDArray[Any], fitted: NDArray[np.float64]) -> NDArray[np.float64]:
    """x̂ − x log x̂ of each entry, less its least, so half of its deviance; never infinite."""
    return fitted - values + xlogy(values, values) - xlogy(values, np.maximum(fitted, _LEAST))


# -- steps on one rank ---


def own_sums(tensor: RankTensor) -> NDArray[np.float64]:
    """Σ x and Σ x log x of a rank's nonzeros."""
    return sums_of_counts(tensor.layout.values)


def own_ratios(
    tensor: RankTensor[TensorLayout],
    weights: NDArray[np.float64],
    *rows: NDArray[Any],
    mode: int,
    unknown: bool,
) -> NDArray[Any]:
    """Φ of the rank's rows along a mode from its own nonzeros, shape (rows on the rank, R).

    Where absent entries are `unknown` Σ z_n beside it, shape (rows on the rank, 2 R).
    """
    return ratios_of(tensor.layout, mode, rows, weights, unknown)


def ratios_of(
    layout: TensorLayout,
    mode: int,
    factors: Sequence[NDArray[Any]],
    weights: NDArray[np.float64],
    unknown: bool,
) -> NDArray[Any]:
    """What `own_ratios` gives."""
    ratios = layout.ratios(mode, factors, weights)
    return np.hstack((ratios, layout.products_of_ones(mode, factors))) if unknown else ratios


def multiply_owned(
    rows: NDArray[Any],
    ratios: NDArray[Any],
    weights: NDArray[np.float64],
    tensor: RankTensor,
    *,
    mode: int,
    extent: int,
    unknown: bool,
    over_all_cells: Sequence[float],
) -> NDArray[Any]:
    """Multiply the owned rows of a factor of so many rows by λ and Φ / Σ z_n, in place."""
    own = slice(0, tensor.n_owned[mode])
    mean = weights.sum() / extent
    rows[own] = multiplied(rows[own] * weights, ratios[own], mean, unknown, over_all_cells)
    return rows


def multiplied(
    rows: NDArray[np.float64],
    ratios: NDArray[Any],
    mean: float,
    unknown: bool,
    over_all_cells: Sequence[float] | NDArray[np.float64],
) -> NDArray[np.float64]:
    """Rows ∗ Φ / Σ z_n.

    Parameters
    ----------
    rows : float64 ndarray of shape (n, R)
    ratios : ndarray of shape (n, R), or (n, 2 R) where absent entries are unknown
        Of `ratios_of`.
    mean : float
        That of the sums of all rows of the factor.
    unknown : bool
    over_all_cells : sequence of R float
        Σ z_n where absent entries are 0.
    """
    mean /= rows.shape[1]
    if unknown:
        ratios, sums = np.hsplit(ratios, 2)
    else:
        sums = np.asarray(over_all_cells, ratios.dtype)
    # a component that none of these cells has tells nothing of its rows: they are 0
    ratios = np.divide(ratios, sums, out=np.zeros_like(ratios), where=sums > 0)
    dead = (rows <= _DEAD * mean) & (ratios > 1)
    return np.where(dead, _AGAIN * mean, rows * ratios)


def owned_sums(rows: NDArray[Any], tensor: RankTensor, *, mode: int) -> NDArray[np.float64]:
    """Column sums over the rank's owned rows, shape (R,)."""
    return rows[: tensor.n_owned[mode]].sum(axis=0, dtype=np.float64)


def counts_of(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """λ, the column sums; shape (R,)."""
    return sums


def own_likelihood(
    tensor: RankTensor[TensorLayout],
    weights: NDArray[np.float64],
    *rows: NDArray[Any],
    unknown: bool,
) -> NDArray[np.float64]:
    """Σ x log x̂ over the rank's nonzeros, shape (1,); where `unknown` Σ x̂ before it, too."""
    sums = tensor.layout.likelihood(rows, weights)
    return sums if unknown else sums[1:]


def sums_of_model(
    weights: NDArray[np.float64],
    logarithms: NDArray[np.float64],
    *,
    over_all_cells: Sequence[float],
) -> NDArray[np.float64]:
    """Σ x̂ over all cells, and Σ x log x̂."""
    return np.array([(weights * over_all_cells).sum(), logarithms[0]])


def times_column_sums(
    weights: NDArray[np.float64], factors: Sequence[NDArray[Any]]
) -> NDArray[np.float64]:
    """Weights times the column sums of some factors, shape (R,)."""
    for factor in factors:
        weights = weights * factor.sum(axis=0, dtype=np.float64)
    return weights


# -- a fitted model in use ---


def sum_of_cells(state: CPState, rows: Sequence[NDArray[Any]]) -> float:
    """Σ x̂ over all cells of some rows of each factor."""
    chosen = [factor[own] for factor, own in zip(state.factors, rows, strict=True)]
    return float(times_column_sums(state.weights, chosen).sum())


def deviance_score(
    values: NDArray[Any], fitted: NDArray[np.float64], total: float, n_cells: float
) -> float:
    """The share of the deviance of a tensor that a decomposition explains.

    Parameters
    ----------
    values, fitted : ndarray of shape (nnz,)
        The stored entries, and the values of the decomposition there.
    total, n_cells : float
        Σ x̂ over the cells that are known, and how many they are.
    """
    of_tensor = sums_of_counts(values)
    check_differences(of_tensor, n_cells)
    logarithms = xlogy(values, np.maximum(fitted, _LEAST)).sum()
    return explained_deviance([total, logarithms], of_tensor, n_cells)


def new_count_rows(
    layout: TensorLayout, factors: Sequence[NDArray[np.float64]], mode: int, unknown: bool
) -> NDArray[np.float64]:
    """Rows of new slices along a mode, with the weights in them, all other factors fixed.

    Each row is a convex problem of its own. Updates end where none changes a row by more than a
    ten-millionth of its sum, after 500 at the latest.

    Parameters
    ----------
    layout : TensorLayout
        Of the new slices.
    factors : sequence of float64 ndarray of shape (I_m, R)
        Of all modes; that of `mode` says by its length how many slices are new.
    mode : int
    unknown : bool
        Whether absent entries are, and not 0.
    """
    check_counts(layout.values)
    given, rows = list(factors), np.ones_like(factors[mode])
    ones = np.ones(rows.shape[1])
    others = [factor for m, factor in enumerate(factors) if m != mode]
    over_all_cells = times_column_sums(ones, others)
    for _ in range(_MOST_STEPS):
        given[mode] = rows
        ratios = ratios_of(layout, mode, given, ones, unknown)
        mean = rows.sum() / max(len(rows), 1)
        rows = multiplied(rows, ratios, mean, unknown, over_all_cells)
        change = np.abs(rows - given[mode]).sum(axis=1)
        if not (change > _ENOUGH * rows.sum(axis=1)).any():
            break
    return rows
