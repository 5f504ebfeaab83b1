"""Messages of free size: the same on every transport, counted by what they held."""

from __future__ import annotations

import numpy as np
import pytest

from daskpart.collectives.messages import Exchange
from daskpart.errors import InputError


def pack_part(value, source, destinations):
    """As many entries as the sender's rank times the receiver's, so none from 0 to 0."""
    lengths = [source * destination for destination in destinations]
    return [(value[:length], np.arange(length, dtype=np.uint8)) for length in lengths]


def add_all(state, inbox, *, factor):
    total = state.copy()
    for source, (values, indices) in zip(inbox.sources, inbox.payloads, strict=True):
        assert len(values) == len(indices) == source * inbox.rank
        total[indices] += factor * values
    return total


def write_into(state, inbox):
    inbox.payloads[0][0][:] = 0
    return state


def keep(state, inbox):
    return state


def pack_list(value, source, destinations):
    return [[value] for _ in destinations]


def pack_one(value, source, destinations):
    return (value,)


def pack_frozen(value, source, destinations):
    return [(value,)] * len(destinations)


def gathered(state, inbox):
    return [payload[0][0] for payload in inbox.payloads]


def test_free_messages_on_every_transport(make_communicator):
    communicator = make_communicator(4)
    pairs = [(3, 1), (1, 2), (2, 3), (0, 3), (1, 3)]
    exchange = Exchange.from_pairs(4, pairs)
    values = communicator.values([np.full(9, float(rank)) for rank in range(4)])
    pending = communicator.post_values(exchange, values, pack_part, label="parts", index=2)
    state = communicator.collect(pending, values, add_all, factor=10.0)
    communicator.settle(state)
    expected = [np.full(9, float(rank)) for rank in range(4)]
    for source, destination in pairs:
        expected[destination][: source * destination] += 10.0 * source
    for found, wanted in zip(communicator.gather(state), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    counts = communicator.counters.of("parts")
    assert counts["messages_sent"].tolist() == [1, 2, 1, 1]
    assert counts["rows_sent"].tolist() == [0, 2 + 3, 6, 3]
    assert counts["bytes_received"].tolist() == [0, 27, 18, 9 * (0 + 3 + 6)]
    assert communicator.counters.rounds[-1].index == 2
    with pytest.raises(InputError, match="collected before"):
        communicator.collect(pending, values, add_all, factor=1.0)


def replaced(state, inbox):
    return inbox.payloads[0][0].copy()


def test_messages_wait_until_they_are_asked_for(make_communicator):
    """Rounds may be collected in another order than they were posted."""
    communicator = make_communicator(3)
    ring = Exchange.from_pairs(3, [(rank, (rank + 1) % 3) for rank in range(3)])
    pending = []
    for turn in range(3):
        values = communicator.values([np.full(2 + turn, 10.0 * turn + rank) for rank in range(3)])
        pending.append(communicator.post_values(ring, values, pack_frozen, index=turn))
    for turn in (2, 0, 1):
        state = communicator.values([None] * 3)
        found = communicator.gather(communicator.collect(pending[turn], state, replaced))
        for rank, array in enumerate(found):
            assert array.tolist() == [10.0 * turn + (rank - 1) % 3] * (2 + turn)


def test_receivers_cannot_write_into_a_message(make_communicator):
    communicator = make_communicator(2)
    exchange = Exchange.from_pairs(2, [(0, 1), (1, 0)])
    values = communicator.values([np.ones(3), np.ones(3)])
    with pytest.raises(ValueError, match="read-only"):
        pending = communicator.post_values(exchange, values, pack_frozen)
        communicator.settle(communicator.collect(pending, values, write_into))


def test_a_payload_must_be_arrays(make_communicator):
    communicator = make_communicator(2)
    exchange = Exchange.from_pairs(2, [(0, 1)])
    for pack, told, value in (
        (pack_list, "list for rank 1", np.ones(3)),
        (pack_one, "tuple for 1 ranks; pack must", np.ones(3)),
        (pack_frozen, "ndarray in its message to rank 1", np.ones(())),
        (pack_frozen, "ndarray in its message to rank 1", np.array([None])),
        (pack_frozen, "int in its message to rank 1", 7),
    ):
        values = communicator.values([value, value])
        with pytest.raises(InputError, match=f"Rank 0 packed {told}"):
            pending = communicator.post_values(exchange, values, pack)
            communicator.settle(communicator.collect(pending, values, keep))


@pytest.mark.parametrize("length", [3, 20_000])  # inside of a message's header, and beside it
def test_a_message_to_several_ranks(make_communicator, length):
    """What is made ready once arrives at each rank, and counts for each."""
    communicator = make_communicator(4)
    exchange = Exchange.from_pairs(4, [(i, j) for i in range(4) for j in range(4) if i != j])
    values = communicator.values([np.full(length, float(rank)) for rank in range(4)])
    pending = communicator.post_values(exchange, values, pack_frozen, label="same")
    state = communicator.collect(pending, communicator.values([None] * 4), gathered)
    communicator.settle(state)
    for rank, found in enumerate(communicator.gather(state)):
        assert found == [float(source) for source in range(4) if source != rank]
    counts = communicator.counters.of("same")
    assert counts["messages_sent"].tolist() == [3] * 4
    assert counts["bytes_received"].tolist() == [3 * 8 * length] * 4


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([(0, 0)], "Rank 0 would send to itself"),
        ([(0, 3)], "allowed are 0 to 2"),
        ([(0, 1), (0, 1)], "come once"),
        ([(0, 1.5)], "of messages: give whole numbers"),
        ([(0, 1, 1), (2, 2, 0)], r"Pairs are \(source, destination\); got \(0, 1, 1\)"),
        (["01"], r"Pairs are \(source, destination\); got '01'"),
        ([0, 1], r"Pairs are \(source, destination\); got 0"),
        (None, "pairs is None: give a source and a destination for each message"),
    ],
)
def test_bad_exchanges(pairs, message):
    with pytest.raises(InputError, match=message):
        Exchange.from_pairs(3, pairs)


def test_an_exchange_has_as_many_sources_as_destinations():
    with pytest.raises(InputError, match=r"as many sources as destinations; got .*\(1,\).*\(2,\)"):
        Exchange(3, [0], [1, 2])
