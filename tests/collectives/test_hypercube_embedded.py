"""Embedded expand and reduce on every transport: same bits, the plan's own counts, clear errors."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from exchange_text import (
    N_ITEMS,
    RANK_COUNTS,
    WEAVE,
    first_rows,
    items_of_ranks,
    random_connectivity,
    weave,
)

from daskpart.collectives import (
    ANY,
    MAX,
    SUM,
    Inbox,
    LocalCommunicator,
    combine_rows,
    embed,
    expand,
    expand_allreduce,
    expand_plan,
    reduce,
    reduce_allreduce,
    reduce_plan,
    rows_for_payload,
)
from daskpart.collectives.embedded import ForwardingBuffer, combine_slots
from daskpart.collectives.routes import Arrivals, RankRoutes
from daskpart.errors import InputError

ROW_BYTES = 12  # three float32, as `first_rows` makes them


def whole_rows(items, rank):
    """Rows whose sums are exact in any order."""
    return np.random.default_rng(rank).integers(-99, 99, (len(items), 3))


def gram(rows):
    return rows.astype(np.float64).T @ rows


def start(communicator, connectivity, make_rows=first_rows):
    items = communicator.values(items_of_ranks(connectivity))
    ranks = communicator.values(list(range(communicator.n_ranks)))
    return items, communicator.map(make_rows, items, ranks)


def bits(arrays):
    return [(array.dtype, array.shape, array.tobytes()) for array in arrays]


def run_direct(connectivity, kind, make_rows=first_rows, **static):
    """What the point-to-point plan gives."""
    with LocalCommunicator(connectivity.n_parts, n_threads=1) as communicator:
        items, rows = start(communicator, connectivity, make_rows)
        plan = expand_plan(connectivity) if kind == "expand" else reduce_plan(connectivity)
        run = expand if kind == "expand" else reduce
        return communicator.gather(
            run(communicator, communicator.prepare(plan, items), rows, **static)
        )


def run_all(communicator, connectivity, aware):
    """Reduce and expand with payloads; rows, payloads and counts by label."""
    items, rows = start(communicator, connectivity)
    room = rows_for_payload(9 * 8, ROW_BYTES)
    plan = embed(expand_plan(connectivity), aware=aware, payload_rows=room)
    down = communicator.prepare(plan.reversed(), items, "down")
    up = communicator.prepare(plan, items, "up")
    rows, first = reduce_allreduce(
        communicator, down, rows, communicator.map(gram, rows), payload_reduction=SUM
    )
    middle = communicator.gather(rows)
    rows, second = expand_allreduce(
        communicator, up, rows, communicator.map(gram, rows), payload_reduction=MAX
    )
    found = {
        "middle": middle,
        "rows": communicator.gather(rows),
        "first": communicator.gather(first),
        "second": communicator.gather(second),
    }
    return found, plan


@pytest.mark.parametrize("n_ranks", RANK_COUNTS)
def test_same_bits_and_counts_on_every_transport(make_communicator, n_ranks):
    communicator = make_communicator(n_ranks)
    for aware in (True, False):
        communicator.counters.reset()
        check_bits_and_counts(communicator, n_ranks, aware)


def check_bits_and_counts(communicator, n_ranks, aware):
    connectivity = random_connectivity(N_ITEMS, n_ranks, seed=n_ranks)
    found, plan = run_all(communicator, connectivity, aware)
    with LocalCommunicator(n_ranks, n_threads=1) as reference:
        expected, _ = run_all(reference, connectivity, aware)
    for name, arrays in expected.items():
        assert bits(found[name]) == bits(arrays), name
    counters = communicator.counters
    for label, counted in (("up", plan.statistics()), ("down", plan.reversed().statistics())):
        measured = counters.of(label)
        for side in ("sent", "received"):
            rows = counted.per_rank(f"rows_{side}")
            np.testing.assert_array_equal(measured[f"rows_{side}"], rows)
            np.testing.assert_array_equal(measured[f"bytes_{side}"], rows * ROW_BYTES)
            messages = counted.per_rank(f"messages_{side}")
            np.testing.assert_array_equal(measured[f"messages_{side}"], messages)
    np.testing.assert_array_equal(counters.traffic("up"), plan.traffic())


@pytest.mark.parametrize("n_ranks", [*RANK_COUNTS, 6, 7, 11])
@pytest.mark.parametrize("aware", [True, False])
def test_results_are_those_of_point_to_point(n_ranks, aware):
    connectivity = random_connectivity(N_ITEMS, n_ranks, seed=n_ranks)
    for kind, plan, run in (
        ("expand", expand_plan(connectivity), expand),
        ("reduce", reduce_plan(connectivity), reduce),
    ):
        for every_message in (True, False):
            exact = kind == "expand" or not aware
            make_rows = first_rows if exact else whole_rows
            with LocalCommunicator(n_ranks, n_threads=1) as communicator:
                items, rows = start(communicator, connectivity, make_rows)
                embedded = embed(plan, aware=aware, every_message=every_message)
                prepared = communicator.prepare(embedded, items)
                found = communicator.gather(run(communicator, prepared, rows))
                counted = communicator.counters.of(kind)
            assert bits(found) == bits(run_direct(connectivity, kind, make_rows))
            messages = embedded.statistics().per_rank("messages_sent")
            assert counted["messages_sent"].tolist() == messages.tolist()


@pytest.mark.parametrize("n_ranks", [2, 3, 4, 5, 8, 13])
def test_copies_combine_where_they_meet_the_lower_ranks_first(n_ranks):
    connectivity = random_connectivity(N_ITEMS, n_ranks, seed=n_ranks)
    with LocalCommunicator(n_ranks) as communicator:
        items, rows = start(communicator, connectivity, whole_rows)
        before = communicator.gather(rows)
        prepared = communicator.prepare(embed(reduce_plan(connectivity)), items)
        found = reduce(communicator, prepared, rows, reduction=WEAVE)
        found = communicator.gather(found)
    held = items_of_ranks(connectivity)
    for item, owner in enumerate(connectivity.owners.tolist()):
        sharers = set(np.flatnonzero(connectivity.touched[item]).tolist()) - {owner}
        if sharers:
            place = [
                int(np.flatnonzero(items == item)[0]) if item in items else -1 for items in held
            ]
            own = {rank: before[rank][place[rank]] for rank in sharers | {owner}}
            expected = woven(own, owner, n_ranks)
            assert found[owner][place[owner]].tolist() == expected.tolist()


def woven(rows, owner, n_ranks):
    """One item's rows walk to the owner: fold in, bits from the highest to the lowest, fold out."""
    size = 1 << (n_ranks.bit_length() - 1)
    travelling = {rank: row for rank, row in rows.items() if rank != owner}
    bits_left = [1 << bit for bit in reversed(range(size.bit_length() - 1))]
    steps = [lambda r: r % size]
    steps += [lambda r, bit=bit: (r & ~bit) | (owner % size & bit) for bit in bits_left]
    arrived = {}
    for step in [*steps, lambda r: owner]:
        for rank in sorted(travelling):
            to = step(rank)
            if to == rank:
                continue
            row = travelling.pop(rank)
            if to == owner:
                arrived[rank] = row
            elif to in travelling:
                low, high = sorted((rank, to))
                pair = {rank: row, to: travelling[to]}
                travelling[to] = weave(pair[low], pair[high])
            else:
                travelling[to] = row
    in_rank_order = [row for _, row in sorted({**arrived, owner: rows[owner]}.items())]
    return functools.reduce(weave, in_rank_order)


