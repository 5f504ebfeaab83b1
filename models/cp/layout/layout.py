"""One rank's nonzeros of a sparse tensor, laid out for MTTKRP.

    coordinates, values ──build──► TensorLayout ──mttkrp(mode, factors)──► [n_mode, R]

    fibres along mode a, the longest    ─► serves all modes but a; their sums over fibres are kept
    fibres along b, or sorted nonzeros  ─► serves mode a          ("small": mode a scatters instead)

    long fibres are cut so that rows of factors come from caches (`blocks`)

    no mode has long fibres:
    nonzeros sorted by the longest mode first      ─► serves all modes

A layout is made once and used in every iteration. Two structures serve any number of modes: along
one and the same fibre the sums are the same whichever other mode is asked for, so that in an ALS
iteration (mode after mode) only two passes over the nonzeros remain.
Sorted nonzeros need no second copy: read with the longest factor in order, they were as fast for
the other modes as a copy in the order of each. A matrix (two modes) has one for rows and one for
columns, as fibres there are the rows themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from daskpart._floor.lanes import aligned_rows
from daskpart.errors import InputError

from .blocks import popularity_pays
from .sorting import Nonzeros, fibre_length
from .structures import FibreProducts, Fibres, SortedNonzeros

MEMORY = {"fast": 2, "small": 1}  # most bytes, sums included, over those of the nonzeros
# mean nonzeros of a fibre from which gathering them pays (docs/benchmarks/cp_kernel.md)
LONG_FIBRE = 4.0
_INDEX_BYTES = 4


@dataclass(frozen=True, eq=False)
class TensorLayout:
    """The nonzeros of one rank, ready for MTTKRP along every mode; make it with `build`.

    Attributes
    ----------
    shape : tuple of int
        Indices of each mode on this rank.
    structures : tuple of Fibres or SortedNonzeros
        One or two.
    serving : tuple of int
        For each mode, which of the structures its MTTKRP reads.
    products : FibreProducts
        Sums over the first structure's fibres, kept from one mode's MTTKRP to the next where they
        fit.
    most : int
        Layout and sums together never take more than so many times the bytes of the nonzeros.
    """

    shape: tuple[int, ...]
    structures: tuple[Fibres | SortedNonzeros, ...]
    serving: tuple[int, ...]
    products: FibreProducts = field(default_factory=FibreProducts)
    most: int = MEMORY["fast"]

    @classmethod
    def build(
        cls,
        coordinates: NDArray[np.int32],
        values: NDArray,
        shape: Sequence[int],
        *,
        memory: str = "fast",
    ) -> TensorLayout:
        """Lay out nonzeros; all arrays of the layout stay below twice the bytes given.

        Parameters
        ----------
        coordinates : ndarray of int32 of shape (n_modes, nnz)
            Local indices, from 0 and below `shape`, each nonzero once; left as they are.
        values : ndarray of float32 or float64 of shape (nnz,)
            The nonzeros; their type is the type of the factors.
        shape : sequence of int
            Indices of each mode, at least two modes.
        memory : {"fast", "small"}
            Room for a second structure where it pays, at most twice the bytes of the nonzeros; or
            one for all modes, at most these bytes. Sums that are kept count.

        Raises
        ------
        InputError
            An unknown `memory`, arrays that do not fit together, or an index beyond the shape.
        """
        return cls.of(Nonzeros(coordinates, values), shape, memory=memory)

    @classmethod
    def of(cls, nonzeros: Nonzeros, shape: Sequence[int], *, memory: str = "fast") -> TensorLayout:
        """Like `build`; nonzeros that are given away become the layout.

        Then everything held on the way, they themselves included, stays below twice their bytes,
        but for what has a size of a mode or of a chunk (`sorting` has the sums).

        Parameters
        ----------
        nonzeros : Nonzeros
            Left empty where they are given away.
        shape, memory
            As for `build`.
        """
        shape = tuple(int(extent) for extent in shape)
        _check(nonzeros.coordinates, nonzeros.values, shape, memory)
        n_modes = len(shape)
        lengths = [fibre_length(nonzeros.coordinates, leaf) for leaf in range(n_modes)]
        structures: tuple[Fibres | SortedNonzeros, ...]
        if n_modes == 2 or max(lengths) < LONG_FIBRE:
            structures, alone = _sorted_structures(nonzeros, shape, memory)
        else:
            structures, alone = _fibre_structures(nonzeros, shape, memory, lengths)
        last = len(structures) - 1
        serving = tuple(last if mode == alone else 0 for mode in range(n_modes))
        return cls(shape, structures, serving, most=MEMORY[memory])

    @property
    def n_modes(self) -> int:
        """Modes of the tensor."""
        return len(self.shape)

    @property
    def values(self) -> NDArray:
        """The nonzeros, in the order of the first structure."""
        return self.structures[0].values

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
        """Bytes of all arrays of the layout, the sums that it keeps included."""
        return self._fixed_bytes + self.products.sums.nbytes

    @property
    def _fixed_bytes(self) -> int:
        return sum(structure.nbytes for structure in self.structures)

    @property
    def coordinate_bytes(self) -> int:
        """Bytes of the nonzeros as plain int32 coordinates and values."""
        return self.nnz * (_INDEX_BYTES * self.n_modes + self.dtype.itemsize)

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + self.nbytes

    def __repr__(self) -> str:
        kinds = [
            f"fibres along mode {structure.leaf} of mean length "
            f"{self.nnz / max(1, structure.n_fibres):.1f}"
            if isinstance(structure, Fibres)
            else f"nonzeros sorted by modes {', '.join(map(str, structure.order))}"
            for structure in self.structures
        ]
        shape = " × ".join(f"{extent:,}" for extent in self.shape)
        ratio = self.nbytes / max(1, self.coordinate_bytes)
        return (
            f"TensorLayout({shape}, {self.nnz:,} nonzeros, {self.dtype}: {'; '.join(kinds)}; "
            f"{self.nbytes / 1e6:.1f} MB, {ratio:.2f} × coordinates and values)"
        )

    def mttkrp(
        self,
        mode: int,
        factors: Sequence[NDArray],
        out: NDArray | None = None,
    ) -> NDArray:
        """MTTKRP along `mode`: the same bits every time, from kept sums too.

        Parameters
        ----------
        mode : int
            From 0 to n_modes - 1.
        factors : sequence of ndarray of shape (shape[m], R)
            C-contiguous, of the layout's type; the one of `mode` itself is not read.
        out : ndarray of shape (shape[mode], R), optional
            C-contiguous; overwritten and returned.

        Returns
        -------
        ndarray of shape (shape[mode], R)

        Raises
        ------
        InputError
            A factor of another type, shape or memory order.
        """
        n_components = factors[mode - 1].shape[1]
        if out is None:
            out = aligned_rows(self.shape[mode], n_components, self.dtype)
        self._check_factors(mode, factors, out, n_components)
        out[:] = 0
        structure = self.structures[self.serving[mode]]
        if self.nnz and isinstance(structure, Fibres):
            self._add_fibres(structure, mode, factors, out)
        elif self.nnz:
            structure.add(mode, factors, out)
        return out

    def ratios(
        self, mode: int, factors: Sequence[NDArray], weights: NDArray[np.float64]
    ) -> NDArray:
        """MTTKRP along `mode` of the nonzeros over their values in a decomposition, x/x̂.

        Parameters
        ----------
        mode, factors
            As of `mttkrp`; the factor of `mode` itself is read, too.
        weights : float64 ndarray of shape (R,)
            λ.

        Returns
        -------
        ndarray of shape (shape[mode], R)
        """
        structure = self.structures[self.serving[mode]]
        quotients = self._reconstructed(structure, factors, weights)
        np.divide(structure.values, quotients, out=quotients)
        return self._products_of(quotients, mode, factors)

    def products_of_ones(self, mode: int, factors: Sequence[NDArray]) -> NDArray:
        """MTTKRP along `mode` where every stored entry is 1; parameters as of `mttkrp`."""
        self._check_factors(mode, factors, factors[mode], factors[mode].shape[1])
        return self._products_of(np.ones_like(self.values), mode, factors)

    def _products_of(self, values: NDArray, mode: int, factors: Sequence[NDArray]) -> NDArray:
        """MTTKRP of other values, in the order of the structure that serves the mode."""
        out = aligned_rows(self.shape[mode], factors[mode].shape[1], self.dtype)
        out[:] = 0
        if self.nnz:
            structure = self.structures[self.serving[mode]]
            replace(structure, values=values).add(mode, factors, out)
        return out

    def likelihood(
        self, factors: Sequence[NDArray], weights: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Σ x̂ and Σ x log x̂ over the stored entries; parameters as of `ratios`."""
        fitted = self._reconstructed(self.structures[0], factors, weights)
        total = fitted.sum(dtype=np.float64)
        np.log(fitted, out=fitted)
        return np.array([total, np.einsum("n,n->", self.values, fitted, dtype=np.float64)])

    def _reconstructed(
        self,
        structure: Fibres | SortedNonzeros,
        factors: Sequence[NDArray],
        weights: NDArray[np.float64],
    ) -> NDArray:
        """Values of a decomposition at the nonzeros of a structure, none of them 0."""
        self._check_factors(0, factors, factors[0], len(weights))
        found = structure.reconstruct(factors, weights.astype(self.dtype))
        # squared it is in range, so quotients and their sums are finite
        return np.maximum(found, np.sqrt(np.finfo(self.dtype).tiny), out=found)

    def _add_fibres(
        self, fibres: Fibres, mode: int, factors: Sequence[NDArray], out: NDArray
    ) -> None:
        """With kept sums, where they are of use, have room, and no other thread has them."""
        sums = fibres.n_fibres * out.shape[1] * out.itemsize
        too_many = self._fixed_bytes + sums > self.most * self.coordinate_bytes
        if mode == fibres.leaf or fibres is not self.structures[0] or too_many:
            fibres.add(mode, factors, out)
            return
        with self.products.of_one_thread() as products:
            fibres.add(mode, factors, out, products)

    def _check_factors(
        self, mode: int, factors: Sequence[NDArray], out: NDArray, n_components: int
    ) -> None:
        """Kernels work on addresses: what does not fit must not reach them."""
        for k, extent in enumerate(self.shape):
            array = out if k == mode else factors[k]
            shaped = array.shape == (extent, n_components) and array.dtype == self.dtype
            if not (shaped and array.flags.c_contiguous):
                what = "out" if k == mode else f"factor {k}"
                raise InputError(
                    f"{what} is {array.dtype} of shape {array.shape}: give a C-contiguous "
                    f"{self.dtype} array of shape {(extent, n_components)}"
                )


