"""Plans against naive Python on random transfers: messages, slices, duality, counts and prices."""

from __future__ import annotations

import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskpart.collectives import Plan, Round
from daskpart.errors import InputError, ReadError


@st.composite
def transfers(draw):
    """(n_ranks, n_items, distinct (source, destination, item) triples)."""
    n_ranks = draw(st.integers(1, 6))
    n_items = draw(st.integers(1, 8))
    triple = st.tuples(
        st.integers(0, n_ranks - 1), st.integers(0, n_ranks - 1), st.integers(0, n_items - 1)
    ).filter(lambda entry: entry[0] != entry[1])
    triples = draw(st.lists(triple, unique=True, max_size=40)) if n_ranks > 1 else []
    return n_ranks, n_items, triples


def make_round(n_ranks, triples):
    source, destination, items = np.array(triples, dtype=np.int64).reshape(-1, 3).T
    return Round.from_transfers(n_ranks, source, destination, items)


def messages_of(entry):
    return {
        (int(entry.source[m]), int(entry.destination[m])): entry.items[
            entry.pointer[m] : entry.pointer[m + 1]
        ].tolist()
        for m in range(entry.n_messages)
    }


def naive_messages(triples):
    messages: dict[tuple[int, int], list[int]] = {}
    for source, destination, item in sorted(triples):
        messages.setdefault((source, destination), []).append(item)
    return messages


@given(transfers())
def test_transfers_become_sorted_messages(drawn):
    n_ranks, _, triples = drawn
    entry = make_round(n_ranks, triples)
    expected = naive_messages(triples)
    assert messages_of(entry) == expected
    assert list(messages_of(entry)) == sorted(expected)
    assert (entry.n_messages, entry.n_rows) == (len(expected), len(triples))
    assert (entry.items.dtype, entry.pointer.dtype) == (np.int32, np.int64)


@given(transfers())
def test_reversed_swaps_and_returns(drawn):
    n_ranks, _, triples = drawn
    entry = make_round(n_ranks, triples)
    back = {(d, s): items for (s, d), items in messages_of(entry).items()}
    assert messages_of(entry.reversed()) == back
    assert entry.reversed().reversed() == entry


@given(transfers())
def test_slices_of_ranks_mirror_each_other(drawn):
    n_ranks, _, triples = drawn
    entry = make_round(n_ranks, triples)
    sent, received = {}, {}
    for rank in range(n_ranks):
        own = entry.of_rank(rank)
        assert own.sources.tolist() == sorted(own.sources.tolist())
        for i, destination in enumerate(own.destinations.tolist()):
            items = own.out_items[own.out_pointer[i] : own.out_pointer[i + 1]]
            sent[rank, destination] = items.tolist()
        for i, source in enumerate(own.sources.tolist()):
            items = own.in_items[own.in_pointer[i] : own.in_pointer[i + 1]]
            received[source, rank] = items.tolist()
    assert sent == received == naive_messages(triples)


def test_the_slice_of_a_rank_takes_memory_for_its_own_messages_alone(least_peak):
    n_ranks = 300
    source, destination = (ends.ravel() for ends in np.indices((n_ranks, n_ranks)))
    proper = source != destination
    entry = Round.from_transfers(
        n_ranks, source[proper], destination[proper], np.zeros(proper.sum(), np.int32)
    )
    entry.of_rank(0)  # makes ready what all slices share
    _, peak = least_peak(lambda: entry.of_rank(1))
    assert peak < entry.n_messages  # bytes: one for each message of the round would be as many


