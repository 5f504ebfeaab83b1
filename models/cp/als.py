"""CP-ALS on ranks: the two algorithms of Abubaker et al., for any number of modes.

    Algorithm 1, point to point               Algorithm 2, embedded
    for each mode m                           for each mode m
        Â ← MTTKRP of the own nonzeros            Â ← MTTKRP of the own nonzeros
        reduce    shared rows ─► owners           reduce of shared rows ┐ one
        A ← Â (∗ Grams of other modes)⁻¹          Gram of mode m−1      ┘ allreduce
        expand    owners ─► shared rows,          A ← Â (∗ Grams of other modes)⁻¹
        meanwhile allreduce λ                     expand of shared rows ┐ one
        A ← A / λ, nonlocal rows too              λ of A                ┘ allreduce
        allreduce AᵀA of owned rows               A ← A / λ, nonlocal rows too

Rows are expanded before they are normalised, so that the expand need not wait for λ. In Algorithm 2
a Gram is not needed before the next mode is solved, so it travels with the reduce of that mode. The
Gram of the last mode travels with the first reduce of the *next* iteration: a software pipeline. So
every sparse message finds an allreduce to ride in, and a rank handles 2·M·log2 K messages an
iteration, however sparse the tensor is.

A mode whose factor is fixed is passed over: no MTTKRP, no message; its Gram is added up once. It
keeps its values, and λ is the scale of the others, whose columns have length 1.

The fit needs no MTTKRP of its own. With M̃ the MTTKRP of the last mode, U its solution before it is
normalised and V the product of the other Grams, ⟨X, X̂⟩ = Σ M̃∗U and ‖X̂‖² = Σ (U V)∗U: sums over
owned rows, which travel with λ.

Source: Abubaker, Karsavuran, Aykanat, "Scalable Unsupervised ML: Latency Hiding in Distributed
Sparse Tensor Decomposition", Algorithms 1 and 2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart.collectives import (
    Communicator,
    PerRank,
    PreparedPlan,
    expand_allreduce,
    hypercube_allreduce,
    pack_rows,
    place_rows,
    reduce,
    reduce_allreduce,
)

from .layout.layout import TensorLayout
from .ranks import RankTensor
from .state import CPState
from .steps import column_products, gram_of, normalise_columns, solve_rows

INNER, SQUARED = -2, -1  # where the sums of a mode hold ⟨X, X̂⟩ and ‖X̂‖², behind the R norms²


def norms_of(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """λ, the norms of the columns; shape (R,). What overflowed becomes NaN, and stays NaN."""
    norms = np.sqrt(sums[:-2])
    return np.where(np.isfinite(norms), norms, np.nan)


@dataclass(frozen=True)
class Update:
    """How the rows of a factor follow from their equations, mode by mode.

    Attributes
    ----------
    nonnegative : tuple of bool, one a mode
        Keep every entry at 0 or above. Empty: of no mode.
    ridge : tuple of float, one a mode
        Added to the diagonal of each system. Empty: 0 for all.
    """

    nonnegative: tuple[bool, ...] = ()
    ridge: tuple[float, ...] = ()

    def of(self, mode: int) -> tuple[bool, float]:
        """Both, of one mode."""
        return (
            bool(self.nonnegative) and self.nonnegative[mode],
            self.ridge[mode] if self.ridge else 0.0,
        )


@dataclass
class Factors:
    """The factors of all modes on the ranks, and their Grams: what an iteration changes.

    Attributes
    ----------
    rows : list of per-rank ndarray of shape (rows on the rank, R), one a mode
        Owned rows, then nonlocal ones; normalised.
    grams : list of per-rank float64 ndarray of shape (R, R), one a mode
        Equal on all ranks. Under Algorithm 2 that of the last mode is one iteration old.
    weights : per-rank float64 ndarray of shape (R,)
        λ, equal on all ranks.
    """

    rows: list[PerRank]
    grams: list[PerRank]
    weights: PerRank

    def copy(self) -> Factors:
        """Lists of its own, over the same values."""
        return Factors(list(self.rows), list(self.grams), self.weights)

    def handles(self) -> list[PerRank]:
        """All values."""
        return [*self.rows, *self.grams, self.weights]


class Iteration(ABC):
    """One iteration over all modes under some loss, ready to run.

    Attributes
    ----------
    intercept : float
        What the decomposition adds to.
    """

    intercept: float = 0.0

    @abstractmethod
    def iterate(
        self, comm: Communicator, tensors: PerRank, factors: Factors, update: Update
    ) -> tuple[Factors, PerRank]:
        """One iteration.

        Returns
        -------
        factors : Factors
            The rows of those that were given are spent.
        sums : per-rank float64 ndarray
            What `fit` is made of, equal on all ranks. Of least squares of shape (R + 2,): squared
            column norms of the last mode, ⟨X, X̂⟩ and ‖X̂‖².
        """

    def at(self, state: CPState, of_tensor: Sequence[float]) -> Iteration:
        """The same for a fit that begins at a state; `of_tensor` are the sums of its loss."""
        return self

    def first_grams(self, comm: Communicator, tensors: PerRank, factors: Factors) -> Factors:
        """With the Grams of given factors, where an iteration has any."""
        return factors

    def fit(self, sums: NDArray[np.float64], of_tensor: Sequence[float]) -> float:
        """1 − ‖X − X̂‖/‖X‖ or what stands for it, from what `iterate` gives, and ‖X‖²."""
        return fit_of(sums, of_tensor[0])


@dataclass(frozen=True)
class _Messages(Iteration):
    """The reduce and the expand of each mode, ready to run; and what makes λ of sums.

    `updated` are the modes that are not fixed, in their order.
    """

    reduces: Sequence[PreparedPlan]
    expands: Sequence[PreparedPlan]
    updated: Sequence[int]
    weights_of: Callable[[NDArray[np.float64]], NDArray[np.float64]] = norms_of

    def reduce_rows(self, comm: Communicator, rows: PerRank, mode: int) -> PerRank:
        """Rows that were computed everywhere, added up at their owners.

        Under Algorithm 2 by a reduce without room for a Gram, and on the way to them too.
        """
        return reduce(comm, self.reduces[mode], rows)


class PointToPointModes(_Messages):
    """Algorithm 1."""

    def iterate(
        self, comm: Communicator, tensors: PerRank, factors: Factors, update: Update
    ) -> tuple[Factors, PerRank]:
        """One iteration of Algorithm 1 over all modes that are updated."""
        factors = factors.copy()
        for mode in self.updated:
            products = comm.map(partial_products, tensors, *factors.rows, mode=mode)
            products = self.reduce_rows(comm, products, mode)
            last = mode == self.updated[-1]
            sums = _solve(comm, tensors, factors, products, mode, update, last)
            sums = self.normalise_and_expand(comm, factors, sums, mode)
            factors.grams[mode] = _added_gram(comm, tensors, factors, mode)
        return factors, sums

    def normalise_and_expand(
        self, comm: Communicator, factors: Factors, sums: PerRank, mode: int
    ) -> PerRank:
        """λ of a mode that was solved, its rows at all who share them, and normalised; the sums."""
        (messages,) = self.expands[mode].rounds
        sent = comm.post(messages, factors.rows[mode], pack_rows)
        sums = hypercube_allreduce(comm, sums, label="allreduce")  # while rows are on their way
        factors.weights = comm.map(self.weights_of, sums)
        rows = comm.collect(sent, factors.rows[mode], place_rows)
        factors.rows[mode] = comm.update(normalise, rows, factors.weights)
        return sums

    def first_grams(self, comm: Communicator, tensors: PerRank, factors: Factors) -> Factors:
        """With all Grams, added up as an iteration does."""
        factors = factors.copy()
        for mode in range(len(factors.rows)):
            factors.grams[mode] = _added_gram(comm, tensors, factors, mode)
        return factors


class EmbeddedModes(_Messages):
    """Algorithm 2: reduces with room for a Gram, expands with room for λ."""

    def iterate(
        self, comm: Communicator, tensors: PerRank, factors: Factors, update: Update
    ) -> tuple[Factors, PerRank]:
        """One iteration of Algorithm 2."""
        factors = factors.copy()
        for mode in self.updated:
            products = comm.map(partial_products, tensors, *factors.rows, mode=mode)
            products = self._reduce_with_gram(comm, tensors, factors, products, mode)
            last = mode == self.updated[-1]
            sums = _solve(comm, tensors, factors, products, mode, update, last)
            sums = self.normalise_and_expand(comm, factors, sums, mode)
        return factors, sums

    def normalise_and_expand(
        self, comm: Communicator, factors: Factors, sums: PerRank, mode: int
    ) -> PerRank:
        """As of Algorithm 1."""
        rows, sums = expand_allreduce(comm, self.expands[mode], factors.rows[mode], sums)
        factors.weights = comm.map(self.weights_of, sums)
        factors.rows[mode] = comm.update(normalise, rows, factors.weights)
        return sums

    def first_grams(self, comm: Communicator, tensors: PerRank, factors: Factors) -> Factors:
        """With the Grams added up by reduces of empty rows.

        That of the last mode that is updated is left to the first iteration; those of fixed modes,
        which have no reduce, take an allreduce each.
        """
        factors = factors.copy()
        for mode in range(len(factors.rows)):
            if mode not in self.updated:
                factors.grams[mode] = _added_gram(comm, tensors, factors, mode)
        for mode in self.updated[1:]:
            nothing = comm.map(np.zeros_like, factors.rows[mode])
            self._reduce_with_gram(comm, tensors, factors, nothing, mode)
        return factors

    def _reduce_with_gram(
        self, comm: Communicator, tensors: PerRank, factors: Factors, products: PerRank, mode: int
    ) -> PerRank:
        """Reduce the products of a mode to their owners, and the Gram of the one updated before."""
        before = self.updated[self.updated.index(mode) - 1]
        gram = comm.map(owned_gram, factors.rows[before], tensors, mode=before)
        products, factors.grams[before] = reduce_allreduce(comm, self.reduces[mode], products, gram)
        return products


Modes = PointToPointModes | EmbeddedModes


def _solve(
    comm: Communicator,
    tensors: PerRank,
    factors: Factors,
    products: PerRank,
    mode: int,
    update: Update,
    last: bool,
) -> PerRank:
    """Solve the owned rows of a mode; gives each rank's sums over them."""
    others = [gram for place, gram in enumerate(factors.grams) if place != mode]
    factors.rows[mode] = comm.update(
        solve_owned,
        factors.rows[mode],
        products,
        factors.weights,
        tensors,
        *others,
        mode=mode,
        update=update,
    )
    return comm.map(
        column_sums, factors.rows[mode], products, tensors, *others, mode=mode, last=last
    )