def test_unequal_floats_add_up_in_another_order_than_point_to_point():
    """So the documentation of an aware reduce says; the sums themselves agree."""
    connectivity = random_connectivity(N_ITEMS, 8, seed=8)
    with LocalCommunicator(8) as communicator:
        found = run_all(communicator, connectivity, aware=True)[0]["middle"]
    direct = run_direct(connectivity, "reduce")
    assert bits(found) != bits(direct)
    for one, other in zip(found, direct, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("n_ranks", RANK_COUNTS)
def test_payloads_are_reduced_and_equal_on_all_ranks(n_ranks):
    connectivity = random_connectivity(N_ITEMS, n_ranks, seed=n_ranks)
    with LocalCommunicator(n_ranks) as communicator:
        _, rows = start(communicator, connectivity)
        given = communicator.gather(communicator.map(gram, rows))
        found = run_all(communicator, connectivity, aware=True)[0]
    assert len(set(map(str, bits(found["first"])))) == 1
    assert len(set(map(str, bits(found["second"])))) == 1
    np.testing.assert_allclose(found["first"][0], sum(given), rtol=1e-12)
    after = [gram(rows) for rows in found["middle"]]
    np.testing.assert_array_equal(found["second"][0], np.max(after, axis=0))


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 8, 13])
def test_payloads_combine_the_lower_ranks_first(n_ranks):
    """An expand pairs neighbours first, a reduce the halves of the cube first."""
    connectivity = random_connectivity(N_ITEMS, n_ranks, seed=n_ranks)
    plan = embed(expand_plan(connectivity), payload_rows=rows_for_payload(8, ROW_BYTES))
    size = 1 << (n_ranks.bit_length() - 1)
    numbers = list(range(1, n_ranks + 1))
    folded = [
        weave(number, numbers[rank + size]) if rank + size < n_ranks else number
        for rank, number in enumerate(numbers[:size])
    ]

    def pairs_first(part):
        middle = len(part) // 2
        return weave(pairs_first(part[:middle]), pairs_first(part[middle:])) if middle else part[0]

    def halves_first(part):
        return weave(halves_first(part[::2]), halves_first(part[1::2])) if part[1:] else part[0]

    with LocalCommunicator(n_ranks) as communicator:
        items, rows = start(communicator, connectivity)
        for routed, run, expected in (
            (plan, expand_allreduce, pairs_first(folded)),
            (plan.reversed(), reduce_allreduce, halves_first(folded)),
        ):
            prepared = communicator.prepare(routed, items)
            values = communicator.values(numbers)
            rows, found = run(communicator, prepared, rows, values, payload_reduction=WEAVE)
            assert communicator.gather(found) == [expected] * n_ranks


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4])
def test_a_payload_of_any_is_0_or_1(n_ranks):
    connectivity = random_connectivity(N_ITEMS, n_ranks, seed=n_ranks)
    plan = embed(expand_plan(connectivity), payload_rows=rows_for_payload(16, ROW_BYTES))
    with LocalCommunicator(n_ranks) as communicator:
        items, rows = start(communicator, connectivity)
        prepared = communicator.prepare(plan, items)
        given = communicator.values([np.array([5, 0])] * n_ranks)
        _, found = expand_allreduce(communicator, prepared, rows, given, payload_reduction=ANY)
        for each in communicator.gather(found):
            np.testing.assert_array_equal(each, [1, 0])