@given(transfers(), transfers())
def test_statistics_and_price_against_naive(one, other):
    n_ranks = max(one[0], other[0])
    rounds = [make_round(n_ranks, one[2]), make_round(n_ranks, other[2])]
    plan = Plan("expand", 8, rounds)
    statistics = plan.statistics()
    alpha, beta, row_bytes = 1e-5, 1e-9, 400
    price = 0.0
    for index, triples in enumerate((one[2], other[2])):
        pairs = {(s, d) for s, d, _ in triples}
        counts = {
            "messages_sent": Counter(s for s, _ in pairs),
            "messages_received": Counter(d for _, d in pairs),
            "rows_sent": Counter(s for s, _, _ in triples),
            "rows_received": Counter(d for _, d, _ in triples),
        }
        slowest = 0.0
        for rank in range(n_ranks):
            for name, count in counts.items():
                assert getattr(statistics, name)[index, rank] == count[rank]
            for side in ("sent", "received"):
                rows = counts[f"rows_{side}"][rank]
                seconds = alpha * counts[f"messages_{side}"][rank] + beta * row_bytes * rows
                slowest = max(slowest, seconds)
        price += slowest
    assert plan.predicted_seconds(alpha, beta, row_bytes) == pytest.approx(price)
    assert statistics.rows_sent.sum() == plan.total_rows == len(one[2]) + len(other[2])
    assert statistics.messages_sent.sum() == plan.total_messages
    traffic = plan.traffic()
    np.testing.assert_array_equal(traffic.sum(axis=1), statistics.per_rank("rows_sent"))
    np.testing.assert_array_equal(traffic.sum(axis=0), statistics.per_rank("rows_received"))


@given(transfers())
def test_reversed_plan_is_its_dual(drawn):
    n_ranks, n_items, triples = drawn
    second = make_round(n_ranks, triples[: len(triples) // 2])
    plan = Plan("expand", n_items, [make_round(n_ranks, triples), second])
    dual = plan.reversed()
    assert dual.kind == "reduce"
    assert dual.rounds[0] == second.reversed()
    assert dual.reversed() == plan
    here, there = plan.statistics(), dual.statistics()
    for quantity in ("messages", "rows"):
        sent, received = getattr(here, f"{quantity}_sent"), getattr(here, f"{quantity}_received")
        np.testing.assert_array_equal(sent, getattr(there, f"{quantity}_received")[::-1])
        np.testing.assert_array_equal(received, getattr(there, f"{quantity}_sent")[::-1])


def test_known_price():
    """0 sends 3 rows to 1 and 1 row to 2: two messages and 4 rows of 8 bytes at rank 0."""
    entry = make_round(3, [(0, 1, 0), (0, 1, 1), (0, 1, 2), (0, 2, 1)])
    plan = Plan("expand", 3, [entry, entry.reversed()])
    assert plan.predicted_seconds(1.0, 0.5, 8) == 2 * (2 * 1.0 + 0.5 * 8 * 4)


def test_plans_travel_and_print(tmp_path):
    plan = Plan("reduce", 9, [make_round(4, [(0, 1, 3), (2, 1, 8)]), make_round(4, [])])
    _ = plan.rounds[0].reversed()  # fills what is cached, which must not travel
    assert pickle.loads(pickle.dumps(plan)) == plan
    plan.save(tmp_path / "plan")
    assert Plan.load(tmp_path / "plan") == plan
    assert "ranks=4" in repr(plan) and "rows=2" in repr(plan)
    assert "reduce plan" in plan._repr_html_() and "<table>" in plan._repr_html_()
    assert "messages sent" in repr(plan.statistics())
    large = Plan("expand", 1_000_000, [make_round(1, [])])
    assert "expand plan</b>, 1,000,000 items<table>" in large._repr_html_()
    assert repr(large.statistics()).startswith("PlanStatistics: 1 rank, 1 round\n")
    assert plan.statistics().to_dict()["rows_received"] == {"total": 2, "mean": 0.5, "max": 2}
    for content in (b"no plan", (tmp_path / "plan").read_bytes()[:200]):
        (tmp_path / "other.npz").write_bytes(content)
        with pytest.raises(ReadError, match=r"other\.npz cannot be read"):
            Plan.load(tmp_path / "other.npz")


def test_rounds_too_wide_for_one_sort_key():
    """Ranks and items so many that they do not fit one int64 key are sorted column by column."""
    n_ranks, last = 2**17, 2**31 - 2
    entry = Round.from_transfers(n_ranks, [5, 5, 0], [7, 7, n_ranks - 1], [last, 2, 1])
    assert messages_of(entry) == {(0, n_ranks - 1): [1], (5, 7): [2, last]}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (([0], [0], [0, 1], [3]), "Rank 0 would send to itself"),
        (([0], [3], [0, 1], [3]), "names ranks 0..3"),
        (([1, 0], [0, 1], [0, 1, 2], [3, 3]), "order of"),
        (([0, 0], [1, 1], [0, 1, 2], [3, 3]), "order of"),
        (([0], [1], [0, 2], [4, 3]), "rising order"),
        (([0], [1], [0, 2], [4, 4]), "each once"),
        (([0], [1], [0, 1], [2**32 + 3]), "below 2"),
        (([0], [1], [0, 1], [3.5]), "whole numbers"),
        (([0], [1], [0, 2], [3]), "rise from 0"),
        (([0], [1], [0], [3]), "pointer one longer"),
        (([0], [1], [0, 1.5], [3]), "pointer entry 1 is 1.5"),
        (([[0]], [[1]], [0, 1], [3]), r"give one number each, got shape \(1, 1\)"),
        (([0], [1], [0, 1], [-1]), "items start at 0"),
    ],
)
def test_arrays_that_are_no_round(arrays, message):
    with pytest.raises(InputError, match=message):
        Round(3, *arrays)