def _check(coordinates: NDArray, values: NDArray, shape: tuple[int, ...], memory: str) -> None:
    if memory not in MEMORY:
        raise InputError(f"memory is {memory!r}: give one of {', '.join(MEMORY)}")
    if len(shape) < 2 or coordinates.shape != (len(shape), values.size):
        raise InputError(
            f"coordinates of shape {coordinates.shape}, {values.size} values and {len(shape)} "
            "modes: give coordinates of shape (modes, values), and at least two modes"
        )
    if values.dtype not in (np.float32, np.float64):
        raise InputError(f"values are of type {values.dtype}: give float32 or float64")
    for mode, (index, extent) in enumerate(zip(coordinates, shape, strict=True)):
        if index.size and not 0 <= index.min() <= index.max() < extent:
            wrong = index.min() if index.min() < 0 else index.max()
            raise InputError(f"index {wrong} in mode {mode}: its indices go from 0 to {extent - 1}")


def _sorted_structures(
    nonzeros: Nonzeros, shape: tuple[int, ...], memory: str
) -> tuple[tuple[SortedNonzeros, ...], int]:
    """Nonzeros by the longest mode first; of a matrix a second copy, for the other mode."""
    order = tuple(sorted(range(len(shape)), key=lambda mode: -shape[mode]))
    first = SortedNonzeros.build(nonzeros.take(), shape, order)
    if len(shape) > 2 or memory == "small":
        return (first,), order[1]
    return (first, SortedNonzeros.build(first, shape, order[::-1])), order[1]


def _fibre_structures(
    nonzeros: Nonzeros, shape: tuple[int, ...], memory: str, lengths: Sequence[float]
) -> tuple[tuple[Fibres | SortedNonzeros, ...], int]:
    """Fibres along the mode where they are longest, and a structure for that mode itself."""
    leaf, second = np.argsort(-np.asarray(lengths), kind="stable")[:2].tolist()
    in_pieces = popularity_pays(lengths[leaf], shape[leaf], nonzeros.values.itemsize)
    fibres = Fibres.build(nonzeros.take(), shape, leaf, in_pieces=in_pieces)
    if memory == "small":
        return (fibres,), leaf
    if lengths[second] >= LONG_FIBRE:
        return (fibres, Fibres.build(fibres, shape, second, in_blocks=True)), leaf
    others = sorted((k for k in range(len(shape)) if k != leaf), key=lambda mode: -shape[mode])
    return (fibres, SortedNonzeros.build(fibres, shape, (leaf, *others))), leaf
