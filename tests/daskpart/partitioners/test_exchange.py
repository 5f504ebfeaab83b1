"""Exchanges of vertices, where moves alone leave parts that are too heavy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import daskpart
from daskpart.hypergraph import Hypergraph
from daskpart.partitioners.balance import heaviest_allowed
from daskpart.partitioners.multilevel.exchange import exchanged


def loads_of(part: np.ndarray, weights: np.ndarray, n_parts: int) -> np.ndarray:
    return np.stack([np.bincount(part, each, n_parts) for each in weights.T], axis=1)


def excess(part: np.ndarray, weights: np.ndarray, n_parts: int, most: np.ndarray) -> int:
    return int(np.maximum(loads_of(part, weights, n_parts) - most, 0).sum())


def heavy_tailed(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return np.minimum(1 + 4 * rng.pareto(1.2, shape), 500).astype(np.int64)


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(1, 40),
    n_parts=st.integers(1, 6),
    n_weights=st.integers(1, 3),
    share=st.floats(0, 1),
)
def test_it_lowers_what_is_too_much_or_leaves_all_as_it_was(seed, n, n_parts, n_weights, share):
    rng = np.random.default_rng(seed)
    weights = heavy_tailed(rng, (n, n_weights))
    start = rng.integers(0, n_parts, n).astype(np.int32)
    most = np.ceil(1.05 * weights.sum(axis=0) / n_parts).astype(np.int64)
    free, before = rng.random(n) < share, start.copy()
    found = exchanged(start, weights, n_parts, most, free)
    np.testing.assert_array_equal(start, before)
    np.testing.assert_array_equal(found[~free], start[~free])
    assert set(start) <= set(found)  # no part has become empty
    bearable = np.maximum(most, weights.max(axis=0))
    changed = excess(start, weights, n_parts, bearable) - excess(found, weights, n_parts, bearable)
    assert changed > 0 or np.array_equal(found, start)


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(2, 7),
    n_parts=st.integers(2, 3),
    n_weights=st.integers(1, 4),
)
def test_of_few_vertices_it_leaves_as_little_too_much_as_any_parts_do(seed, n, n_parts, n_weights):
    rng = np.random.default_rng(seed)
    weights = heavy_tailed(rng, (n, n_weights))
    most = np.maximum(np.ceil(weights.sum(axis=0) / n_parts), weights.max(axis=0)).astype(np.int64)
    every = [np.array(each) for each in itertools.product(range(n_parts), repeat=n)]
    least = min(excess(each, weights, n_parts, most) for each in every)
    start = rng.integers(0, n_parts, n).astype(np.int32)
    found = exchanged(start, weights, n_parts, most, np.ones(n, np.bool_))
    assert excess(found, weights, n_parts, most) == least


def test_a_ring_of_three_parts_is_found_where_exchanges_of_two_bring_nothing():
    weights = np.array([[6, 6], [1, 1], [0, 6], [2, 5], [5, 7], [4, 3]])
    start, most = np.array([0, 0, 1, 1, 2, 2], np.int32), np.array([8, 11])
    beyond = excess(start, weights, 3, most)
    for one, other in itertools.combinations(range(6), 2):
        swapped = start.copy()
        swapped[[one, other]] = start[[other, one]]
        assert excess(swapped, weights, 3, most) >= beyond > 0
    found = exchanged(start, weights, 3, most, np.ones(6, np.bool_))
    assert excess(found, weights, 3, most) == 0


def parts_of_few(seed: int, n_parts: int, n_weights: int) -> np.ndarray:
    """Weights of the vertices of parts that weigh 1000 each in every weight."""
    rng = np.random.default_rng(seed)
    weights = []
    for _ in range(n_parts):
        ends = np.sort(rng.integers(0, 1001, (n_weights, int(rng.integers(2, 6)))), axis=1)
        weights.append(np.diff(ends, axis=1, prepend=0, append=1000).T)
    return rng.permutation(np.concatenate(weights))


@pytest.mark.parametrize(
    ("n_parts", "n_weights", "method"),
    [
        (8, 1, "recursive"),
        (16, 1, "direct"),
        (8, 2, "direct"),
        (32, 2, "direct"),
        (16, 3, "direct"),
    ],
)
def test_bounds_that_a_few_heavy_vertices_a_part_allow_are_kept(n_parts, n_weights, method):
    epsilon = 0.05 if n_weights > 1 else 0.02
    for seed in range(4):
        weights = parts_of_few(seed, n_parts, n_weights)
        n = len(weights)
        pins = np.random.default_rng(seed).integers(0, n, 6 * n)
        nets = Hypergraph.from_nets(np.arange(0, 6 * n + 1, 3), pins, n, weights[:, 0])
        further = {"further_weights": weights[:, 1:]} if n_weights > 1 else {}
        found = daskpart.partition(nets, n_parts, method=method, epsilon=epsilon, **further)
        heaviest = loads_of(found.assignment, weights, n_parts).max(axis=0)
        assert heaviest.max() <= heaviest_allowed(1000 * n_parts, n_parts, epsilon)
