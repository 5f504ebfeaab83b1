"""CP-ALS on one rank, as plain text: the twin that the distributed algorithms are held against.

    for each iteration, for each mode m:
        products = MTTKRP(m)          solved rows U = products · V⁻¹,  V = ∗_{k ≠ m} G_k
        λ = column norms of U         U ← U / λ                        G_m = UᵀU
    fit from the last products: ⟨X, X̂⟩ = Σ products ∗ U, ‖X̂‖² = Σ V ∗ UᵀU, no further MTTKRP

The 2-norm is used in every iteration and mode, as in Alg. 1 of Abubaker et al. and in tensorly;
pyttb takes the largest entry instead from the second iteration on. The scale of a column moves
between λ and the factors, the fit does not depend on it.

Source: Kolda and Bader, "Tensor decompositions and applications", SIAM Review 51 (2009), §3.4,
fig. 3.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.lanes import aligned_rows
from daskpart.models.cp.layout.layout import TensorLayout
from daskpart.models.cp.steps import column_products, gram_of, solve_rows


@dataclass
class SerialCP:
    """A CP decomposition on one rank, between two iterations.

    Parameters
    ----------
    layout : TensorLayout
        All nonzeros.
    start : sequence of ndarray of shape (shape[m], R)
        First factors; copied.
    nonnegative : bool
        Keep every entry at 0 or above.
    ridge : float
        Added to the diagonal of each V.

    Attributes
    ----------
    factors : list of ndarray of shape (shape[m], R)
        In the layout's type; columns of length 1 once updated.
    weights : float64 ndarray of shape (R,)
        λ.
    fits : list of float
        1 − ‖X − X̂‖ / ‖X‖ after each iteration.

    Examples
    --------
    >>> model = SerialCP(layout, start)  # doctest: +SKIP
    >>> model.iterate(20).fits[-1]  # doctest: +SKIP
    0.6467
    """

    layout: TensorLayout
    start: Sequence[NDArray[Any]]
    nonnegative: bool = False
    ridge: float = 0.0
    factors: list[NDArray[Any]] = field(init=False)
    weights: NDArray[np.float64] = field(init=False)
    fits: list[float] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.factors = [_aligned_copy(factor, self.layout.dtype) for factor in self.start]
        self.weights = np.ones(self.factors[0].shape[1])
        self._products = [_aligned_copy(factor, self.layout.dtype) for factor in self.start]
        self._grams = [gram_of(factor) for factor in self.factors]
        values = self.layout.values
        self._squared_norm = float(np.sum(np.square(values, dtype=np.float64)))

    def iterate(self, n_iterations: int = 1) -> SerialCP:
        """Update every factor, mode after mode, `n_iterations` times."""
        last = self.layout.n_modes - 1
        for _ in range(n_iterations):
            for mode in range(last + 1):
                system = self._system_of(mode)
                self._update(mode, system)
            self.fits.append(self._fit(last, system))
        return self

    def _system_of(self, mode: int) -> NDArray[np.float64]:
        others = [gram for k, gram in enumerate(self._grams) if k != mode]
        return np.prod(others, axis=0)

    def _update(self, mode: int, system: NDArray[np.float64]) -> None:
        rows, products = self.factors[mode], self._products[mode]
        self.layout.mttkrp(mode, self.factors, products)
        solve_rows(
            products, system, rows, self.weights, nonnegative=self.nonnegative, ridge=self.ridge
        )
        gram = gram_of(rows)  # its diagonal holds the squared norms, and it scales with them
        self.weights = np.sqrt(gram.diagonal())
        scale = 1 / np.where(self.weights > 0, self.weights, 1.0)
        rows *= scale.astype(rows.dtype)
        self._grams[mode] = gram * np.outer(scale, scale)

    def _fit(self, last: int, system: NDArray[np.float64]) -> float:
        """From the products of the last mode: they belong to the factors as they are."""
        inner = float(column_products(self._products[last], self.factors[last]) @ self.weights)
        model = float(self.weights @ (system * self._grams[last]) @ self.weights)
        residual = max(0.0, self._squared_norm - 2 * inner + model)
        return 1 - float(np.sqrt(residual / self._squared_norm))


def _aligned_copy(factor: NDArray[Any], dtype: np.dtype) -> NDArray[Any]:
    rows = aligned_rows(len(factor), factor.shape[1], dtype)
    rows[:] = factor
    return rows
