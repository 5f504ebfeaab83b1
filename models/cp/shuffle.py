"""From the blocks of a Dask array to the nonzeros of each rank, without passing the client.

    block (0, 0, 0) ─ split ─┬─ piece of rank 0 ─┐
                             └─ piece of rank 1 ─│─┐
    block (1, 0, 0) ─ split ─┬─ piece of rank 0 ─┴─│── RankNonzeros of rank 0
                             └─ piece of rank 1 ───┴── RankNonzeros of rank 1

Under partitioner="random" a nonzero's rank is a hash of its indices, so the client sees only which
rank touches which index, from a summary of each block. Any other partitioner has to see the
pattern: then the coordinates of the nonzeros come to the client, their values do not.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import dask
import numpy as np
from dask.highlevelgraph import HighLevelGraph
from numpy.typing import NDArray

from daskpart._floor.hashing import GOLDEN, mixed
from daskpart._floor.rank_tasks import RankCollection
from daskpart.connectivity import Connectivity
from daskpart.containers.coordinates import (
    as_labels,
    as_values,
    refuse_dense_chunks,
)
from daskpart.containers.dask_blocks import cut_by_part
from daskpart.containers.tables import table_in_memory
from daskpart.containers.tensor import (
    LabelledTensor,
    Missing,
    block_entries,
    from_coordinates,
)
from daskpart.errors import InputError
from daskpart.models.base.problem import is_lazy_array, lazy_name

from .cut import NonzeroCut
from .entries import entries_of
from .plan import CPPlan, PlanSettings, plan_fit, plan_method
from .problem import MemoryTensor, TensorProblem
from .ranks import RankNonzeros

Block = tuple[NDArray[np.int32], NDArray[Any]]


@dataclass(eq=False)
class LazyTensor(TensorProblem):
    """A tensor whose blocks are tasks, or lie on workers.

    Attributes
    ----------
    array : dask.array.Array
        Of sparse blocks of known size.
    dims : tuple of str
    labels : dict
    """

    array: Any
    dims: tuple[str, ...]
    labels: dict[str, Any] = field(default_factory=dict)
    missing: Missing = "zero"

    @classmethod
    def of(cls, X: Any, missing: Missing = "zero") -> LazyTensor:
        """From a Dask array, or an xarray.DataArray over one; nothing is computed.

        Raises
        ------
        InputError
            For fewer than two modes, and blocks that are dense or of unknown size.
        """
        if not hasattr(X, "coords"):
            dims = tuple(f"mode_{mode}" for mode in range(X.ndim))
            return cls(_checked(X), dims, missing=missing)
        dims = tuple(str(name) for name in X.dims)
        labels = {str(d): as_labels(X.coords[d].values) for d in X.dims if d in X.coords}
        return cls(_checked(X.data), dims, labels, missing)

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the modes."""
        return tuple(int(extent) for extent in self.array.shape)

    @property
    def dtype(self) -> str:
        """float32 or float64."""
        return str(as_values(np.empty(0, self.array.dtype)).dtype)

    @property
    def tensor(self) -> None:
        """Not in this process."""
        return None

    def fingerprint(self) -> str:
        """What is known without computing: the name."""
        return lazy_name(self.array)

    def plan(self, settings: PlanSettings) -> list[CPPlan]:
        """Plan from summaries of the blocks; **computes** them once."""
        asked = settings.partitioner
        if not isinstance(asked, str) or asked != "random":
            return plan_fit(self._pattern, settings)
        found = self._connectivities(settings.n_ranks, settings.random_state)
        cut = NonzeroCut(None, found, "random")
        return [
            plan_method(cut, replace(settings, method=method), self.dims)
            for method in settings.methods
        ]

    def pieces(self, plan: CPPlan) -> RankCollection:
        """Each rank's nonzeros, as tasks."""
        n_ranks = plan.n_ranks
        parts = self._parts_by_block(plan)
        split = dask.delayed(split_block, pure=False)
        pick, collect = dask.delayed(_pick, pure=False), dask.delayed(collect_rank, pure=False)
        pieces = [
            split(block, place, of_block, n_ranks, plan.random_state)
            for (block, place), of_block in zip(self._blocks, parts, strict=True)
        ]
        ranks = [
            collect(rank, [pick(piece, rank) for piece in pieces], self.dtype)
            for rank in range(n_ranks)
        ]
        layers = HighLevelGraph.merge(*(rank.__dask_graph__() for rank in ranks))
        return RankCollection(layers, [rank.key for rank in ranks])

    @cached_property
    def _blocks(self) -> list[tuple[Any, Place]]:
        """Every block, delayed, and where it lies."""
        delayed = self.array.to_delayed()
        starts = [np.concatenate(([0], np.cumsum(sizes))) for sizes in self.array.chunks]
        return [
            (
                delayed[number],
                Place(
                    tuple(int(start[i]) for start, i in zip(starts, number, strict=True)),
                    self.shape,
                    self.dims,
                    self.missing,
                ),
            )
            for number in product(*map(range, delayed.shape))
        ]

    @cached_property
    def _coordinates(self) -> list[NDArray[np.int32]]:
        """Indices of the nonzeros of each block."""
        indices = dask.delayed(_indices_of, pure=True)
        return list(dask.compute(*[indices(block, place) for block, place in self._blocks]))

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        """Nonzeros of all blocks in row-major order of the tensor."""
        everything = np.concatenate(self._coordinates, axis=1)
        return np.lexsort(everything[::-1])

    @cached_property
    def _pattern(self) -> LabelledTensor:
        """The tensor with ones for values: partitioners look at indices alone."""
        everything = np.concatenate(self._coordinates, axis=1)
        if not everything.shape[1]:
            raise _empty(self.shape)
        sorted_ = np.ascontiguousarray(everything[:, self._order])
        ones = np.ones(everything.shape[1], np.float32)
        return LabelledTensor(sorted_, ones, self.shape, self.dims)

    def _parts_by_block(self, plan: CPPlan) -> list[NDArray[np.int32] | None]:
        if plan.parts is None:
            return [None] * len(self._blocks)
        unsorted = np.empty(len(plan.parts), np.int32)
        unsorted[self._order] = plan.parts
        ends = np.cumsum([found.shape[1] for found in self._coordinates])
        return list(np.split(unsorted, ends[:-1]))

    def _connectivities(self, n_ranks: int, random_state: int) -> list[Connectivity]:
        summarise = dask.delayed(summarise_block, pure=True)
        summaries = dask.compute(
            *[summarise(block, place, n_ranks, random_state) for block, place in self._blocks]
        )
        found = []
        for mode, extent in enumerate(self.shape):
            ranks, items, counts = (
                np.concatenate(column)
                for column in zip(*(summary[mode] for summary in summaries), strict=True)
            )
            if not len(counts):
                raise _empty(self.shape)
            found.append(Connectivity.from_pairs(items, ranks, extent, n_ranks, counts))
        return found


