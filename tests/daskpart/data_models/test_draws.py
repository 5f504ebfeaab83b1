"""Draws by number: a shuffle is one, chances are met, and the order of a row does not matter."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskpart.data_models.draws import drawn_with, few_neighbours, key_of, shuffled


@given(st.integers(1, 3000), st.integers(0, 2**62))
def test_a_shuffle_puts_everybody_somewhere_else(n: int, seed: int) -> None:
    places = shuffled(np.arange(n), n, key_of(seed))
    np.testing.assert_array_equal(np.sort(places), np.arange(n))
    some = np.arange(0, n, 3)
    np.testing.assert_array_equal(shuffled(some, n, key_of(seed)), places[some])


@pytest.mark.parametrize("n", [5, 16, 17, 100, 257])  # the last is one more than 8 bits hold
def test_a_shuffle_is_even(n: int) -> None:
    """Every vertex at every place, and every pair among the first half, about as often."""
    many = 4000
    drawn = np.stack([shuffled(np.arange(n), n, key_of(7, seed)) for seed in range(many)])
    counts = np.stack([np.bincount(column, minlength=n) for column in drawn.T])
    chi = ((counts - many / n) ** 2 / (many / n)).sum() / (n - 1) ** 2
    assert chi == pytest.approx(1, abs=5 * np.sqrt(2) / (n - 1))
    half = drawn < n // 2
    both = np.mean(half[:, :1] & half[:, 1:], axis=0)
    wanted = (n // 2) * (n // 2 - 1) / (n * (n - 1))
    assert abs(both - wanted).max() < 5 * np.sqrt(wanted * (1 - wanted) / many)


def test_keys_differ() -> None:
    keys = {int(key_of(*numbers)) for numbers in np.ndindex(8, 8, 8)}
    keys |= {int(key_of(*numbers)) for numbers in np.ndindex(30, 30)} | {int(key_of(0))}
    assert len(keys) == 512 + 900 + 1


def test_vertices_are_drawn_with_their_probabilities() -> None:
    wanted, ids, many = np.array([0.0, 0.03, 0.5, 0.9, 1.0]), np.array([5, 10**9, 0, 7, 1]), 4000
    found = np.mean([drawn_with(wanted, ids, key_of(seed)) for seed in range(many)], axis=0)
    assert found[0] == 0 and found[-1] == 1
    assert (abs(found - wanted) <= 5 * np.sqrt(wanted * (1 - wanted) / many)).all()
    alone = drawn_with(wanted[2:3], ids[2:3], key_of(3))
    assert alone[0] == drawn_with(wanted, ids, key_of(3))[2]


def test_the_order_of_a_row_does_not_matter() -> None:
    random = np.random.default_rng(0)
    pointer, ids = np.array([0, 0, 40, 43]), random.permutation(1000)[:50]
    neighbours = np.concatenate([random.permutation(50)[:40], [1, 2, 4]]).astype(np.int32)
    targets = np.array([0, 1, 2])
    entries, counts = few_neighbours(pointer, neighbours, targets, ids, 7, key_of(1))
    assert counts.tolist() == [0, 7, 3] and (np.diff(entries) > 0).all()  # in the order of the row
    order = np.concatenate([random.permutation(40), [42, 40, 41]])
    others, _ = few_neighbours(pointer, neighbours[order], targets, ids, 7, key_of(1))
    assert set(ids[neighbours[entries]]) == set(ids[neighbours[order][others]])
    again, _ = few_neighbours(pointer, neighbours, targets, ids, 7, key_of(2))
    assert not np.array_equal(again, entries)


def test_all_neighbours_take_no_room_for_more() -> None:
    pointer, neighbours = np.array([0, 3, 3, 5]), np.arange(5, dtype=np.int32)
    drawn = pointer, neighbours, np.array([0, 1, 2]), np.arange(5)
    few_neighbours(*drawn, 1, key_of(0))  # compiles
    tracemalloc.start()
    try:
        entries, counts = few_neighbours(*drawn, 10**9, key_of(0))
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()
    assert entries.tolist() == [0, 1, 2, 3, 4] and counts.tolist() == [3, 0, 2]
    assert not len(few_neighbours(*drawn[:2], np.array([1]), drawn[3], 10**9, key_of(0))[0])