def _added_gram(comm: Communicator, tensors: PerRank, factors: Factors, mode: int) -> PerRank:
    """AᵀA of a mode, by an allreduce of its own."""
    gram = comm.map(owned_gram, factors.rows[mode], tensors, mode=mode)
    return hypercube_allreduce(comm, gram, label="allreduce")


def fit_of(sums: NDArray[np.float64], squared_norm: float) -> float:
    """1 − ‖X − X̂‖/‖X‖, from ⟨X, X̂⟩ and ‖X̂‖²."""
    residual = squared_norm - 2 * sums[INNER] + sums[SQUARED]
    return 1.0 - float(np.sqrt(max(residual, 0.0) / squared_norm))


# -- steps on one rank ---


def partial_products(
    tensor: RankTensor[TensorLayout], *rows: NDArray[Any], mode: int
) -> NDArray[Any]:
    """MTTKRP of the rank's own nonzeros along a mode, shape (rows on the rank, R)."""
    return tensor.layout.mttkrp(mode, rows)


def product_of_grams(*grams: NDArray[np.float64]) -> NDArray[np.float64]:
    """Elementwise product of the Grams of all other modes, in order of the modes."""
    product = grams[0].copy()
    for gram in grams[1:]:
        product *= gram
    return product


def solve_owned(
    rows: NDArray[Any],
    products: NDArray[Any],
    weights: NDArray[np.float64],
    tensor: RankTensor,
    *others: NDArray[np.float64],
    mode: int,
    update: Update,
) -> NDArray[Any]:
    """Put the solution over the owned rows of a factor, in place; `others` are the other Grams."""
    owned, system = slice(0, tensor.n_owned[mode]), product_of_grams(*others)
    nonnegative, ridge = update.of(mode)
    solve_rows(products[owned], system, rows[owned], weights, nonnegative=nonnegative, ridge=ridge)
    return rows


