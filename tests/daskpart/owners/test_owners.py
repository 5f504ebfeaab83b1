"""Owners against brute force, volumes against the plans of the collectives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskpart.collectives import expand_plan
from daskpart.collectives.hypercube import concurrent_volume, embed
from daskpart.connectivity import Connectivity
from daskpart.errors import InputError
from daskpart.owners import embedded_packed_owners, hypercube_volume, packed_owners, random_owners

seeds = st.integers(0, 2**32 - 1)
parts_counts = st.sampled_from([1, 2, 3, 5, 6, 7, 8, 13, 16])


def random_items(seed: int, n_parts: int, n_items: int = 30) -> Connectivity:
    rng = np.random.default_rng(seed)
    touched = rng.random((n_items, n_parts)) < rng.choice([0.1, 0.4, 0.9], size=(n_items, 1))
    items, parts = np.nonzero(touched)
    return Connectivity.from_pairs(items, parts, n_items, n_parts)


def sharers(connectivity: Connectivity) -> list[list[int]]:
    ends = connectivity.pointer[1:-1]
    return [group.tolist() for group in np.split(connectivity.parts, ends)]


def route(owner: int, members: list[int], n_parts: int) -> set[tuple[int, int, int]]:
    """Hops (round, from, to) of one row, one destination after the other, in plain Python."""
    size = 1 << (n_parts.bit_length() - 1)
    hops = set()
    for member in members:
        if member == owner:
            continue
        here = owner % size
        if owner >= size:
            hops.add((0, owner, here))
        for bit in range(size.bit_length() - 1):
            if (here ^ member % size) >> bit & 1:
                hops.add((bit + 1, here, here ^ (1 << bit)))
                here ^= 1 << bit
        if member >= size:
            hops.add((size.bit_length(), here, member))
    return hops


@given(seeds, parts_counts)
def test_volume_equals_the_plan_of_the_collectives(seed, n_parts):
    mode = random_items(seed, n_parts)
    elsewhere = np.random.default_rng(seed).integers(0, n_parts, mode.n_items)
    for owned in (mode.with_random_owners(seed), mode.with_owners(elsewhere)):
        plan = embed(expand_plan(owned, owned.owners))
        expand, reduce = hypercube_volume(owned), hypercube_volume(owned, "reduce")
        for volume, kind in ((expand, plan), (reduce, plan.reversed())):
            assert len(volume.send) == len(kind.rounds)
            for entry, send, receive in zip(kind.rounds, volume.send, volume.receive, strict=True):
                rows = np.zeros((2, n_parts), np.int64)
                np.add.at(rows[0], entry.source, entry.lengths)
                np.add.at(rows[1], entry.destination, entry.lengths)
                assert send.tolist() == rows[0].tolist() and receive.tolist() == rows[1].tolist()
            assert volume.concurrent_rows == concurrent_volume(kind)
        assert expand.rows_of_rank.tolist() == reduce.rows_of_rank.tolist()


@given(seeds, st.sampled_from([1, 2, 4, 8, 32]))
def test_concurrent_volume_of_powers_of_two_is_the_metric(seed, n_parts):
    mode = random_items(seed, n_parts)
    [owned] = embedded_packed_owners([mode])
    assert hypercube_volume(owned).concurrent_rows == mode.concurrent_volume()


@given(seeds, parts_counts)
def test_embedded_packing_equals_brute_force(seed, n_parts):
    mode = random_items(seed, n_parts, n_items=12)
    size = 1 << (n_parts.bit_length() - 1)
    load = np.zeros((2, n_parts.bit_length() + 1, n_parts), int)  # sent, received
    groups = sharers(mode)
    [owned] = embedded_packed_owners([mode], n_passes=1)
    for item in sorted(range(mode.n_items), key=lambda item: -len(groups[item])):
        members, chosen = groups[item], int(owned.owners[item])
        if len(members) < 2:
            assert chosen == (members[0] if members else -1)
            continue
        hops = {owner: route(owner, members, n_parts) for owner in range(n_parts)}
        forwarders = {rank for m in members for hop in hops[m] for rank in hop[1:]}
        allowed = {rank for rank in forwarders if rank < size} | set(members)
        price = {owner: squares(moved(load, hops[owner])) for owner in allowed}
        assert chosen in allowed and price[chosen] == min(price.values())
        load = moved(load, hops[chosen])


def moved(load: np.ndarray, hops: set[tuple[int, int, int]]) -> np.ndarray:
    after = load.copy()
    for turn, source, destination in hops:
        after[0, turn, source] += 1
        after[1, turn, destination] += 1
    return after


def squares(load: np.ndarray) -> tuple[int, int]:
    """Of rows sent and received together, and what decides between equals: of each alone."""
    return int((load.sum(axis=0) ** 2).sum()), int((load**2).sum())


@given(seeds, parts_counts)
def test_more_passes_never_raise_the_squares(seed, n_parts):
    mode = random_items(seed, n_parts)
    found = []
    for n_passes in (1, 2, 3):
        [volume] = map(hypercube_volume, embedded_packed_owners([mode], n_passes=n_passes))
        found.append(squares(np.array([volume.send, volume.receive])))
    assert found == sorted(found, reverse=True)


@given(seeds, parts_counts)
def test_point_to_point_packing_balances_all_modes_together(seed, n_parts):
    modes = [random_items(seed, n_parts), random_items(seed + 1, n_parts, n_items=7)]
    packed = packed_owners(modes)
    load, sent = np.zeros(n_parts, int), np.zeros(n_parts, int)
    for mode in modes:
        for members in sharers(mode):
            load[members] += 1
    everything = [(m, i, s) for m, mode in enumerate(modes) for i, s in enumerate(sharers(mode))]
    for number, item, members in sorted(everything, key=lambda entry: -len(entry[2])):
        owner = int(packed[number].owners[item])
        if not members:
            assert owner == -1
            continue
        least = sent if len(members) == 2 else load  # whoever owns a row of two, both move one
        assert owner in members and least[owner] == min(least[members])
        load[owner] += len(members) - 2
        sent[owner] += len(members) - 1
    volumes = [mode.rank_volume() for mode in packed]
    assert sum(v.send + v.receive for v in volumes).tolist() == load.tolist()


@pytest.mark.parametrize("n_parts", [2, 3, 4])
@pytest.mark.parametrize("pack", [packed_owners, embedded_packed_owners])
def test_of_rows_that_two_parts_share_both_send_as_many(pack, n_parts):
    items = np.repeat(np.arange(120), 2)
    parts = np.tile([0, n_parts - 1], 120)
    [owned] = pack([Connectivity.from_pairs(items, parts, 120, n_parts)])
    volume = owned.rank_volume() if pack is packed_owners else hypercube_volume(owned)
    assert volume.send.max() == 60  # embedded: in a round


@pytest.mark.parametrize("seed", range(5))
def test_packed_owners_are_better_than_drawn_ones_on_folded_ranks_too(seed):
    """Rows of two and of all three ranks, where most hops have an equal the other way round."""
    rng = np.random.default_rng(seed)
    touched = rng.random((600, 3)) < 0.7
    mode = Connectivity.from_pairs(*np.nonzero(touched), 600, 3)
    drawn, packed = (pack([mode])[0] for pack in (random_owners, embedded_packed_owners))
    assert hypercube_volume(packed).busiest_rows < hypercube_volume(drawn).busiest_rows


def test_packing_lowers_the_maximum_volume():
    modes = [random_items(3, 64, 400), random_items(4, 64, 900)]
    drawn, packed = random_owners(modes), packed_owners(modes)
    most = []
    for owned in (drawn, packed):
        volumes = [mode.rank_volume() for mode in owned]
        most.append(int(sum(v.send + v.receive for v in volumes).max()))
    assert most[1] < 0.95 * most[0]
    embedded = embedded_packed_owners(modes)
    busiest = [
        sum(hypercube_volume(mode).busiest_rows for mode in owned) for owned in (drawn, embedded)
    ]
    assert busiest[1] < 0.9 * busiest[0]


def test_random_owners_repeat_and_differ_from_mode_to_mode():
    mode = random_items(1, 16, 200)
    first, second = random_owners([mode, mode], 5)
    assert [first, second] == random_owners([mode, mode], 5)
    assert first != second and first != random_owners([mode, mode], 6)[0]


def test_bad_input():
    mode = random_items(0, 4)
    for pack in (random_owners, packed_owners, embedded_packed_owners):
        with pytest.raises(InputError, match="give a list"):
            pack(mode)
        with pytest.raises(InputError, match="give a list"):
            pack([])
        with pytest.raises(InputError, match=r"\[4, 5\] parts"):
            pack([mode, random_items(0, 5)])
    with pytest.raises(InputError, match="n_passes is 0"):
        embedded_packed_owners([mode], n_passes=0)
    with pytest.raises(InputError, match="needs owners"):
        hypercube_volume(mode)
    with pytest.raises(InputError, match="operation is 'scan': use one of 'expand', 'reduce'"):
        hypercube_volume(mode.with_random_owners(), "scan")


def test_volume_prints():
    volume = hypercube_volume(random_items(0, 8).with_random_owners())
    assert "rows, concurrent" in repr(volume) and "<table>" in volume._repr_html_()
    assert volume.to_dict()["rows, total"] == volume.total_rows
