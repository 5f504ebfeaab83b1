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
of its rows where counts are given. Of rows that travel, each has a number and an owner:

    allgather   2 ranks, 2 and 1 rows     rows 0 1 │ 2           owned by their rank, all share
    broadcast   root 1                    row  0                 owned by rank 1, all share
    alltoall    2 ranks, one row each     rows 0→0 0→1 1→0 1→1   each with one receiver
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart._floor.checks import as_array, one_of, whole_number
from daskpart.errors import InputError

from .communicator import Communicator, PerRank, collective
from .hypercube import embed
from .messages import Inbox, PreparedPlan
from .operations import expand, reduce
from .plan import Plan
from .point_to_point import expand_of_shares
from .reduction import (
    SUM,
    Reduction,
    check_agreement,
    combine_rows,
    plain_number,
    require_reduction,
)

ALGORITHMS = ("hypercube", "direct")


class Bounds(NamedTuple):
    """How many rows each rank gives, and which of them are its own."""

    n_rows: list[int]
    own: list[slice]


# a plan, the numbers of the rows that each rank gives, and which of them are its own
Pattern = tuple[Plan, list[NDArray[np.int64]], list[slice]]


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
    rows = _counts(counts, communicator.n_ranks)
    prepared, ranks, bounds = _prepared(communicator, "allgather", algorithm, rows, _of_blocks)
    held = communicator.map(_given, values, ranks, bounds=bounds, stacked=counts is None)
    return expand(communicator, prepared, held, place=_in_rank_order, bounds=bounds)


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
    rows = _counts(counts, communicator.n_ranks)
    prepared, ranks, bounds = _prepared(
        communicator, "reduce-scatter", algorithm, rows, _of_whole_arrays
    )
    held = communicator.map(_whole, values, ranks, bounds=bounds, reduction=reduction)
    combine = partial(_own_block, reduction=reduction, stacked=counts is None)
    return reduce(communicator, prepared, held, combine=combine, reduction=reduction, bounds=bounds)


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
    table = _counts(counts, communicator.n_ranks, communicator.n_ranks)
    prepared, ranks, bounds = _prepared(communicator, "alltoall", algorithm, table, _of_exchange)
    held = communicator.map(_given, values, ranks, bounds=bounds)
    return expand(communicator, prepared, held, place=_in_rank_order, bounds=bounds)


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
    prepared, ranks, _ = _prepared(communicator, "broadcast", algorithm, np.array(root), make)
    held = communicator.map(_of_root, values, ranks, root=root)
    held = expand(communicator, prepared, held, _pack_value, _place_value)
    return communicator.map(_plain, held)


def _prepared(
    communicator: Communicator,
    label: str,
    algorithm: str,
    pattern: NDArray[np.int64],
    make: Callable[[NDArray[np.int64]], Pattern],
) -> tuple[PreparedPlan, PerRank, Bounds]:
    """The plan of ``make(pattern)`` ready to run, the ranks, the bounds; made on the first call."""
    one_of(algorithm, "algorithm", ALGORITHMS)

    def prepare() -> tuple[PreparedPlan, PerRank, Bounds]:
        plan, numbering, own = make(pattern)
        bounds = Bounds([*map(len, numbering)], own)
        if plan.kind == "expand":  # behind its own rows those that a rank gets
            gets = [plan.rounds[0].of_rank(rank).in_items for rank in range(plan.n_ranks)]
            numbering = [np.concatenate(pair) for pair in zip(numbering, gets, strict=True)]
        if algorithm == "hypercube":
            plan = embed(plan, every_message=False)
        prepared = communicator.prepare(plan, communicator.values(numbering), label)
        return prepared, communicator.values(list(range(plan.n_ranks))), bounds

    return communicator.cached((label, algorithm, *pattern.ravel().tolist()), prepare)


def _of_blocks(rows: NDArray[np.int64]) -> Pattern:
    """Every rank gives its own rows."""
    numbering = np.split(np.arange(rows.sum()), np.cumsum(rows)[:-1])
    return allgather_plan(rows), numbering, [slice(None)] * len(rows)


def _of_whole_arrays(rows: NDArray[np.int64]) -> Pattern:
    """Every rank gives all rows, in order of their owners."""
    ends = np.cumsum(rows)
    own = [*map(slice, ends - rows, ends)]
    return allgather_plan(rows).reversed(), [np.arange(rows.sum())] * len(rows), own


