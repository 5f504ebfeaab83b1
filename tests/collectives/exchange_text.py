"""A small algorithm text that uses everything, and the same computed by plain Python.

Imported by the tests and by `mpi_job.py`, so that one text runs on every transport.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from daskpart.collectives import (
    MAX,
    SUM,
    Communicator,
    Reduction,
    allreduce,
    combine_rows,
    expand,
    expand_plan,
    reduce,
    reduce_plan,
)

RANK_COUNTS = (1, 2, 3, 4, 5, 8)
N_ITEMS = 40
EPOCHS = 2
QUANTITIES = (
    "messages_sent",
    "messages_received",
    "rows_sent",
    "rows_received",
    "bytes_sent",
    "bytes_received",
)


def weave(low, high):
    """Neither commutative nor associative: tells every order apart."""
    return (3 * low + 5 * high) % 1_000_003


WEAVE = Reduction("weave", weave, 0)


def random_connectivity(n_items: int, n_ranks: int, seed: int) -> SimpleNamespace:
    """Items touched by random ranks; some by none, some owned by a rank that lacks them."""
    random = np.random.default_rng(seed)
    touched = random.random((n_items, n_ranks)) < random.choice([0.0, 0.3, 0.7, 1.0], (n_items, 1))
    owners = random.integers(0, n_ranks, n_items)
    owners[~touched.any(axis=1) & (random.random(n_items) < 0.5)] = -1
    return SimpleNamespace(
        pointer=np.concatenate(([0], np.cumsum(touched.sum(axis=1)))).astype(np.int64),
        parts=np.nonzero(touched)[1].astype(np.int32),
        owners=owners.astype(np.int32),
        n_parts=n_ranks,
        touched=touched,
    )


def items_of_ranks(connectivity: SimpleNamespace) -> list[np.ndarray]:
    """Items that each rank touches or owns, in an order of its own."""
    random = np.random.default_rng(7)
    owned = connectivity.owners[:, None] == np.arange(connectivity.n_parts)
    held = connectivity.touched | owned
    return [random.permutation(np.flatnonzero(held[:, r])) for r in range(connectivity.n_parts)]


def first_rows(items: np.ndarray, rank: int) -> np.ndarray:
    """Rows of very unequal size, so that another order of adding gives other bits."""
    random = np.random.default_rng(rank)
    scale = 10.0 ** random.integers(-4, 5, (len(items), 1))
    return (random.standard_normal((len(items), 3)) * scale).astype(np.float32)


def shrink(rows: np.ndarray, factor: float, *, power: int) -> np.ndarray:
    """Overwrites its rows, as an `update` may."""
    rows *= np.float32(factor**power)
    return rows


def total(rows: np.ndarray) -> np.ndarray:
    """Two small sums in one array."""
    return np.array([rows.sum(dtype=np.float64), len(rows)])


def run_exchange(communicator: Communicator, connectivity: SimpleNamespace) -> dict[str, Any]:
    """Reduce, update, expand and fold for some epochs; rows, sums and counts at the end."""
    items = communicator.values(items_of_ranks(connectivity))
    ranks = communicator.values(list(range(communicator.n_ranks)))
    plans = [expand_plan(connectivity), reduce_plan(connectivity)]
    prepared_expand, prepared_reduce = communicator.prepare_all(plans, items)
    factor = communicator.replicated(0.5)
    rows = communicator.map(first_rows, items, ranks)
    sums = []
    for _ in range(EPOCHS):
        rows = reduce(communicator, prepared_reduce, rows)
        pending = communicator.post(prepared_reduce.rounds[0], rows, _pack_first_column)
        rows = communicator.update(shrink, rows, factor, power=2)
        rows = communicator.collect(pending, rows, _largest_of_first_column, reduction=MAX)
        rows = expand(communicator, prepared_expand, rows)
        total_sum = allreduce(communicator, communicator.map(total, rows), SUM)
        rows, total_sum = communicator.settle(rows, total_sum)
        sums.append(total_sum.result())
    gathered = communicator.gather(rows)
    counters = communicator.counters
    counts = {name: getattr(counters, name).copy() for name in QUANTITIES}
    labels = [(record.label, record.index) for record in counters.rounds]
    return {"rows": gathered, "sums": sums, "counts": counts, "labels": labels}


def _pack_first_column(rows: np.ndarray, positions: np.ndarray) -> np.ndarray:
    return rows[positions, :1]


def _largest_of_first_column(rows: np.ndarray, inbox: Any, *, reduction: Any) -> np.ndarray:
    rows[:, :1] = combine_rows(rows[:, :1].copy(), inbox, reduction=reduction)
    return rows


def run_reference(connectivity: SimpleNamespace) -> dict[str, Any]:
    """The same by dictionaries of rows, in rank order, one item after another."""
    held = items_of_ranks(connectivity)
    n_ranks = connectivity.n_parts
    rows = [
        dict(zip(items.tolist(), first_rows(items, rank), strict=True))
        for rank, items in enumerate(held)
    ]
    sums = []
    for _ in range(EPOCHS):
        _reduce_all(rows, connectivity, slice(None), np.add, 0.0)
        posted = [{item: row.copy() for item, row in of_rank.items()} for of_rank in rows]
        for of_rank in rows:
            for row in of_rank.values():
                row *= np.float32(0.25)
        _reduce_all(rows, connectivity, slice(0, 1), np.maximum, -np.inf, posted)
        for item, owner in enumerate(connectivity.owners):
            for rank in np.flatnonzero(connectivity.touched[item]):
                rows[rank][item] = rows[owner][item].copy()
        arrays = [_in_order(rows[rank], held[rank]) for rank in range(n_ranks)]
        result = total(arrays[0])
        for array in arrays[1:]:
            result = result + total(array)
        sums.append(result)
    return {"rows": arrays, "sums": sums}


def _in_order(of_rank: dict[int, np.ndarray], items: np.ndarray) -> np.ndarray:
    ordered = [of_rank[item] for item in items.tolist()]
    return np.array(ordered, dtype=np.float32).reshape(len(items), 3)


def _reduce_all(
    rows: list, connectivity: Any, columns: slice, combine: Any, identity: float, posted: Any = None
) -> None:
    sent = [dict(of_rank) for of_rank in (posted or rows)]
    for item, owner in enumerate(connectivity.owners):
        sharers = set(np.flatnonzero(connectivity.touched[item]).tolist())
        if owner < 0 or not sharers - {owner}:
            continue
        result = np.full_like(rows[owner][item][columns], identity)
        for rank in sorted(sharers | {owner}):
            row = rows[rank][item] if rank == owner else sent[rank][item]
            result = combine(result, row[columns])
        rows[owner][item] = rows[owner][item].copy()
        rows[owner][item][columns] = result


def expected_counts(connectivity: SimpleNamespace) -> dict[str, np.ndarray]:
    """What the plan says that `run_exchange` sends: rows of 3 and of 1 float32, and its folds."""
    n_ranks = connectivity.n_parts
    statistics = reduce_plan(connectivity).statistics()
    counts = {}
    for here, there in (("sent", "received"), ("received", "sent")):
        messages = statistics.per_rank(f"messages_{here}")
        back = statistics.per_rank(f"messages_{there}")
        rows, rows_back = statistics.per_rank(f"rows_{here}"), statistics.per_rank(f"rows_{there}")
        star = np.ones(n_ranks, dtype=np.int64)
        star[0] = n_ranks - 1
        counts[f"messages_{here}"] = EPOCHS * (2 * messages + back + star)
        counts[f"rows_{here}"] = EPOCHS * (2 * rows + rows_back)
        counts[f"bytes_{here}"] = EPOCHS * (16 * rows + 12 * rows_back + 16 * star)
    return counts


def assert_same_bits(one: dict[str, Any], other: dict[str, Any]) -> None:
    """Rows and sums are equal to the last bit."""
    for name in ("rows", "sums"):
        assert len(one[name]) == len(other[name])
        for left, right in zip(one[name], other[name], strict=True):
            assert left.dtype == right.dtype
            assert left.tobytes() == right.tobytes(), name


def blas_threads(value):
    """Threads that a product on this rank would take."""
    return max(each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas")


class WordlessError(Exception):
    """Raises another error in place of its words."""

    def __str__(self):
        raise ZeroDivisionError("no words")

    __repr__ = __str__


def fail_without_words(value):
    """Raises on the ranks whose value is odd."""
    if value % 2:
        raise WordlessError
    return value
