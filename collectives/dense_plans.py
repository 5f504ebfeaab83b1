"""Plans and local layouts of the dense collectives: who owns which row, who shares it.

    allgather   2 ranks, 2 and 1 rows     rows 0 1 │ 2           owned by their rank, all share
    broadcast   root 1                    row  0                 owned by rank 1, all share
    alltoall    2 ranks, one row each     rows 0→0 0→1 1→0 1→1   each with one receiver

A layout says where a rank's own rows stand in its array; reduce-scatter has the plan of allgather
reversed, and its layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from daskpart.errors import InputError

from .plan import Plan, Round
from .point_to_point import expand_plan


@dataclass(frozen=True)
class Layout:
    """A rank's rows: it gives `n_given`, and those in ``begin:end`` of them are its own.

    `n_room` rows are in its array in all; `n_before` is where its own stand among those it gets.
    """

    rank: int
    begin: int
    end: int
    n_given: int
    n_room: int
    n_before: int


def allgather_plan(n_ranks: int, counts: Sequence[int] | None = None) -> Plan:
    """Expand of every rank's rows to all others; its reversed is the reduce-scatter.

    Parameters
    ----------
    n_ranks : int
    counts : sequence of n_ranks int, optional
        Rows of each rank; default one.
    """
    owners = np.repeat(np.arange(n_ranks), row_counts(n_ranks, counts))
    return _shared_by_all(n_ranks, owners)


def broadcast_plan(n_ranks: int, root: int = 0) -> Plan:
    """Expand of one item from the root to all others."""
    return _shared_by_all(n_ranks, np.array([root]))


def alltoall_plan(n_ranks: int, counts: ArrayLike | None = None) -> Plan:
    """Expand of rows with one receiver each, numbered in order of (sender, receiver).

    Parameters
    ----------
    n_ranks : int
    counts : int array of shape (n_ranks, n_ranks), optional
        ``counts[i, j]`` rows go from rank i to rank j; default one.
    """
    table = exchange_counts(n_ranks, counts)
    sender, receiver = np.divmod(np.repeat(np.arange(n_ranks**2), table.ravel()), n_ranks)
    travels = np.flatnonzero(sender != receiver)
    entry = Round.from_transfers(n_ranks, sender[travels], receiver[travels], travels)
    return Plan("expand", len(sender), (entry,))


def row_counts(n_ranks: int, counts: Sequence[int] | None) -> NDArray[np.int64]:
    """Rows of each rank, one by default, checked."""
    rows = np.ones(n_ranks, dtype=np.int64) if counts is None else np.asarray(counts)
    if rows.shape != (n_ranks,) or rows.dtype.kind not in "iu" or rows.min() < 0:
        raise InputError(
            f"counts must be {n_ranks} whole numbers from 0 on, rows of each rank; got {counts!r}."
        )
    return rows.astype(np.int64)


def exchange_counts(n_ranks: int, counts: ArrayLike | None) -> NDArray[np.int64]:
    """Rows from each rank to each rank, one by default, checked."""
    table = np.ones((n_ranks, n_ranks), np.int64) if counts is None else np.asarray(counts)
    if table.shape != (n_ranks, n_ranks) or table.dtype.kind not in "iu" or table.min() < 0:
        raise InputError(
            f"counts must be {n_ranks} × {n_ranks} whole numbers from 0 on, rows from each rank to "
            f"each; got shape {table.shape} of dtype {table.dtype}."
        )
    return table.astype(np.int64)


def block_layouts(counts: NDArray[np.int64]) -> list[Layout]:
    """Every rank has room for all rows, in order of their owners."""
    end = np.cumsum(counts).tolist()
    total = end[-1]
    return [
        Layout(rank, last - n_rows, last, n_rows, total, last - n_rows)
        for rank, (last, n_rows) in enumerate(zip(end, counts.tolist(), strict=True))
    ]


def exchange_layouts(table: NDArray[np.int64]) -> list[Layout]:
    """Every rank has the rows it gives, then room for those it gets from others."""
    layouts = []
    for rank in range(len(table)):
        given, got = table[rank], table[:, rank]
        begin, own = int(given[:rank].sum()), int(given[rank])
        n_given = int(given.sum())
        n_room = n_given + int(got.sum()) - own
        layouts.append(Layout(rank, begin, begin + own, n_given, n_room, int(got[:rank].sum())))
    return layouts


def exchange_numbering(table: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Rows of `alltoall_plan` in the order of `exchange_layouts`."""
    n_ranks = len(table)
    cells = np.split(np.arange(table.sum()), np.cumsum(table)[:-1])
    return [
        np.concatenate(
            cells[rank * n_ranks : (rank + 1) * n_ranks]
            + [cells[source * n_ranks + rank] for source in range(n_ranks) if source != rank]
        )
        for rank in range(n_ranks)
    ]


def _shared_by_all(n_ranks: int, owners: NDArray[Any]) -> Plan:
    shared = SimpleNamespace(
        pointer=n_ranks * np.arange(len(owners) + 1, dtype=np.int64),
        parts=np.tile(np.arange(n_ranks, dtype=np.int32), len(owners)),
        owners=owners,
        n_parts=n_ranks,
    )
    return expand_plan(shared)
