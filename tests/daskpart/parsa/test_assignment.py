"""Algorithm 3 and its blocks, against the same in plain Python with every cost anew."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskpart.parsa.assignment import Settings, assign_block, sets_of_sample
from daskpart.parsa.bipartite import Bipartite
from daskpart.parsa.neighbours import NeighbourSets, own_bits

SHARE = 32


def assign(
    neighbours: Sequence[set[int]],
    n_parts: int,
    sets: Sequence[set[int]] | None = None,
    weights: Sequence[int] | None = None,
    first_part: int = 0,
) -> tuple[list[int], list[set[int]]]:
    """Parts of the data and S_i in the end; ties as in the kernel, O(k n²)."""
    n_data = len(neighbours)
    S = [set(given) for given in sets] if sets else [set() for _ in range(n_parts)]
    weigh = weights or [1] * n_data
    order = sorted(range(n_data), key=lambda u: (len(neighbours[u]), u))
    left, load, parts = set(range(n_data)), [0] * n_parts, [-1] * n_data
    listed: list[dict[int, int]] = [{} for _ in range(n_parts)]  # datum: when it was listed
    limit, clock = [0] * n_parts, itertools.count()
    while left:
        served = [(first_part + step) % n_parts for step in range(n_parts)]
        i = min(served, key=lambda part: load[part])
        cost = {u: len(neighbours[u] - S[i]) for u in left}
        if not left & listed[i].keys():
            limit[i] = _limit(sorted(cost.values()))
            listed[i] = {u: next(clock) for u in order if u in left and cost[u] < limit[i]}
        chosen = min(left & listed[i].keys(), key=lambda u: (cost[u], -listed[i][u]))
        assert cost[chosen] == min(cost.values()), "Algorithm 3 takes the least cost"
        parts[chosen] = i
        load[i] += weigh[chosen]
        left.discard(chosen)
        for v in sorted(neighbours[chosen] - S[i]):
            S[i].add(v)
            for u in sorted(left):
                if v in neighbours[u] and len(neighbours[u] - S[i]) < limit[i]:
                    listed[i][u] = next(clock)
    return parts, S


def _limit(costs: list[int]) -> int:
    """The least cost with at least 1/32 of the data below."""
    wanted = max(1, len(costs) // SHARE)
    return costs[wanted - 1] + 1


def random_neighbours(
    rng: np.random.Generator, n_data: int, n_parameters: int, most: int
) -> list[set[int]]:
    """Some data touch nothing, a few touch much, some parameters nobody touches."""
    return [
        set(rng.choice(n_parameters, rng.integers(0, most + 1), replace=False).tolist())
        for _ in range(n_data)
    ]


def graph_of(neighbours: Sequence[set[int]], n_parameters: int) -> Bipartite:
    pointer = np.concatenate([[0], np.cumsum([len(row) for row in neighbours])])
    joined = [v for row in neighbours for v in sorted(row)]
    return Bipartite(n_parameters, pointer.astype(np.int64), np.array(joined, np.int32))


def bits_of(sets: Sequence[set[int]], n_parameters: int) -> NeighbourSets:
    found = NeighbourSets.empty(n_parameters, len(sets))
    for part, members in enumerate(sets):
        for v in members:
            found.bits[v, part // 8] |= 1 << part % 8
    return found


@given(
    seed=st.integers(0, 2**32 - 1),
    n_data=st.integers(1, 14),
    n_parameters=st.integers(1, 10),
    n_parts=st.integers(1, 10),
    weighted=st.booleans(),
    grown=st.booleans(),
)
def test_the_kernel_replays_algorithm_3(seed, n_data, n_parameters, n_parts, weighted, grown):
    rng = np.random.default_rng(seed)
    neighbours = random_neighbours(rng, n_data, n_parameters, n_parameters)
    weights = rng.integers(1, 5, n_data) if weighted else None
    sets = [
        set(np.flatnonzero(rng.random(n_parameters) < 0.3 * grown).tolist()) for _ in range(n_parts)
    ]
    first_part = int(rng.integers(n_parts))
    check(neighbours, n_parameters, sets, weights, first_part)


@pytest.mark.parametrize("n_parts, n_data, most", [(2, 250, 6), (9, 130, 30)])
def test_long_lists_are_gathered_as_in_the_twin(n_parts, n_data, most):
    """Many of one cost, and few of each: then several costs make up the share that is gathered."""
    rng = np.random.default_rng(n_parts)
    neighbours = random_neighbours(rng, n_data, 150, most)
    check(neighbours, 150, [set() for _ in range(n_parts)], None, 0)


def check(neighbours, n_parameters, sets, weights, first_part) -> None:
    """The kernel assigns as the twin, grows the same sets, and the parts are even."""
    n_parts, n_data = len(sets), len(neighbours)
    as_list = None if weights is None else weights.tolist()
    wanted, grown = assign(neighbours, n_parts, sets, as_list, first_part)
    whole = graph_of(neighbours, n_parameters).select(np.arange(n_data, dtype=np.int32))
    found = bits_of(sets, n_parameters)
    rows = found.bits[whole.parameters]
    settings = Settings(n_parts, weights, offset=0)
    assigned = assign_block(whole, 0, first_part, rows, settings)
    assert assigned.assignment.tolist() == wanted
    found.bits[whole.parameters] = rows
    assert np.array_equal(found.bits, bits_of(grown, n_parameters).bits)
    sizes = np.bincount(assigned.assignment, assigned.weights, n_parts)
    assert np.ptp(sizes) <= assigned.weights.max()


@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_own_bits_are_the_neighbours_of_each_part(seed, n_parts):
    rng = np.random.default_rng(seed)
    neighbours = random_neighbours(rng, 12, 9, 9)
    assignment = rng.integers(0, n_parts, 12).astype(np.int32)
    whole = graph_of(neighbours, 9).select(np.arange(12, dtype=np.int32))
    sets = NeighbourSets.empty(9, n_parts)
    assert not sets.sizes.any()
    sets.add(whole, assignment)
    wanted = [
        set().union(*(row for row, part in zip(neighbours, assignment, strict=True) if part == i))
        for i in range(n_parts)
    ]
    assert np.array_equal(sets.bits, bits_of(wanted, 9).bits)
    assert np.array_equal(own_bits(whole, assignment, n_parts), sets.bits[whole.parameters])
    assert sets.sizes.tolist() == [len(members) for members in wanted]
    pairs = sets.connectivity()
    for v in range(9):
        parts = pairs.parts[pairs.pointer[v] : pairs.pointer[v + 1]].tolist()
        assert parts == [i for i in range(n_parts) if v in wanted[i]]


@pytest.mark.parametrize("n_blocks, share, n_sampled", [(1, 0.3, 12), (5, 0.3, 12), (5, 1, 40)])
def test_a_sample_is_drawn_of_as_many_data_as_asked(n_blocks, share, n_sampled):
    graph = graph_of([{u} for u in range(40)], 40)
    drawn = [
        sets_of_sample(graph.blocks(n_blocks, 3), Settings(4), share, seed) for seed in (0, 0, 1)
    ]
    touched = [np.flatnonzero(sets.bits.any(axis=1)).tolist() for sets in drawn]
    assert [len(each) for each in touched] == [n_sampled] * 3
    assert touched[0] == touched[1]
    assert (touched[0] == touched[2]) == (share == 1)
    assert drawn[0].sizes.tolist() == [n_sampled // 4] * 4


def test_random_parts_are_even_and_fixed_by_the_seed():
    settings = Settings(4, random_state=3)
    drawn = settings.random_parts(2, 10, 1)
    assert np.bincount(drawn, minlength=4).tolist() == [2, 3, 3, 2]
    assert np.array_equal(drawn, Settings(4, random_state=3).random_parts(2, 10, 1))
    assert not np.array_equal(drawn, settings.random_parts(3, 10, 1))


def test_data_without_weight_are_assigned_as_if_each_weighed_one():
    whole = graph_of([set(), set(), set(), set()], 1).select(np.arange(4, dtype=np.int32))
    rows = np.zeros((0, 1), np.uint8)
    assigned = assign_block(whole, 0, 0, rows, Settings(2, weights="edges"))
    assert np.bincount(assigned.assignment).tolist() == [2, 2]
