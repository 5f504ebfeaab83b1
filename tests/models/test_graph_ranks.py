"""In which order a rank has its vertices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from daskpart import Partition
from daskpart.models.graph_convolution.operators import with_loops
from daskpart.models.graph_convolution.ranks import near_neighbours


def bits_between(pattern, own) -> float:
    """Of the distances between the places of neighbours of one rank."""
    block = pattern[own][:, own].tocoo()
    return np.log2(1 + abs(block.coords[0] - block.coords[1])).sum()


def of_edges(sources, targets, n):
    ones = np.ones(len(sources))
    return with_loops(scipy.sparse.coo_array((ones, (sources, targets)), (n, n)).tocsr())


@given(st.integers(0, 2**32 - 1), st.sampled_from((1, 2, 3)), st.booleans())
def test_each_rank_keeps_its_vertices_and_neighbours_come_no_farther(seed, n_ranks, symmetric):
    random = np.random.default_rng(seed)
    n = random.integers(n_ranks, 30)
    ends = random.integers(0, n, (2, random.integers(0, 60)))
    if symmetric:
        ends = np.hstack([ends, ends[::-1]])
    pattern = of_edges(*ends, n)
    partition = Partition(random.permutation(np.arange(n) % n_ranks).astype(np.int32), n_ranks)
    for rank, own in enumerate(near_neighbours(pattern, partition, symmetric)):
        members = partition.members(rank)
        assert own.dtype == members.dtype and sorted(own) == members.tolist()
        rising = bits_between(pattern, members)
        assert bits_between(pattern, own) < rising or own.tolist() == members.tolist()


@pytest.mark.parametrize("both_ways", [False, True])
def test_a_ring_numbered_at_random_is_a_ring_again(both_ways):
    """The other two of three ranks have a chain each."""
    ring = np.random.default_rng(0).permutation(60)
    ends = ring, np.roll(ring, 1)
    if both_ways:
        ends = np.concatenate(ends), np.concatenate(ends[::-1])
    parts = np.zeros(60, np.int32)
    parts[ring[20:]] = 1 + np.arange(40) // 20
    pattern = of_edges(*ends, 60)
    for partition in (Partition(np.zeros(60, np.int32), 1), Partition(parts, 3)):
        for own in near_neighbours(pattern, partition, both_ways):
            edges = pattern[own][:, own].tocoo()
            assert abs(edges.coords[0] - edges.coords[1]).max() <= 2


def test_numbers_by_which_neighbours_are_nearer_are_kept():
    """A binary tree, numbered branch by branch: by levels most edges are a quarter of it long."""
    vertices = np.arange(1, 256)
    step = vertices & -vertices  # children of vertex i are half a step before and behind it
    inner = vertices[step > 1]
    children = np.concatenate([inner - step[step > 1] // 2, inner + step[step > 1] // 2])
    ends = np.concatenate([inner, inner, children]), np.concatenate([children, inner, inner])
    partition = Partition(np.zeros(256, np.int32), 1)
    (own,) = near_neighbours(of_edges(*ends, 256), partition, True)
    assert own.tolist() == list(range(256))