def column_sums(
    rows: NDArray[Any],
    products: NDArray[Any],
    tensor: RankTensor,
    *others: NDArray[np.float64],
    mode: int,
    last: bool,
) -> NDArray[np.float64]:
    """Over owned rows: squared norm of each column, then ⟨X, X̂⟩ and ‖X̂‖²; shape (R + 2,).

    The last two only in the last mode; 0 elsewhere.
    """
    n_owned = tensor.n_owned[mode]
    own = rows[:n_owned]
    sums = np.zeros(rows.shape[1] + 2)
    if not last:
        sums[:-2] = column_products(own, own)
        return sums
    gram = gram_of(own)
    sums[:-2] = gram.diagonal()
    sums[INNER] = column_products(products[:n_owned], own).sum()
    sums[SQUARED] = np.sum(gram * product_of_grams(*others))
    return sums


def owned_gram(rows: NDArray[Any], tensor: RankTensor, *, mode: int) -> NDArray[np.float64]:
    """AᵀA over the rank's owned rows, float64 of shape (R, R)."""
    return gram_of(rows[: tensor.n_owned[mode]])


def normalise(rows: NDArray[Any], weights: NDArray[np.float64]) -> NDArray[Any]:
    """Divide every row, nonlocal ones too, by the norms of the columns, in place."""
    normalise_columns(rows, weights)
    return rows
