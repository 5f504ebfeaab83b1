"""The dense collectives in MPI's vocabulary, each written once: for algorithm texts of your own.

    ranks hold                allgather        alltoall          reduce_scatter     broadcast
    0  a0 a1 a2               a  b  c          a0 b0 c0          a0+b0+c0           a
    1  b0 b1 b2               a  b  c          a1 b1 c1          a1+b1+c1           a
    2  c0 c1 c2               a  b  c          a2 b2 c2          a2+b2+c2           a

All are expands or reduces in disguise: an allgather is the expand in which every rank shares every
block, a broadcast the expand of one value, an alltoall the expand in which each block has one
receiver, and a reduce-scatter is an allgather reversed. So each has two algorithms: "direct", one
round of messages straight to their destination, and "hypercube", the same rows embedded in
⌈log2 K⌉ rounds (recursive doubling, a binomial tree, recursive halving). `hypercube_allreduce`,
`allreduce` and `barrier` complete the set.

Blocks may be rows of unequal number: then `counts`, the same plain numbers on every rank, says
how many (MPI's allgatherv, reduce_scatter and alltoallv). Plans are prepared on the first call for
a pattern, and cached. Rounds are counted under the name of the collective; a row is a block, or one
of its rows where counts are given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart._floor.checks import one_of, whole_number, without_mask
from daskpart.errors import InputError

from .communicator import Communicator, PerRank
from .dense_plans import (
    Layout,
    allgather_plan,
    alltoall_plan,
    block_layouts,
    broadcast_plan,
    exchange_counts,
    exchange_layouts,
    exchange_numbering,
    row_counts,
)
from .hypercube import embed
from .messages import Inbox, PreparedPlan
from .operations import expand, reduce
from .plan import Plan
from .reduction import SUM, Reduction, require_reduction
from .texts import collective

ALGORITHMS = ("hypercube", "direct")
# a plan, the numbering of each rank's rows, the layout of each rank
Pattern = tuple[Plan, list[NDArray[np.int64]], list[Any]]


@collective
def allgather(
    communicator: Communicator,
    values: PerRank,
    counts: Sequence[int] | None = None,
    algorithm: str = "hypercube",
) -> PerRank:
    """Give every rank the blocks of all ranks, in rank order.

    Parameters
    ----------
    communicator : Communicator
    values : PerRank of arrays or numbers
        One block a rank; without counts equal in shape and dtype.
    counts : sequence of n_ranks int, optional
        Rows of each rank's block; blocks may then differ in their number of rows.
    algorithm : {"hypercube", "direct"}
        ⌈log2 K⌉ messages a rank (K a power of two), or K - 1 in one round; the same K - 1 blocks
        arrive.

    Returns
    -------
    PerRank of arrays
        Shape ``(n_ranks, *block)``, or with counts ``(sum of counts, *row)``.

    Raises
    ------
    InputError
        If blocks disagree with each other or with counts; names the ranks.
    """
    rows = row_counts(communicator.n_ranks, counts)
    prepared, layouts = _prepared(communicator, "allgather", algorithm, rows, _of_blocks)
    held = communicator.map(_with_room, values, layouts, stacked=counts is None)
    return expand(communicator, prepared, held)


@collective
def reduce_scatter(
    communicator: Communicator,
    values: PerRank,
    counts: Sequence[int] | None = None,
    reduction: Reduction = SUM,
    algorithm: str = "hypercube",
) -> PerRank:
    """Combine the ranks' arrays block by block; each rank gets its own block of the result.

    Parameters
    ----------
    communicator : Communicator
    values : PerRank of arrays
        Shape ``(n_ranks, *block)``, or with counts ``(sum of counts, *row)``.
    counts : sequence of n_ranks int, optional
        Rows that each rank gets. Default: one block, given without the leading axis.
    reduction : Reduction
    algorithm : {"hypercube", "direct"}
        "direct" combines in rank order, like `allreduce`; "hypercube" combines on the way, with
        ⌈log2 K⌉ messages a rank (K a power of two).

    Returns
    -------
    PerRank of arrays
        Shape ``(*block)``, a plain number for blocks that are numbers, or ``(counts[rank], *row)``.
    """
    require_reduction(reduction)
    rows = row_counts(communicator.n_ranks, counts)
    prepared, layouts = _prepared(
        communicator, "reduce-scatter", algorithm, rows, partial(_of_blocks, reduces=True)
    )
    held = communicator.map(_whole, values, layouts, reduction=reduction)
    held = reduce(communicator, prepared, held, reduction=reduction)
    return communicator.map(_own_block, held, layouts, stacked=counts is None)


@collective
def alltoall(
    communicator: Communicator,
    values: PerRank,
    counts: ArrayLike | None = None,
    algorithm: str = "direct",
) -> PerRank:
    """Send block j of every rank to rank j, which gets its blocks in rank order.

    Parameters
    ----------
    communicator : Communicator
    values : PerRank of arrays
        Shape ``(n_ranks, *block)``, or with counts ``(sum of the rank's counts, *row)``, in order
        of destinations.
    counts : int array of shape (n_ranks, n_ranks), optional
        ``counts[i, j]`` rows go from rank i to rank j.
    algorithm : {"direct", "hypercube"}
        K - 1 messages a rank in one round, or ⌈log2 K⌉ with each row sent up to ⌈log2 K⌉ times:
        for small blocks on many ranks.

    Returns
    -------
    PerRank of arrays
        Shape ``(n_ranks, *block)``, or with counts ``(rows that the rank gets, *row)``.
    """
    table = exchange_counts(communicator.n_ranks, counts)
    prepared, layouts = _prepared(communicator, "alltoall", algorithm, table, _of_exchange)
    held = communicator.map(_with_room, values, layouts, own_first=True)
    held = expand(communicator, prepared, held)
    return communicator.map(_received, held, layouts)


@collective
def broadcast(
    communicator: Communicator, values: PerRank, root: int = 0, algorithm: str = "hypercube"
) -> PerRank:
    """Give every rank the root's value.

    Parameters
    ----------
    communicator : Communicator
    values : PerRank
        An array or number at the root; what other ranks hold is not looked at and may be None.
    root : int
    algorithm : {"hypercube", "direct"}
        A binomial tree of depth ⌈log2 K⌉, or K - 1 messages from the root.

    Returns
    -------
    PerRank
        The array, or the plain number.
    """
    n_ranks = communicator.n_ranks
    root = whole_number(root, "root", least=0, most=n_ranks - 1)
    make = partial(_of_root_alone, n_ranks=n_ranks)
    prepared, ranks = _prepared(communicator, "broadcast", algorithm, np.array(root), make)
    held = communicator.map(_of_root, values, ranks, root=root)
    held = expand(communicator, prepared, held, _pack_value, _place_value)
    return communicator.map(_plain, held)


def _prepared(
    communicator: Communicator,
    label: str,
    algorithm: str,
    pattern: NDArray[np.int64],
    make: Callable[[NDArray[np.int64]], Pattern],
) -> tuple[PreparedPlan, PerRank]:
    """The plan of ``make(pattern)`` ready to run, and a layout a rank; made on the first call."""
    one_of(algorithm, "algorithm", ALGORITHMS)

    def prepare() -> tuple[PreparedPlan, PerRank]:
        plan, numbering, layouts = make(pattern)
        numbers, held = communicator.values(numbering), communicator.values(layouts)
        if algorithm == "hypercube":
            plan = embed(plan, every_message=False)
        return communicator.prepare(plan, numbers, label), held

    return communicator.cached((label, algorithm, *pattern.ravel().tolist()), prepare)


def _of_blocks(rows: NDArray[np.int64], *, reduces: bool = False) -> Pattern:
    plan = allgather_plan(len(rows), rows.tolist())
    numbering = [np.arange(plan.n_items)] * len(rows)
    return plan.reversed() if reduces else plan, numbering, block_layouts(rows)


def _of_exchange(table: NDArray[np.int64]) -> Pattern:
    return alltoall_plan(len(table), table), exchange_numbering(table), exchange_layouts(table)


def _of_root_alone(root: NDArray[np.int64], *, n_ranks: int) -> Pattern:
    numbering = [np.zeros(1, dtype=np.int64)] * n_ranks
    return broadcast_plan(n_ranks, int(root)), numbering, list(range(n_ranks))


# -- steps on one rank ---


def _with_room(
    value: Any, layout: Layout, *, stacked: bool = False, own_first: bool = False
) -> NDArray[Any]:
    """The given rows, first or in their place, among those that will arrive."""
    array = without_mask(value, f"rows of rank {layout.rank}")
    given = array[None] if stacked else array
    _check_rows(given, layout.n_given, layout.rank)
    rows = np.empty((layout.n_room, *given.shape[1:]), dtype=given.dtype)
    begin = 0 if own_first else layout.begin
    rows[begin : begin + layout.n_given] = given
    return rows


def _whole(given: Any, layout: Layout, *, reduction: Reduction) -> NDArray[Any]:
    rows = reduction.alone(without_mask(given, f"rows of rank {layout.rank}").copy())
    _check_rows(rows, layout.n_room, layout.rank)
    return rows


def _own_block(rows: NDArray[Any], layout: Layout, *, stacked: bool) -> Any:
    own = rows[layout.begin : layout.end].copy()
    return _plain(own[0]) if stacked else own


def _received(rows: NDArray[Any], layout: Layout) -> NDArray[Any]:
    others = rows[layout.n_given :]
    own = rows[layout.begin : layout.end]
    return np.concatenate((others[: layout.n_before], own, others[layout.n_before :]))


def _of_root(value: Any, rank: int, *, root: int) -> Any:
    if rank != root:
        return None
    array = without_mask(value, f"values of rank {rank}").copy()
    if array.dtype.hasobject:
        held = type(value).__name__
        raise InputError(f"Rank {rank}, the root, holds {held}: give it an array or number.")
    return array


def _pack_value(value: NDArray[Any], positions: NDArray[np.int64]) -> NDArray[Any]:
    return value[None].copy()


def _place_value(value: Any, inbox: Inbox) -> Any:
    return inbox.payloads[0][0].copy() if inbox.sources else value


def _plain(value: NDArray[Any]) -> Any:
    return value.copy() if value.ndim else value.item()


def _check_rows(given: NDArray[Any], n_rows: int, rank: int) -> None:
    if given.ndim == 0 or len(given) != n_rows:
        raise InputError(
            f"Rank {rank} gave an array of shape {given.shape}; by the number of ranks and counts= "
            f"its first axis has {n_rows} rows."
        )
