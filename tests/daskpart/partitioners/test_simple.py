"""Random and block: balanced, reproducible, no part without need empty."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskpart.hypergraph import Hypergraph
from daskpart.partitioners.simple import block_parts, random_parts

weights_and_parts = st.lists(st.integers(0, 50), min_size=1, max_size=60).flatmap(
    lambda weights: st.tuples(st.just(weights), st.integers(1, len(weights)))
)


def weighted(weights: list[int]) -> Hypergraph:
    return Hypergraph.from_nets([0], [], len(weights), vertex_weights=weights)


@given(weights_and_parts, st.integers(0, 9))
def test_random_parts_differ_by_less_than_the_lightest_class_can_mend(case, seed):
    weights, n_parts = case
    assignment = random_parts(weighted(weights), n_parts, seed)
    loads = np.bincount(assignment, weights, n_parts)
    assert loads.max() - loads.min() <= max(weights)
    assert assignment.dtype == np.int32 and assignment.shape == (len(weights),)


@pytest.mark.parametrize("n_parts", [1, 2, 3, 7, 64])
def test_random_is_balanced_on_skewed_weights(n_parts):
    weights = (np.random.default_rng(0).pareto(1.2, 6000) * 20 + 1).astype(int).clip(max=2000)
    loads = np.bincount(random_parts(weighted(weights), n_parts, 0), weights, n_parts)
    assert loads.max() * n_parts / loads.sum() - 1 < 0.01


def test_random_is_random_and_repeats():
    hypergraph = weighted([3] * 400)
    first, again, other = (random_parts(hypergraph, 4, seed) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert 0.15 < np.mean(first == other) < 0.35  # one in four agree by chance


@pytest.mark.parametrize("n_parts", [1, 3, 10])
def test_weights_of_zero_balance_the_vertices(n_parts):
    hypergraph = weighted([0] * 30)
    assignment = random_parts(hypergraph, n_parts, 0)
    assert np.bincount(assignment, minlength=n_parts).tolist() == [30 // n_parts] * n_parts


@given(weights_and_parts, st.integers(0, 9))
def test_random_leaves_no_part_empty(case, seed):
    weights, n_parts = case
    assert len(np.unique(random_parts(weighted(weights), n_parts, seed))) == n_parts


@given(weights_and_parts)
def test_block_is_contiguous_balanced_and_leaves_no_part_empty(case):
    weights, n_parts = case
    assignment = block_parts(weighted(weights), n_parts)
    assert np.unique(assignment).tolist() == list(range(n_parts))
    assert (np.diff(assignment) >= 0).all() and assignment.dtype == np.int32


@given(st.lists(st.integers(1, 5), min_size=20, max_size=60), st.integers(1, 4))
def test_block_cuts_nearest_to_equal_weight(weights, n_parts):
    loads = np.bincount(block_parts(weighted(weights), n_parts), weights, n_parts)
    # each of the two cuts is at most half a vertex away from where it should be
    assert np.abs(loads - sum(weights) / n_parts).max() <= max(weights)


def test_block_cuts_weights_whose_multiples_exceed_64_bits():
    assert np.bincount(block_parts(weighted([2**58] * 24), 6)).tolist() == [4] * 6