def _checked(array: Any) -> Any:
    if array.ndim < 2:
        raise InputError(f"a tensor of {array.ndim} mode(s) was given: give one of two or more")
    refuse_dense_chunks(array)
    if any(np.isnan(size) for sizes in array.chunks for size in sizes):
        raise InputError(
            f"a Dask array with chunks of unknown size ({array.chunks}) was given; call "
            "array.compute_chunk_sizes() first"
        )
    return array


def _empty(shape: tuple[int, ...]) -> InputError:
    return InputError(f"no block of the Dask array of shape {shape} stores a nonzero: give one")


# -- what runs where the blocks are ---


@dataclass(frozen=True)
class Place:
    """Where a block lies: its first index in each mode, and what it is a block of."""

    corner: tuple[int, ...]
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    missing: Missing = "zero"


def block_nonzeros(block: Any, place: Place) -> Block:
    """Global indices and values of a block's nonzeros, checked; in row-major order."""
    indices, values, _ = block_entries(block)
    empty = not len(values) or (place.missing == "zero" and not values.any())
    if empty:
        return np.empty((len(place.shape), 0), np.int32), as_values(values[:0])
    tensor = from_coordinates(
        [index.astype(np.int64) + at for index, at in zip(indices, place.corner, strict=True)],
        values, place.shape, place.dims, missing=place.missing,
    )  # fmt: skip
    return tensor.coordinates, tensor.values


def hashed_parts(
    coordinates: NDArray[np.int32], n_ranks: int, random_state: int
) -> NDArray[np.int32]:
    """A rank for each nonzero from its indices alone, the same however the blocks are cut."""
    word = np.full(coordinates.shape[1], np.uint64(random_state) + np.uint64(1), np.uint64)
    for index in coordinates:
        word = mixed((word ^ index.astype(np.uint64)) + GOLDEN)
    return (word % np.uint64(n_ranks)).astype(np.int32)


def summarise_block(block: Any, place: Place, n_ranks: int, random_state: int) -> list[Any]:
    """For each mode (ranks, indices, counts) of a block's nonzeros."""
    coordinates, _ = block_nonzeros(block, place)
    ranks = hashed_parts(coordinates, n_ranks, random_state)
    summary = []
    for index, extent in zip(coordinates, place.shape, strict=True):
        pairs, counts = np.unique(ranks.astype(np.int64) * extent + index, return_counts=True)
        summary.append((*np.divmod(pairs, extent), counts))
    return summary


def split_block(
    block: Any,
    place: Place,
    parts: NDArray[np.int32] | None,
    n_ranks: int,
    random_state: int,
) -> list[Block]:
    """Cut a block's nonzeros into one piece a rank."""
    coordinates, values = block_nonzeros(block, place)
    if parts is None:
        parts = hashed_parts(coordinates, n_ranks, random_state)
    return cut_by_part(parts, n_ranks, coordinates, values)


def collect_rank(rank: int, pieces: list[Block], dtype: str) -> RankNonzeros:
    """One rank's nonzeros from its pieces of every block: a copy, and nothing beside it.

    How the blocks are cut shows in the order of the nonzeros only, and no layout keeps that.
    """
    cells, values = zip(*pieces, strict=True)
    gathered = np.concatenate(values, dtype=dtype, casting="same_kind")
    return RankNonzeros(rank, np.concatenate(cells, axis=1), gathered)


def _pick(pieces: list[Block], rank: int) -> Block:
    return pieces[rank]


def _indices_of(block: Any, place: Place) -> NDArray[np.int32]:
    return block_nonzeros(block, place)[0]


def problem_of(X: Any, y: Any = None, missing: Missing = "zero") -> TensorProblem:
    """The tensor of a fit from any container, or from a path; `y` are the values of a DataFrame.

    Raises
    ------
    InputError
        As `daskpart.containers.as_tensor`, or for a Dask array with blocks that are dense or of
        unknown size.
    """
    X = table_in_memory(X)  # which label is which index has to be known before anything is cut
    if is_lazy_array(X):
        return LazyTensor.of(X, missing)
    tensor = entries_of(X, y, missing)
    if isinstance(X, str | os.PathLike) and tensor.n_modes < 2:
        raise InputError(f"{X} holds {tensor.n_modes} mode(s); a decomposition needs two or more")
    return MemoryTensor(tensor)
