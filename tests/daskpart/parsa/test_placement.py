"""The placement of parameters, against its definition and against every placement there is."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskpart.parsa.neighbours import NeighbourSets
from daskpart.parsa.placement import (
    lower_bound,
    place_parameters,
    random_traffic,
    sweep,
)


def least_traffic(sharers: Sequence[Sequence[int]], sizes: np.ndarray) -> int:
    """The least maximal traffic of all placements."""
    best = int(sizes.max() + sum(map(len, sharers)))
    for owners in itertools.product(*sharers):
        traffic = sizes.copy()
        for parts, owner in zip(sharers, owners, strict=True):
            traffic[owner] += len(parts) - 2
        best = min(best, int(traffic.max()))
    return best


def traffic_of(sharers: Sequence[Sequence[int]], owners: Sequence[int], n_parts: int) -> list[int]:
    """What each part fetches and serves, by the definition."""
    fetched = [
        sum(i in parts and owner != i for parts, owner in zip(sharers, owners, strict=True))
        for i in range(n_parts)
    ]
    served = [
        sum(
            owner == i and j != i
            for parts, owner in zip(sharers, owners, strict=True)
            for j in parts
        )
        for i in range(n_parts)
    ]
    return [f + s for f, s in zip(fetched, served, strict=True)]


def sets_of(sharers: Sequence[Sequence[int]], n_parts: int) -> NeighbourSets:
    sets = NeighbourSets.empty(len(sharers), n_parts)
    for parameter, parts in enumerate(sharers):
        for part in parts:
            sets.bits[parameter, part // 8] |= 1 << part % 8
    return sets


def drawn(seed: int, one_connectivity: bool) -> tuple[list[list[int]], int]:
    """Parameters of any connectivity, or of 0, 1, 2 and one other."""
    rng = np.random.default_rng(seed)
    n_parts = int(rng.integers(2, 6))
    levels = [0, 1, 2, int(rng.integers(2, n_parts + 1))]
    sizes = rng.choice(levels if one_connectivity else n_parts + 1, rng.integers(1, 7))
    chosen = [sorted(rng.choice(n_parts, size, replace=False).tolist()) for size in sizes]
    return chosen, n_parts


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_owners_need_what_they_keep_and_traffic_is_as_defined(seed, one_connectivity):
    sharers, n_parts = drawn(seed, one_connectivity)
    sets = sets_of(sharers, n_parts)
    found = place_parameters(sets.bits, sets.sizes)
    for parts, owner in zip(sharers, found.owners.tolist(), strict=True):
        assert owner in parts if parts else owner == -1
    assert found.traffic.tolist() == traffic_of(sharers, found.owners.tolist(), n_parts)
    total = 2 * sum(max(len(parts) - 1, 0) for parts in sharers)
    assert found.traffic.sum() == total
    own = [sum(i in parts and len(parts) > 1 for parts in sharers) for i in range(n_parts)]
    assert found.bound == max(-(-total // n_parts), *own)
    assert found.traffic.max() >= found.bound == lower_bound(sets.bits, sets.sizes)


@given(st.integers(0, 2**32 - 1))
def test_placement_is_optimal_where_shared_parameters_have_one_connectivity(seed):
    sharers, n_parts = drawn(seed, one_connectivity=True)
    sets = sets_of(sharers, n_parts)
    found = place_parameters(sets.bits, sets.sizes)
    least = least_traffic([parts for parts in sharers if parts], sets.sizes)
    assert found.traffic.max() == least >= found.bound


def test_placement_is_nearly_optimal_otherwise():
    cases = [drawn(seed, one_connectivity=False) for seed in range(300)]
    gaps = []
    for sharers, n_parts in cases:
        sets = sets_of(sharers, n_parts)
        least = least_traffic([parts for parts in sharers if parts], sets.sizes)
        found = place_parameters(sets.bits, sets.sizes)
        assert found.bound <= least
        gaps.append(int(found.traffic.max()) - least)
    assert max(gaps) <= 1 and np.count_nonzero(gaps) <= 0.05 * len(gaps)


def test_sweeps_alone_may_miss_the_optimum_that_a_chain_finds():
    sharers, n_parts = [[0, 1, 3, 4], [1, 2, 3, 4], [0, 1, 2, 3]], 5
    sets = sets_of(sharers, n_parts)
    traffic, owners = sets.sizes.copy(), np.full(3, -1, np.int32)
    while sweep(sets.bits, traffic, owners):
        pass
    assert traffic.max() == 5
    assert place_parameters(sets.bits, sets.sizes).traffic.max() == 4
    assert least_traffic(sharers, sets.sizes) == 4


def test_one_sweep_is_algorithm_2():
    sharers, n_parts = [[0], [0, 1], [0, 1, 2], [1, 2], [0, 1, 2]], 3
    sets = sets_of(sharers, n_parts)
    traffic, owners = sets.sizes.copy(), np.full(5, -1, np.int32)
    # |N(U_i)| = 4, 4, 3; v0 to its only part, then v1 to part 0 (3 < 4), v2 to 0 or 2 (3, 3): 0
    assert sweep(sets.bits, traffic, owners) == 5 and owners.tolist() == [0, 0, 0, 2, 2]
    assert traffic.tolist() == [4, 4, 4]


@given(st.integers(0, 2**32 - 1))
def test_parameters_of_two_parts_are_dealt_to_whoever_serves_fewer(seed):
    sharers, n_parts = drawn(seed, one_connectivity=False)
    sharers += sharers[::-1]
    sets = sets_of(sharers, n_parts)
    owners = place_parameters(sets.bits, sets.sizes).owners.tolist()
    served = [0] * n_parts
    for parts, owner in zip(sharers, owners, strict=True):
        if len(parts) > 2:
            served[owner] += len(parts) - 1
    for parts, owner in zip(sharers, owners, strict=True):
        if len(parts) == 2:
            assert owner == min(parts, key=lambda part: served[part])
            served[owner] += 1


def test_two_parts_keep_as_many_of_what_both_need():
    sets = sets_of([[0, 1]] * 90 + [[0]] * 7, 2)
    found = place_parameters(sets.bits, sets.sizes)
    assert np.bincount(found.owners).tolist() == [45 + 7, 45] and found.traffic.tolist() == [90] * 2


def test_sweeps_lower_a_bad_placement():
    rng = np.random.default_rng(0)
    sharers = [sorted(rng.choice(6, 4, replace=False).tolist()) for _ in range(200)]
    sets = sets_of(sharers, 6)
    owners = np.array([parts[0] for parts in sharers], np.int32)
    traffic = np.array(traffic_of(sharers, owners.tolist(), 6))
    before = traffic.max()
    assert sweep(sets.bits, traffic, owners) > 0
    assert traffic.max() < before
    assert traffic.tolist() == traffic_of(sharers, owners.tolist(), 6)


@pytest.mark.parametrize("seed", [0, 2**32 - 1])
def test_random_owners_share_the_same_total(seed):
    rng = np.random.default_rng(1)
    sharers = [sorted(rng.choice(9, rng.integers(0, 9), replace=False)) for _ in range(500)]
    sets = sets_of(sharers, 9)
    traffic = sets.sizes.copy()
    random_traffic(sets.bits, seed, traffic)
    other = sets.sizes.copy()
    random_traffic(sets.bits, seed ^ 1, other)
    assert not np.array_equal(traffic, other)
    found = place_parameters(sets.bits, sets.sizes)
    assert traffic.sum() == found.traffic.sum() and traffic.max() > found.traffic.max()
