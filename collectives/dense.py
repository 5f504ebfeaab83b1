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

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart._floor.checks import as_array, one_of, whole_number
from daskpart.errors import InputError

from .communicator import Communicator, PerRank, collective
from .hypercube import embed
from .messages import Inbox, PreparedPlan
from .operations import expand, reduce
from .plan import Plan, Round
from .point_to_point import expand_plan
from .reduction import SUM, Reduction, plain_number, require_reduction

ALGORITHMS = ("hypercube", "direct")
# a plan, the numbers of the rows in each rank's array, the layout of each rank
Pattern = tuple[Plan, list[NDArray[np.int64]], list[Any]]


@dataclass(frozen=True)
class Layout:
    """Where a rank's own rows stand in its array."""

    rank: int
    begin: int  # of the rows that it gives, those in begin:end are its own
    end: int
    n_given: int
    n_room: int  # rows in its array in all
    n_before: int  # where its own stand among those that it gets


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
    rows = _counts(counts, communicator.n_ranks)
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
    table = _counts(counts, communicator.n_ranks, communicator.n_ranks)
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
    """Every rank has room for all rows, in order of their owners."""
    plan = allgather_plan(rows)
    total, ends = plan.n_items, np.cumsum(rows).tolist()
    layouts = [
        Layout(rank, end - n_rows, end, n_rows, total, end - n_rows)
        for rank, (end, n_rows) in enumerate(zip(ends, rows.tolist(), strict=True))
    ]
    return plan.reversed() if reduces else plan, [np.arange(total)] * len(rows), layouts


def _of_exchange(table: NDArray[np.int64]) -> Pattern:
    """Every rank has the rows that it gives, then room for those that it gets from others."""
    n_ranks, numbering, layouts = len(table), [], []
    cells = np.split(np.arange(table.sum()), np.cumsum(table)[:-1])
    for rank in range(n_ranks):
        given = cells[rank * n_ranks : (rank + 1) * n_ranks]
        from_others = [cells[r * n_ranks + rank] for r in range(n_ranks) if r != rank]
        numbering.append(np.concatenate(given + from_others))
        begin, n_before = int(table[rank, :rank].sum()), int(table[:rank, rank].sum())
        end = begin + int(table[rank, rank])
        n_given = int(table[rank].sum())
        layouts.append(Layout(rank, begin, end, n_given, len(numbering[-1]), n_before))
    return alltoall_plan(table), numbering, layouts


def _of_root_alone(root: NDArray[np.int64], *, n_ranks: int) -> Pattern:
    numbering = [np.zeros(1, dtype=np.int64)] * n_ranks
    return broadcast_plan(n_ranks, int(root)), numbering, list(range(n_ranks))


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
    travels = np.flatnonzero(sender != receiver)
    entry = Round.from_transfers(n_ranks, sender[travels], receiver[travels], travels)
    return Plan("expand", len(sender), (entry,))


def _shared_by_all(n_ranks: int, owners: NDArray[Any]) -> Plan:
    shared = SimpleNamespace(
        pointer=n_ranks * np.arange(len(owners) + 1, dtype=np.int64),
        parts=np.tile(np.arange(n_ranks, dtype=np.int32), len(owners)),
        owners=owners,
        n_parts=n_ranks,
    )
    return expand_plan(shared)


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


def _with_room(
    value: Any, layout: Layout, *, stacked: bool = False, own_first: bool = False
) -> NDArray[Any]:
    """The given rows, first or in their place, among those that will arrive."""
    array = as_array(value, f"rows of rank {layout.rank}")
    given = array[None] if stacked else array
    _check_rows(given, layout.n_given, layout.rank)
    rows = np.empty((layout.n_room, *given.shape[1:]), dtype=given.dtype)
    begin = 0 if own_first else layout.begin
    rows[begin : begin + layout.n_given] = given
    return rows


def _whole(given: Any, layout: Layout, *, reduction: Reduction) -> NDArray[Any]:
    rows = reduction.alone(as_array(given, f"rows of rank {layout.rank}").copy())
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
    array = as_array(value, f"values of rank {rank}").copy()
    if array.dtype.hasobject:
        held = type(value).__name__
        raise InputError(f"Rank {rank}, the root, holds {held}: give it an array or number.")
    return array


def _pack_value(value: NDArray[Any], positions: NDArray[np.int64]) -> NDArray[Any]:
    return value[None].copy()


def _place_value(value: Any, inbox: Inbox) -> Any:
    return inbox.payloads[0][0].copy() if inbox.sources else value


def _plain(value: NDArray[Any]) -> Any:
    return value.copy() if value.ndim else plain_number(value)


def _check_rows(given: NDArray[Any], n_rows: int, rank: int) -> None:
    if given.ndim == 0 or len(given) != n_rows:
        raise InputError(
            f"Rank {rank} gave an array of shape {given.shape}; by the number of ranks and counts= "
            f"its first axis has {n_rows} rows."
        )
