"""The dense collectives against numpy, on every transport, with the counts of their plans."""

from __future__ import annotations

import math

import numpy as np
import pytest

from daskpart.collectives import (
    ANY,
    MAX,
    SUM,
    LocalCommunicator,
    allgather,
    allreduce,
    alltoall,
    broadcast,
    embed,
    hypercube_allreduce,
    reduce_scatter,
    sparse_allreduce,
)
from daskpart.collectives.dense import allgather_plan, alltoall_plan, broadcast_plan
from daskpart.errors import InputError

RANK_COUNTS = (1, 2, 3, 4, 5, 8)
ALGORITHMS = ("hypercube", "direct")
BLOCK = (3, 2)


@pytest.fixture(params=ALGORITHMS)
def algorithm(request):
    return request.param


def block(rank, shape=BLOCK):
    random = np.random.default_rng(rank)
    return (random.standard_normal(shape) * 10.0 ** random.integers(-4, 5, shape)).astype("f4")


def check_counts(communicator, label, plan, algorithm, row_bytes):
    planned = plan if algorithm == "direct" else embed(plan, every_message=False)
    counted, expected = communicator.counters.of(label), planned.statistics()
    for side in ("sent", "received"):
        for what in ("messages", "rows"):
            np.testing.assert_array_equal(
                counted[f"{what}_{side}"], expected.per_rank(f"{what}_{side}")
            )
        rows = expected.per_rank(f"rows_{side}")
        np.testing.assert_array_equal(counted[f"bytes_{side}"], row_bytes * rows)


def same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_array_equal(one, other)


def one_each(n_ranks):
    return allgather_plan(np.ones(n_ranks, int))


def unequal_counts(n_ranks):
    return [(5 * rank + 2) % 4 for rank in range(n_ranks)]  # some ranks have no rows


def check_allgather(communicator, algorithm, n_ranks):
    blocks = [block(rank) for rank in range(n_ranks)]
    found = allgather(communicator, communicator.values(blocks), algorithm=algorithm)
    same(communicator.gather(found), [np.stack(blocks)] * n_ranks)
    check_counts(communicator, "allgather", one_each(n_ranks), algorithm, blocks[0].nbytes)


def check_allgather_of_unequal_rows(communicator, algorithm, n_ranks):
    counts = unequal_counts(n_ranks)
    blocks = [block(rank, (n_rows, 2)) for rank, n_rows in enumerate(counts)]
    found = allgather(communicator, communicator.values(blocks), counts, algorithm)
    same(communicator.gather(found), [np.concatenate(blocks)] * n_ranks)
    check_counts(communicator, "allgather", allgather_plan(np.array(counts)), algorithm, 8)


def check_reduce_scatter(communicator, algorithm, n_ranks):
    given = [block(rank, (n_ranks, *BLOCK)) for rank in range(n_ranks)]
    values = communicator.values(given)
    found = communicator.gather(reduce_scatter(communicator, values, algorithm=algorithm))
    in_rank_order = given[0].copy()
    for array in given[1:]:
        in_rank_order = in_rank_order + array
    for one, other in zip(found, in_rank_order, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-2)
    if algorithm == "direct":
        same(found, in_rank_order)
    else:
        with LocalCommunicator(n_ranks, n_threads=1) as reference:
            again = reduce_scatter(reference, reference.values(given))
            same(found, reference.gather(again))
    plan = one_each(n_ranks).reversed()
    check_counts(communicator, "reduce-scatter", plan, algorithm, 4 * np.prod(BLOCK))
    largest = reduce_scatter(communicator, values, reduction=MAX, algorithm=algorithm)
    same(communicator.gather(largest), np.max(given, axis=0))


def check_reduce_scatter_of_unequal_rows(communicator, algorithm, n_ranks):
    counts = unequal_counts(n_ranks)
    given = [np.random.default_rng(r).integers(-9, 9, (sum(counts), 2)) for r in range(n_ranks)]
    found = reduce_scatter(communicator, communicator.values(given), counts, SUM, algorithm)
    expected = np.split(np.sum(given, axis=0), np.cumsum(counts)[:-1])
    same(communicator.gather(found), expected)


def check_alltoall(communicator, algorithm, n_ranks):
    given = [block(rank, (n_ranks, *BLOCK)) for rank in range(n_ranks)]
    found = alltoall(communicator, communicator.values(given), algorithm=algorithm)
    same(communicator.gather(found), np.stack(given).swapaxes(0, 1))
    plan = alltoall_plan(np.ones((n_ranks, n_ranks), int))
    check_counts(communicator, "alltoall", plan, algorithm, 4 * np.prod(BLOCK))