@pytest.mark.parametrize("embeds", [True, False])
def test_rows_of_any_are_0_or_1_whoever_has_them(embeds):
    """Item 1 is of its owner alone, and comes out as the item does that others send."""
    connectivity = random_connectivity(2, 2, seed=0)
    connectivity.pointer, connectivity.parts = np.array([0, 2, 3]), np.array([0, 1, 0], np.int32)
    connectivity.owners = np.zeros(2, np.int32)
    plan = reduce_plan(connectivity)
    with LocalCommunicator(2) as communicator:
        items = communicator.values([np.arange(2)] * 2)
        prepared = communicator.prepare(embed(plan) if embeds else plan, items)
        rows = communicator.values([np.array([5, 5]), np.array([7, 7])])
        found = communicator.gather(reduce(communicator, prepared, rows, reduction=ANY))
    assert found[0].tolist() == [1, 1]


def test_a_step_that_runs_twice_finds_its_slots_unchanged():
    """A task graph may run a step again, so it works on `ForwardingBuffer.copy`."""
    rows, slots = np.ones((2, 3)), np.array([0, 1])
    buffer = ForwardingBuffer(rank=0, n_slots=2, payload_rows=0, rows=rows)
    none, first, second = slots[:0], slots[:1], slots[1:]
    # the first row meets a copy, the second ends here
    arrivals = [[Arrivals(none, none, first, first, second, np.array([7]))]]
    routes = RankRoutes(0, slots, none, none, [], [], [], arrivals)
    inbox = Inbox(0, [1], [slots], [np.full((2, 3), 5.0)])
    results = [
        combine_slots(buffer.copy(), inbox, routes, round_index=0, reduction=SUM) for _ in range(2)
    ]
    for result in results:
        assert result.rows[0].tolist() == [6.0] * 3
        assert [(source, at.tolist()) for source, at, _ in result.arrived] == [(1, [7])]
    assert rows.tolist() == [[1.0] * 3] * 2
    assert buffer.arrived == []


def test_numbers_ride_too_and_stay_numbers():
    connectivity = random_connectivity(N_ITEMS, 5, seed=0)
    with LocalCommunicator(5) as communicator:
        items, rows = start(communicator, connectivity)
        plan = embed(expand_plan(connectivity), payload_rows=rows_for_payload(8, ROW_BYTES))
        prepared = communicator.prepare(plan, items)
        numbers = communicator.values([1, 2, 3, 4, 5])
        _, total = expand_allreduce(communicator, prepared, rows, numbers)
        assert communicator.gather(total) == [15] * 5
        assert type(communicator.gather(total)[0]) is int


def test_a_text_brings_its_own_pack_and_combine():
    """A state that is no array, another reduction, and a keyword for the combine."""
    connectivity = random_connectivity(N_ITEMS, 6, seed=3)
    with LocalCommunicator(6) as communicator:
        items, rows = start(communicator, connectivity)
        state = communicator.map(_boxed, rows)
        prepared = communicator.prepare(embed(reduce_plan(connectivity)), items)
        found = reduce(
            communicator, prepared, state, _pack_box, _combine_box, reduction=MAX, factor=2
        )
        found = [box["rows"] for box in communicator.gather(found)]
        given = communicator.map(_boxed, rows)
        with pytest.raises(InputError, match=r"factor= .* pass those by position"):
            reduce(communicator, prepared, given, _pack_box, _combine_box, factor=rows)
    largest = run_direct(connectivity, "reduce", reduction=MAX)
    assert bits(found) == bits([2 * rows for rows in largest])


def _boxed(rows):
    return {"rows": rows.copy()}


def _pack_box(box, positions):
    return box["rows"][positions]


def _combine_box(box, inbox, *, factor):
    return {"rows": factor * combine_rows(box["rows"], inbox, reduction=MAX)}


def test_the_state_is_spent_and_what_the_caller_holds_is_not_overwritten():
    connectivity = random_connectivity(N_ITEMS, 4, seed=4)
    with LocalCommunicator(4) as communicator:
        held = items_of_ranks(connectivity)
        given = [first_rows(items, rank) for rank, items in enumerate(held)]
        before = bits(given)
        rows = communicator.values(given)
        plan = embed(expand_plan(connectivity))
        prepared = communicator.prepare(plan, communicator.values(held))
        expand(communicator, prepared, rows)
        assert bits(given) == before
        with pytest.raises(InputError, match="given to update or collect before"):
            expand(communicator, prepared, rows)
