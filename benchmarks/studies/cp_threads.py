"""CP-ALS of several ranks as threads of one process: the kernels' speed without any messages.

    longest mode   │ rank 0's rows │ rank 1's rows │    nonzeros cut by it, so its MTTKRP is local
    other modes      partial products of each rank      added up, each rank some of the rows

The rows of the longest mode are dealt out in turn: often they stand by falling number of nonzeros,
and cut as they stand one rank would get half the nonzeros and nearly all rows to solve for.

What a rank of a real fit computes, with memory shared instead of reduces and expands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from daskpart._floor.lanes import aligned_rows
from daskpart.containers.tensor import LabelledTensor
from daskpart.models.cp.layout.layout import TensorLayout
from daskpart.models.cp.steps import gram_of, solve_rows


class ThreadedCP:
    """CP-ALS with one layout and one thread a rank; `close` when done.

    Parameters
    ----------
    tensor : LabelledTensor
    start : sequence of ndarray of shape (shape[m], R)
        First factors; their type is that of all computation.
    n_ranks : int
        Threads.
    """

    def __init__(self, tensor: LabelledTensor, start: Sequence[np.ndarray], n_ranks: int) -> None:
        self.pool, self.n_ranks = ThreadPoolExecutor(n_ranks), n_ranks
        self.split = int(np.argmax(tensor.shape))
        dealt = np.argsort(np.arange(tensor.shape[self.split]) % n_ranks, kind="stable")
        place = np.empty(dealt.size, np.int32)
        place[dealt] = np.arange(dealt.size)
        index = place[tensor.coordinates[self.split]]
        counts = np.cumsum(np.bincount(index, minlength=tensor.shape[self.split]))
        shares = tensor.nnz * np.arange(n_ranks + 1) // n_ranks
        self.cuts = np.searchsorted(counts, shares, side="right")
        self.cuts[[0, -1]] = 0, tensor.shape[self.split]
        self.factors = [_copy(factor) for factor in start]
        self.factors[self.split][place] = start[self.split]
        self.layouts = [self._layout(tensor, index, rank) for rank in range(n_ranks)]
        self.partial = [
            [_copy(factor) for factor in self._of_rank(self.factors, rank)]
            for rank in range(n_ranks)
        ]
        self.grams = [gram_of(factor) for factor in self.factors]

    def close(self) -> None:
        """End the threads."""
        self.pool.shutdown()

    def iterate(self) -> None:
        """One iteration over all modes."""
        for mode, factor in enumerate(self.factors):
            self._each(lambda rank, mode=mode: self._mttkrp(rank, mode))
            system = np.prod([g for k, g in enumerate(self.grams) if k != mode], axis=0)
            gram = sum(self._each(lambda rank, m=mode, s=system: self._solve(rank, m, s)))
            self.weights = np.sqrt(gram.diagonal())
            scale = 1 / np.where(self.weights > 0, self.weights, 1.0)
            self.grams[mode] = gram * np.outer(scale, scale)
            self._each(lambda rank, f=factor, m=mode, s=scale: self._scale(rank, f, m, s))

    def _layout(self, tensor: LabelledTensor, index: np.ndarray, rank: int) -> TensorLayout:
        mine = (index >= self.cuts[rank]) & (index < self.cuts[rank + 1])
        local = tensor.coordinates[:, mine]
        local[self.split] = index[mine] - self.cuts[rank]
        shape = [len(factor) for factor in self._of_rank(self.factors, rank)]
        return TensorLayout.build(local, tensor.values[mine].astype(self.factors[0].dtype), shape)

    def _each(self, task: Callable[[int], Any]) -> list[Any]:
        return list(self.pool.map(task, range(self.n_ranks)))

    def _of_rank(self, factors: Sequence[np.ndarray], rank: int) -> list[np.ndarray]:
        return [
            factor[self.cuts[rank] : self.cuts[rank + 1]] if mode == self.split else factor
            for mode, factor in enumerate(factors)
        ]

    def _rows(self, rank: int, mode: int) -> slice:
        if mode == self.split:
            return slice(self.cuts[rank], self.cuts[rank + 1])
        n = len(self.factors[mode])
        return slice(n * rank // self.n_ranks, n * (rank + 1) // self.n_ranks)

    def _mttkrp(self, rank: int, mode: int) -> None:
        factors = self._of_rank(self.factors, rank)
        self.layouts[rank].mttkrp(mode, factors, self.partial[rank][mode])

    def _solve(self, rank: int, mode: int, system: np.ndarray) -> np.ndarray:
        rows = self._rows(rank, mode)
        if mode == self.split:
            products = self.partial[rank][mode]
        else:
            products = np.sum([partial[mode][rows] for partial in self.partial], axis=0)
        mine = self.factors[mode][rows]
        solve_rows(products, system, mine, np.ones(len(system)))
        return gram_of(mine)

    def _scale(self, rank: int, factor: np.ndarray, mode: int, scale: np.ndarray) -> None:
        factor[self._rows(rank, mode)] *= scale.astype(factor.dtype)


def _copy(factor: np.ndarray) -> np.ndarray:
    rows = aligned_rows(len(factor), factor.shape[1], factor.dtype)
    rows[:] = factor
    return rows
