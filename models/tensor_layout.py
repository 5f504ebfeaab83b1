"""One rank's nonzeros of a sparse tensor, laid out for MTTKRP.

    coordinates, values  ──build──►  TensorLayout  ──mttkrp(mode, factors)──►  [n_mode, R]

A layout is made once and used in every iteration: each mode's MTTKRP reads it front to back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from daskpart.errors import InputError

from .kernels.mttkrp import add_nonzeros

MEMORY = ("fast", "small")


@dataclass(frozen=True, eq=False)
class TensorLayout:
    """The nonzeros of one rank, ready for MTTKRP along every mode; make it with `build`.

    Attributes
    ----------
    shape : tuple of int
        Indices of each mode on this rank.
    coordinates : ndarray of shape (n_modes, nnz)
        Local indices.
    values : ndarray of shape (nnz,), float32 or float64
        The nonzeros.
    """

    shape: tuple[int, ...]
    coordinates: NDArray
    values: NDArray

    @classmethod
    def build(
        cls,
        coordinates: NDArray[np.int32],
        values: NDArray,
        shape: Sequence[int],
        *,
        memory: str = "fast",
        rank: int | None = None,
    ) -> TensorLayout:
        """Lay out nonzeros.

        Parameters
        ----------
        coordinates : ndarray of int32 of shape (n_modes, nnz)
            Local indices, from 0, each nonzero once.
        values : ndarray of float32 or float64 of shape (nnz,)
            The nonzeros; their type is the type of the factors.
        shape : sequence of int
            Indices of each mode, at least two modes.
        memory : {"fast", "small"}
            Room for speed, or one structure for all modes.
        rank : int, optional
            Components that the factors will have, where known: a hint.

        Raises
        ------
        InputError
            An unknown `memory`, or arrays that do not fit together.
        """
        if memory not in MEMORY:
            raise InputError(f"memory is {memory!r}: give one of {', '.join(MEMORY)}")
        if len(shape) < 2 or coordinates.shape != (len(shape), values.size):
            raise InputError(
                f"coordinates of shape {coordinates.shape}, {values.size} values and {len(shape)} "
                "modes: give coordinates of shape (modes, values), and at least two modes"
            )
        if values.dtype not in (np.float32, np.float64):
            raise InputError(f"values are of type {values.dtype}: give float32 or float64")
        return cls(tuple(int(n) for n in shape), coordinates.copy(), values.copy())

    @property
    def n_modes(self) -> int:
        """Modes of the tensor."""
        return len(self.shape)

    @property
    def nnz(self) -> int:
        """Nonzeros on this rank."""
        return self.values.size

    @property
    def dtype(self) -> np.dtype:
        """Type of values, factors and results."""
        return self.values.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays of the layout."""
        return self.coordinates.nbytes + self.values.nbytes

    def mttkrp(self, mode: int, factors: Sequence[NDArray], out: NDArray | None = None) -> NDArray:
        """MTTKRP along `mode`: the same bits every time.

        Parameters
        ----------
        mode : int
            From 0 to n_modes - 1.
        factors : sequence of ndarray of shape (shape[m], R)
            C-contiguous, of the layout's type; the one of `mode` itself is not read.
        out : ndarray of shape (shape[mode], R), optional
            Overwritten and returned.

        Returns
        -------
        ndarray of shape (shape[mode], R)
        """
        n_components = factors[mode - 1].shape[1]
        if out is None:
            out = np.empty((self.shape[mode], n_components), self.dtype)
        out[:] = 0
        row = np.empty(n_components, self.dtype)
        add_nonzeros(self.coordinates, self.values, mode, tuple(factors), row, out)
        return out