def check_alltoall_of_unequal_rows(communicator, algorithm, n_ranks):
    counts = np.random.default_rng(n_ranks).integers(0, 4, (n_ranks, n_ranks))
    given = [block(rank, (n_rows, 2)) for rank, n_rows in enumerate(counts.sum(axis=1))]
    pieces = [np.split(g, np.cumsum(c)[:-1]) for g, c in zip(given, counts, strict=True)]
    found = alltoall(communicator, communicator.values(given), counts, algorithm)
    expected = [np.concatenate([of[rank] for of in pieces]) for rank in range(n_ranks)]
    same(communicator.gather(found), expected)
    check_counts(communicator, "alltoall", alltoall_plan(counts), algorithm, 8)


def check_broadcast(communicator, algorithm, n_ranks):
    for root in {0, n_ranks // 2, n_ranks - 1}:
        values = communicator.values([block(r) if r == root else None for r in range(n_ranks)])
        communicator.counters.reset()
        found = broadcast(communicator, values, root, algorithm)
        same(communicator.gather(found), [block(root)] * n_ranks)
        plan = broadcast_plan(n_ranks, root)
        check_counts(communicator, "broadcast", plan, algorithm, block(root).nbytes)


CHECKS = (
    check_allgather,
    check_allgather_of_unequal_rows,
    check_reduce_scatter,
    check_reduce_scatter_of_unequal_rows,
    check_alltoall,
    check_alltoall_of_unequal_rows,
    check_broadcast,
)


@pytest.mark.parametrize("n_ranks", RANK_COUNTS)
def test_every_collective_on_every_transport(make_communicator, n_ranks, request):
    """One communicator for all, as starting the ranks takes longer than the collectives."""
    communicator = make_communicator(n_ranks)
    in_turn = "graph-processes" in request.node.name  # there a message is a task of a worker
    for place, check in enumerate(CHECKS):
        for algorithm in ALGORITHMS[place % 2 :: 2] if in_turn else ALGORITHMS:
            communicator.counters.reset()
            check(communicator, algorithm, n_ranks)


def test_a_call_that_fails_leaves_the_collective_usable(make_communicator):
    communicator = make_communicator(2)
    for call in (allgather, reduce_scatter, alltoall):
        widths = communicator.values([np.zeros((2, 2)), np.zeros((2, 4))])
        with pytest.raises(InputError, match="Ranks 0 and 1 disagree"):
            communicator.gather(call(communicator, widths))
        rows = communicator.values([np.ones((2, 2))] * 2)
        assert len(communicator.gather(call(communicator, rows))) == 2


# -- an algorithm text of a user's own ---


def k_means(communicator, points, n_clusters, n_iterations):
    """Lloyd's algorithm: each rank has its points, all have the centres."""
    first = communicator.map(_first_points, points, n_clusters=n_clusters)
    centres = broadcast(communicator, first)
    for _ in range(n_iterations):
        sums = communicator.map(_cluster_sums, points, centres)
        centres = communicator.map(_means, hypercube_allreduce(communicator, sums), centres)
        communicator.settle(centres)
    return communicator.gather(centres)[0]


def _first_points(points, *, n_clusters):
    return points[:n_clusters].copy()


def _cluster_sums(points, centres):
    nearest = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    members = nearest == np.arange(len(centres))[:, None]
    return np.column_stack((members @ points, members.sum(axis=1)))


def _means(sums, centres):
    return np.where(sums[:, -1:] > 0, sums[:, :-1] / np.maximum(sums[:, -1:], 1), centres)


def test_k_means_is_a_short_text(make_communicator):
    random = np.random.default_rng(0)
    points = random.normal(size=(60, 2)) + 8 * random.integers(0, 3, (60, 1))
    shares = np.split(points, [20, 30])
    communicator = make_communicator(3)
    found = k_means(communicator, communicator.values(shares), n_clusters=3, n_iterations=5)
    expected = points[:3].copy()
    for _ in range(5):
        expected = _means(_cluster_sums(points, expected), expected)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("n_ranks", [1, 4, 7])
def test_numbers(algorithm, n_ranks):
    with LocalCommunicator(n_ranks) as communicator:
        numbers = communicator.values(list(range(n_ranks)))
        gathered = communicator.gather(allgather(communicator, numbers, algorithm=algorithm))
        assert [array.tolist() for array in gathered] == [list(range(n_ranks))] * n_ranks
        sent = communicator.gather(broadcast(communicator, numbers, n_ranks - 1, algorithm))
        assert sent == [n_ranks - 1] * n_ranks and type(sent[0]) is int
        rows = communicator.values([np.arange(n_ranks)] * n_ranks)
        summed = communicator.gather(reduce_scatter(communicator, rows, algorithm=algorithm))
        assert summed == [n_ranks * rank for rank in range(n_ranks)] and type(summed[0]) is int


@pytest.mark.parametrize("n_ranks", [2, 4, 8, 16])
def test_messages_on_a_power_of_two(n_ranks):
    """Recursive doubling and halving: log2 K messages a rank, K - 1 blocks; a binomial tree."""
    n_rounds = n_ranks.bit_length() - 1
    plan = embed(one_each(n_ranks), every_message=False)
    for routed in (plan, plan.reversed()):
        counted = routed.statistics()
        assert counted.per_rank("messages_sent").tolist() == [n_rounds] * n_ranks
        assert counted.per_rank("rows_sent").tolist() == [n_ranks - 1] * n_ranks
    for root in range(n_ranks):
        tree = embed(broadcast_plan(n_ranks, root), every_message=False)
        assert [entry.n_messages for entry in tree.rounds] == [2**i for i in range(n_rounds)]
        assert tree.total_rows == n_ranks - 1


def test_what_was_given_is_not_overwritten_and_plans_are_kept(algorithm):
    with LocalCommunicator(4) as communicator:
        given = [block(rank, (4, 2)) for rank in range(4)]
        before = [array.copy() for array in given]
        values = communicator.values(given)
        prepare, calls = communicator.prepare, []
        communicator.prepare = lambda *given: calls.append(given) or prepare(*given)
        for _ in range(2):  # `values` is not spent either
            allgather(communicator, values, algorithm=algorithm)
            reduce_scatter(communicator, values, algorithm=algorithm)
            alltoall(communicator, values, algorithm=algorithm)
            broadcast(communicator, values, 2, algorithm)
        assert len(calls) == 4
        same(given, before)
        results = communicator.gather(broadcast(communicator, values, 2, algorithm))
        results[0][:] = 0
        same(given, before)


def test_bad_input(algorithm):
    with LocalCommunicator(3) as communicator:
        rows = communicator.values([np.zeros((3, 2))] * 3)
        for call in (allgather, reduce_scatter):
            with pytest.raises(InputError, match="3 whole numbers"):
                call(communicator, rows, [1, 2])
            with pytest.raises(InputError, match="3 whole numbers"):
                call(communicator, rows, [3, 3, -1])
            with pytest.raises(InputError, match="3 whole numbers"):
                call(communicator, rows, [3, 3, math.nan])
            with pytest.raises(InputError, match=r"Rank [012] gave an array of shape"):
                call(communicator, rows, [3, 4, 3], algorithm=algorithm)
        with pytest.raises(InputError, match="3 × 3 whole numbers"):
            alltoall(communicator, rows, np.ones((2, 2), int))
        with pytest.raises(InputError, match="Rank 0 gave an array of shape"):
            alltoall(communicator, communicator.values([np.zeros(2)] * 3), algorithm=algorithm)
        for call in (allreduce, reduce_scatter, hypercube_allreduce, sparse_allreduce):
            with pytest.raises(InputError, match="reduction is 'sum': give SUM, MAX"):
                call(communicator, rows, reduction="sum")
        for root in (3, -1, 0.5, "0", True):
            with pytest.raises(InputError, match="root is"):
                broadcast(communicator, rows, root)
        for nothing in (None, {}, 2**70):
            with pytest.raises(InputError, match="Rank 1, the root, holds"):
                values = communicator.values([1, nothing, 1])
                broadcast(communicator, values, 1, algorithm)
        words = communicator.values([np.array(["ab", "cd", "ef"])] * 3)
        with pytest.raises(InputError, match="dtype <U2 don't combine"):
            reduce_scatter(communicator, words, algorithm=algorithm)
        for dtype, reduction in (([("row", int)], SUM), ([("row", int)], ANY), ("M8[s]", SUM)):
            values = communicator.values([np.zeros(3, dtype)] * 3)
            with pytest.raises(InputError, match="don't combine"):
                reduce_scatter(communicator, values, reduction=reduction, algorithm=algorithm)
        with pytest.raises(InputError, match="use one of 'hypercube', 'direct'"):
            allgather(communicator, rows, algorithm="ring")
        dtypes = communicator.values([np.zeros(3), np.zeros(3), np.zeros(3, int)])
        for call in (allgather, reduce_scatter, alltoall):
            with pytest.raises(InputError, match=r"Ranks \d and \d disagree"):
                call(communicator, dtypes, algorithm=algorithm)
        widths = communicator.values([np.zeros((3, 2)), np.zeros((3, 4)), np.zeros((3, 2))])
        for call in (allgather, reduce_scatter, alltoall):
            with pytest.raises(InputError, match=r"Ranks \d and \d disagree"):
                call(communicator, widths, algorithm=algorithm)


@pytest.mark.parametrize("time", [np.datetime64(7, "ns"), np.timedelta64(5, "s")])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_times_keep_their_unit(algorithm, time):
    with LocalCommunicator(3) as communicator:
        own, of_all = (
            communicator.values([time] * 3),
            communicator.values([np.array([time] * 3)] * 3),
        )
        for found in (
            communicator.gather(broadcast(communicator, own, 1, algorithm))[2],
            communicator.gather(reduce_scatter(communicator, of_all, None, MAX, algorithm))[2],
            allreduce(communicator, own, MAX).result(),
        ):
            assert (found, found.dtype) == (time, time.dtype)