@pytest.mark.parametrize(
    ("transfers", "message"),
    [
        (([0, 1], [3, 0], [2, 2]), r"names ranks 0\.\.3"),  # else 1 → 0, which is another pair
        (([0], [-1], [2]), r"names ranks -1\.\.0"),
        (([1], [2], [-1]), "items start at 0"),
        (([1, 1], [2, 2], [5, 5]), "each once"),
        (([1], [1], [5]), "to itself"),
        (([1], [2], [2**31]), "below 2"),
        (([1], [2], [0.5]), "whole numbers"),
        (([0, 1], [1, 0], [2]), "2 transfers need as many items, got 1"),  # NumPy would repeat it
        (([0], [1], [2, 3]), "1 transfers need as many items, got 2"),
    ],
)
def test_transfers_that_are_no_round(transfers, message):
    with pytest.raises(InputError, match=message):
        Round.from_transfers(3, *transfers)


def test_empty_messages_between_full_ones():
    """A message may hold no item; its neighbours' order is still checked message by message."""
    entry = Round(3, [0, 0, 1], [1, 2, 0], [0, 1, 1, 2], [5, 0])
    assert messages_of(entry) == {(0, 1): [5], (0, 2): [], (1, 0): [0]}
    assert messages_of(entry.reversed()) == {(0, 1): [0], (1, 0): [5], (2, 0): []}


def test_bad_plans():
    entry = make_round(3, [(0, 1, 4)])
    with pytest.raises(InputError, match="'sideways'"):
        Plan("sideways", 9, [entry])
    with pytest.raises(InputError, match="at least one round"):
        Plan("expand", 9, [])
    with pytest.raises(InputError, match=r"different numbers of ranks: \[3, 4\]"):
        Plan("expand", 9, [entry, make_round(4, [])])
    with pytest.raises(InputError, match="item 4, but n_items is 4"):
        Plan("expand", 4, [entry])
    with pytest.raises(InputError, match="rank 3 is not one of"):
        entry.of_rank(3)
    with pytest.raises(InputError, match=r"n_items is 4\.5: give a whole number"):
        Plan("expand", 4.5, [entry])
    for wrong in (0, 2.5, "3"):
        with pytest.raises(InputError, match=f"n_ranks is {wrong!r}: "):
            make_round(wrong, [(0, 1, 4)])
    for name in ("alpha", "beta", "row_bytes"):
        with pytest.raises(InputError, match=f"{name} is -1: give a finite number"):
            Plan("expand", 9, [entry]).predicted_seconds(
                **{"alpha": 1, "beta": 1, "row_bytes": 1, name: -1}
            )
