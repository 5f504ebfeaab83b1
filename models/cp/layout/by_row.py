"""One rank's stored entries, each mode's rows one after the other: for what looks at rows alone.

    coordinates, values   in row-major order
    mode 0   order    0 1 2 3 4 5       pointer  0 2 3 6      row i: order[pointer[i]:pointer[i+1]]
    mode 1   order    2 0 4 1 3 5       pointer  0 1 3 6

Where absent entries are unknown, each factor row has normal equations of its own, so its entries
are taken together. Their positions in the order of each mode take as much room as the coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from daskpart.models.cp.kernels.normal_equations import add_equations

from .sorting import Nonzeros, sorted_positions
from .structures import SortedNonzeros


def bytes_by_row(n_modes: int, itemsize: int) -> int:
    """Bytes of an entry: coordinates, value, its place in the order of each mode."""
    return 8 * n_modes + itemsize


@dataclass(frozen=True, eq=False)
class EntriesByRow:
    """The stored entries of one rank, ready for the normal equations of each mode's rows.

    Attributes
    ----------
    coordinates : ndarray of int32 of shape (n_modes, nnz)
        Local indices.
    values : ndarray of float32 or float64 of shape (nnz,)
    orders : tuple of ndarray of uint32 of shape (nnz,), one a mode
    pointers : tuple of int64 ndarray of shape (rows + 1,), one a mode
    """

    coordinates: NDArray[np.int32]
    values: NDArray
    orders: tuple[NDArray, ...]
    pointers: tuple[NDArray[np.int64], ...]

    @classmethod
    def of(cls, nonzeros: Nonzeros, shape: Sequence[int]) -> EntriesByRow:
        """Lay out entries; those that are given away are put in order in place."""
        n_modes = len(shape)
        taken = nonzeros.take()
        coordinates, values = taken.coordinates, taken.values
        first = sorted_positions(taken, shape, range(n_modes))
        if not taken.given_away:
            coordinates = np.empty_like(coordinates)
        for mode in range(n_modes):  # the same bits however the entries came
            coordinates[mode] = taken.coordinates[mode][first]
        values = values[first]
        del first
        ordered = Nonzeros(coordinates, values)
        orders = tuple(sorted_positions(ordered, shape, [mode]) for mode in range(n_modes))
        pointers = tuple(
            np.concatenate(([0], np.cumsum(np.bincount(index, minlength=extent))))
            for index, extent in zip(coordinates, shape, strict=True)
        )
        return cls(coordinates, values, orders, pointers)

    @property
    def dtype(self) -> np.dtype:
        """Type of values and factors."""
        return self.values.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self.coordinates, self.values, *self.orders, *self.pointers)
        return sum(array.nbytes for array in arrays)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes

    def normal_equations(
        self,
        mode: int,
        factors: Sequence[NDArray],
        values: NDArray | None = None,
        roots: NDArray | None = None,
    ) -> NDArray[np.float64]:
        """Of all rows of a mode, shape (rows, R(R + 3)/2); see `kernels.normal_equations`.

        Of the own values, or of others with the roots of their weights.
        """
        values = self.values if values is None else values
        roots = np.empty(0, values.dtype) if roots is None else roots
        return add_equations(
            self.coordinates, values, self.orders[mode], self.pointers[mode], mode,
            tuple(factors), roots,
        )  # fmt: skip

    def reconstruct(self, factors: Sequence[NDArray], weights: NDArray[np.float64]) -> NDArray:
        """Values of a decomposition at the entries, of the type of the factors."""
        listed = SortedNonzeros((), self.coordinates.view(np.uint32), self.values)
        return listed.reconstruct(factors, weights.astype(factors[0].dtype))