def _of_exchange(table: NDArray[np.int64]) -> Pattern:
    """Every rank gives rows to each, in order of destinations."""
    numbering = np.split(np.arange(table.sum()), np.cumsum(table.sum(axis=1))[:-1])
    ends = np.cumsum(table, axis=1).diagonal()
    return alltoall_plan(table), numbering, [*map(slice, ends - table.diagonal(), ends)]


def _of_root_alone(root: NDArray[np.int64], *, n_ranks: int) -> Pattern:
    numbering = [np.arange(rank == root) for rank in range(n_ranks)]
    return broadcast_plan(n_ranks, int(root)), numbering, []


def allgather_plan(rows: NDArray[np.int64]) -> Plan:
    """Expand of so many rows of each rank to all others; reversed, it is the reduce-scatter."""
    return _shared_by_all(len(rows), np.repeat(np.arange(len(rows)), rows))


def broadcast_plan(n_ranks: int, root: int) -> Plan:
    """Expand of one row from the root to all others."""
    return _shared_by_all(n_ranks, np.array([root]))


def alltoall_plan(table: NDArray[np.int64]) -> Plan:
    """Expand of ``table[i, j]`` rows from rank i to j, numbered in order of (sender, receiver)."""
    n_ranks = len(table)
    sender, receiver = np.divmod(np.repeat(np.arange(n_ranks**2), table.ravel()), n_ranks)
    return expand_of_shares(len(sender), n_ranks, sender, receiver, np.arange(len(sender)))


def _shared_by_all(n_ranks: int, owners: NDArray[Any]) -> Plan:
    rows, sharers = np.divmod(np.arange(n_ranks * len(owners)), n_ranks)
    return expand_of_shares(len(owners), n_ranks, owners[rows], sharers, rows)


def _counts(counts: ArrayLike | None, *shape: int) -> NDArray[np.int64]:
    """Rows of each rank, or from each rank to each rank; one by default, checked."""
    rows = np.ones(shape, np.int64) if counts is None else as_array(counts, "counts")
    if rows.shape != shape or rows.dtype.kind not in "iu" or rows.min() < 0:
        raise InputError(
            f"counts must be {' × '.join(map(str, shape))} whole numbers from 0 on, rows "
            f"{'of each rank' if len(shape) == 1 else 'from each rank to each'}; got {counts!r}."
        )
    return rows.astype(np.int64)


# -- steps on one rank ---


def _given(value: Any, rank: int, *, bounds: Bounds, stacked: bool = False) -> NDArray[Any]:
    """The rows that a rank gives; not copied, as the next step only reads them."""
    array = as_array(value, f"rows of rank {rank}")
    given = array[None] if stacked else array
    if given.ndim == 0 or len(given) != bounds.n_rows[rank]:
        raise InputError(
            f"Rank {rank} gave an array of shape {given.shape}; by the number of ranks and counts= "
            f"its first axis has {bounds.n_rows[rank]} rows."
        )
    return given


def _in_rank_order(given: NDArray[Any], inbox: Inbox, *, bounds: Bounds) -> NDArray[Any]:
    """What arrived, and the rank's own rows."""
    check_agreement(given, inbox)
    pieces = [*inbox.payloads]
    pieces.insert(bisect(inbox.sources, inbox.rank), given[bounds.own[inbox.rank]])
    return np.concatenate(pieces, dtype=given.dtype)


def _whole(value: Any, rank: int, *, bounds: Bounds, reduction: Reduction) -> NDArray[Any]:
    return reduction.alone(_given(value, rank, bounds=bounds).copy())


def _own_block(
    given: NDArray[Any], inbox: Inbox, *, reduction: Reduction, bounds: Bounds, stacked: bool
) -> Any:
    combined = combine_rows(given, inbox, reduction=reduction)
    own = combined[bounds.own[inbox.rank]].copy()
    return _plain(own[0]) if stacked else own


def _of_root(value: Any, rank: int, *, root: int) -> Any:
    if rank != root:
        return None
    array = as_array(value, f"values of rank {rank}").copy()
    if array.dtype.hasobject:
        held = type(value).__name__
        raise InputError(f"Rank {rank}, the root, holds {held}: give it an array or number.")
    return array


def _pack_value(value: NDArray[Any], positions: NDArray[np.int64]) -> NDArray[Any]:
    return np.repeat(value[None], len(positions), axis=0)


def _place_value(value: Any, inbox: Inbox) -> Any:
    return inbox.payloads[0][0].copy() if inbox.sources else value


def _plain(value: NDArray[Any]) -> Any:
    return value.copy() if value.ndim else plain_number(value)
