"""Local numbering against its definition, rank by rank."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from daskpart.connectivity import Connectivity
from daskpart.containers.numbering import number_owned, number_touched


@st.composite
def owned(draw, touching=True):
    """Items, the ranks that touch each, and an owner: one of them, or any."""
    n_parts, n_items = draw(st.integers(1, 5)), draw(st.integers(1, 12))
    pairs = draw(st.sets(st.tuples(st.integers(0, n_items - 1), st.integers(0, n_parts - 1))))
    items, parts = np.array(sorted(pairs), np.int64).reshape(-1, 2).T
    found = Connectivity.from_pairs(items, parts, n_items, n_parts)
    if touching:
        return found.with_packed_owners()
    any_rank = st.lists(st.integers(0, n_parts - 1), min_size=n_items, max_size=n_items)
    return found.with_owners(draw(any_rank))


def sharers(connectivity, item):
    begin, end = connectivity.pointer[item : item + 2]
    return set(connectivity.parts[begin:end].tolist())


@given(owned() | owned(touching=False))
def test_what_is_touched(connectivity):
    numbering = number_touched(connectivity)
    for rank in range(connectivity.n_parts):
        groups = ([], [], [])
        for item in range(connectivity.n_items):
            ranks, mine = sharers(connectivity, item), connectivity.owners[item] == rank
            if rank in ranks:
                groups[2 if not mine else int(len(ranks) > 1)].append(item)
        assert numbering.of_rank(rank).tolist() == [item for group in groups for item in group]
        assert numbering.sizes[rank].tolist() == [len(group) for group in groups]
        assert numbering.first_group(rank).tolist() == groups[0]


@given(owned() | owned(touching=False))
def test_what_is_owned(connectivity):
    numbering = number_owned(connectivity)
    n_parts = connectivity.n_parts
    for rank in range(n_parts):
        mine, others = [], []
        for item in range(connectivity.n_items):
            ranks = sharers(connectivity, item)
            owner = connectivity.owners[item] if ranks else item % n_parts
            if owner == rank:
                mine.append(item)
            elif rank in ranks:
                others.append(item)
        assert numbering.of_rank(rank).tolist() == mine + others
        assert numbering.first_group(rank).tolist() == mine
    everything = np.concatenate([numbering.first_group(rank) for rank in range(n_parts)])
    assert sorted(everything.tolist()) == list(range(connectivity.n_items))
