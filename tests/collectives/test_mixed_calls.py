"""Many small calls of all kinds in one batch: what one leaves on its way, no other takes."""

from __future__ import annotations

from functools import cache
from hashlib import sha256

import numpy as np
import pytest
from exchange_text import N_ITEMS, items_of_ranks, random_connectivity

from daskpart.collectives import (
    MAX,
    SUM,
    LocalCommunicator,
    expand,
    expand_plan,
    hypercube_allreduce,
    reduce,
    reduce_plan,
)
from daskpart.collectives.reduction import pack_rows, place_rows
from daskpart.errors import InputError

SHAPES = [((1,), np.float64), ((3,), np.float32), ((), np.int64), ((9000,), np.float64)]


def rows_of(items, rank, number):
    shape, dtype = SHAPES[number]
    random = np.random.default_rng([rank, number])
    rows = (100 * random.standard_normal((len(items), *shape))).astype(dtype)
    return np.asfortranarray(rows) if number == 1 else rows  # rows that do not lie whole


def first_row(rows):
    return rows[:1].copy() if len(rows) else np.zeros((1, *rows.shape[1:]), rows.dtype)


def with_first_row(rows, row):
    rows[:1] = row
    return rows


def run_mixed(communicator, connectivity, seed, n_calls):
    """Draw calls; rows that were posted stay on their way while others are sent and collected."""
    random = np.random.default_rng(seed)
    items = communicator.values(items_of_ranks(connectivity))
    ranks = communicator.values(list(range(communicator.n_ranks)))
    plans = communicator.prepare_all([expand_plan(connectivity), reduce_plan(connectivity)], items)
    states = [
        communicator.map(rows_of, items, ranks, number=number) for number in range(len(SHAPES))
    ]
    pending = {}
    for _ in range(n_calls):
        number = int(random.choice(len(SHAPES), p=[0.4, 0.3, 0.25, 0.05]))
        kind = random.choice(["expand", "expand", "swap", "reduce", "post", "collect"])
        if kind == "expand":
            states[number] = expand(communicator, plans[0], states[number])
        elif kind == "reduce":
            states[number] = reduce(communicator, plans[1], states[number], reduction=MAX)
        elif kind == "swap":
            shared = communicator.map(first_row, states[number])
            for reduction in random.choice([MAX, SUM], 2):
                shared = hypercube_allreduce(communicator, shared, reduction)
            states[number] = communicator.update(with_first_row, states[number], shared)
        elif kind == "post" and number not in pending:
            pending[number] = communicator.post(plans[0].rounds[0], states[number], pack_rows)
        elif pending:
            number, posted = pending.popitem()
            states[number] = communicator.collect(posted, states[number], place_rows)
    for number, posted in pending.items():
        states[number] = communicator.collect(posted, states[number], place_rows)
    communicator.settle(*states)
    rows = [communicator.gather(state) for state in states]
    traffic = communicator.counters.traffic
    counts = [traffic(quantity=name).tolist() for name in ("messages", "rows", "bytes")]
    digests = [[sha256(array.tobytes()).hexdigest() for array in arrays] for arrays in rows]
    return digests, counts


@cache
def one_after_another(n_ranks, seed, n_calls):
    """Digests of what the ranks have when one at a time has run them, and what they sent."""
    with LocalCommunicator(n_ranks, n_threads=1) as local:
        return run_mixed(local, random_connectivity(N_ITEMS, n_ranks, seed), seed, n_calls)


@pytest.mark.parametrize("n_ranks", [2, 3, 4, 5])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_calls_of_all_kinds_do_not_mix(make_communicator, n_ranks, seed, request):
    n_calls = 12 if "graph-processes" in request.node.name else 40  # there a call is many tasks
    connectivity = random_connectivity(N_ITEMS, n_ranks, seed)
    found = run_mixed(make_communicator(n_ranks), connectivity, seed, n_calls)
    assert found == one_after_another(n_ranks, seed, n_calls)


def unequal_rows(items, rank, *, odd):
    return np.full((len(items), 2), rank, np.float64 if rank in odd else np.float32)


@pytest.mark.parametrize("odd", [(), (0,), (1,), (2,), (0, 1)])
def test_rows_of_unequal_kinds(make_communicator, odd):
    """Ranks that disagree get the same on every transport: rows in their own dtype, or are told."""
    every = [np.arange(6)] * 3
    owners = np.array([0, 0, 1, 1, 2, 2])
    connectivity = random_connectivity(6, 3, 0)
    connectivity.touched[:] = True
    connectivity.pointer = np.arange(0, 19, 3)
    connectivity.parts, connectivity.owners = np.tile(np.arange(3, dtype=np.int32), 6), owners

    def outcome(communicator):
        items = communicator.values(every)
        ranks = communicator.values([0, 1, 2])
        plan = communicator.prepare(expand_plan(connectivity, owners=owners), items)
        rows = communicator.map(unequal_rows, items, ranks, odd=odd)
        try:
            return [a.tobytes() for a in communicator.gather(expand(communicator, plan, rows))]
        except InputError as error:
            assert "disagree in what they send" in str(error)  # which rank is first may differ
            return "told"

    with LocalCommunicator(3, n_threads=1) as local:
        assert outcome(make_communicator(3)) == outcome(local)
