"""Hypercube plans against routes walked one hop at a time; duality; the paper's figures.

The oracle walks every (row, destination) pair by itself, expands in increasing and reduces in
decreasing order of dimensions, so that duality is not assumed but found.
"""

from __future__ import annotations

import pickle
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from connectivity_cases import connectivities, embedded, make_connectivity
from hypothesis import given

from daskpart.collectives import (
    EmbeddedPlan,
    Plan,
    Round,
    concurrent_volume,
    embed,
    expand_plan,
    hypercube_allreduce_plan,
    reduce_plan,
    rows_for_payload,
)
from daskpart.connectivity import Connectivity
from daskpart.errors import InputError, ReadError

# -- the oracle ---


def walk(sender, receiver, n_ranks, increasing):
    """Hops (round, from, to) of one row by itself."""
    n_dimensions = n_ranks.bit_length() - 1
    size = 2**n_dimensions
    folds = n_ranks > size
    hops, here, goal = [], sender, receiver % size
    if sender >= size:
        hops.append((0, sender, sender - size))
        here = sender - size
    for step in range(n_dimensions):
        bit = 1 << (step if increasing else n_dimensions - 1 - step)
        if (here ^ goal) & bit:
            hops.append((step + folds, here, here ^ bit))
            here ^= bit
    if receiver >= size:
        hops.append((n_dimensions + 1, here, receiver))
    return hops


def walked(connectivity, kind, aware, increasing):
    """How often each (round, from, to, item) occurs when all pairs of a plan are walked."""
    hops = Counter()
    for item, (touching, owner) in enumerate(
        zip(connectivity.sets, connectivity.owners.tolist(), strict=True)
    ):
        for rank in touching - {owner}:
            ends = (owner, rank) if kind == "expand" else (rank, owner)
            for hop in walk(*ends, connectivity.n_parts, increasing):
                hops[(*hop, item)] += 1
    return Counter(set(hops)) if aware else hops


def planned(plan):
    """The same counts read off an embedded plan, payload left out."""
    hops = Counter()
    for index, entry in enumerate(plan.rounds):
        for message in range(entry.n_messages):
            rows = entry.items[entry.pointer[message] : entry.pointer[message + 1]]
            ends = int(entry.source[message]), int(entry.destination[message])
            hops.update((index, *ends, item) for item in plan.items_of(rows).tolist())
    return hops


def per_rank(hops, n_ranks, end):
    """Rows and messages of each rank, at the sending (1) or receiving (2) end."""
    rows, messages = np.zeros((2, n_ranks), dtype=np.int64)
    for hop, times in hops.items():
        rows[hop[end]] += times
    for _, *ends in {hop[:3] for hop in hops}:
        messages[ends[end - 1]] += 1
    return rows, messages


# -- plans ---


@pytest.mark.parametrize("aware", [True, False])
@pytest.mark.parametrize("kind", ["expand", "reduce"])
@given(connectivity=connectivities())
def test_plans_are_the_walked_routes(kind, aware, connectivity):
    direct = expand_plan(connectivity) if kind == "expand" else reduce_plan(connectivity)
    plan = embed(direct, aware=aware)
    assert planned(plan) == walked(connectivity, kind, aware, increasing=kind == "expand")
    assert (plan.kind, plan.carried, plan.n_ranks) == (kind, direct, connectivity.n_parts)


@pytest.mark.parametrize("embedding", ["direct", "naive", "aware"])
@given(connectivity=connectivities())
def test_duality(embedding, connectivity):
    """Theorem 1: volumes and messages of the reduce are those of the expand, the other way."""
    if embedding == "direct":
        expand, reduce = expand_plan(connectivity), reduce_plan(connectivity)
    else:
        aware = embedding == "aware"
        expand = embed(expand_plan(connectivity), aware=aware, every_message=False)
        reduce = embed(reduce_plan(connectivity), aware=aware, every_message=False)
        for plan, kind in ((expand, "expand"), (reduce, "reduce")):
            hops = walked(connectivity, kind, aware, increasing=kind == "expand")
            for end, side in ((1, "sent"), (2, "received")):
                rows, messages = per_rank(hops, plan.n_ranks, end)
                counted = plan.statistics()
                np.testing.assert_array_equal(counted.per_rank(f"rows_{side}"), rows)
                np.testing.assert_array_equal(counted.per_rank(f"messages_{side}"), messages)
    there, back = expand.statistics(), reduce.statistics()
    for quantity in ("messages", "rows"):
        for one, other in (("sent", "received"), ("received", "sent")):
            np.testing.assert_array_equal(  # round by round, not only in all
                getattr(there, f"{quantity}_{one}"), getattr(back, f"{quantity}_{other}")[::-1]
            )
    assert reduce.rounds == expand.reversed().rounds
    assert reduce.reversed().rounds == expand.rounds


def test_the_same_order_both_ways_is_not_dual():
    """§4.3: with increasing order for both, ranks send other volumes than they received."""
    connectivity = make_connectivity([{1, 2, 6, 7}], [1], 8)
    expand = walked(connectivity, "expand", True, increasing=True)
    both_increasing = walked(connectivity, "reduce", True, increasing=True)
    assert per_rank(expand, 8, 1)[0].tolist() != per_rank(both_increasing, 8, 2)[0].tolist()


def test_the_papers_figure():
    """Fig. 1: owner 1 expands to {2, 6, 7}; five rows move, in three dimensions."""
    connectivity = make_connectivity([{1, 2, 6, 7}], [1], 8)
    plan = embedded(connectivity)
    hops = {(0, 1, 0), (1, 1, 3), (1, 0, 2), (2, 3, 7), (2, 2, 6)}
    assert set(planned(plan)) == {(*hop, 0) for hop in hops}
    assert concurrent_volume(plan) == 3
    assert plan.forward_rows.tolist() == [1, 0, 0, 1, 0, 0, 0, 0]
    naive = embedded(connectivity, aware=False)
    assert planned(naive)[0, 1, 0, 0] == 2  # two copies to 0 in one message
    assert (naive.total_rows, plan.total_rows) == (7, 5)


@given(connectivities())
def test_forward_buffers_are_sized_by_the_plan(connectivity):
    for aware in (True, False):
        plan = embed(expand_plan(connectivity), aware=aware, payload_rows=2)
        held = [0] * plan.n_ranks
        passing = {
            (hop[2], hop[3]) if aware else (hop[2], hop[3], rank)
            for item, touching in enumerate(connectivity.sets)
            for rank in touching - {connectivity.owners[item]}
            for hop in (
                (*step, item)
                for step in walk(int(connectivity.owners[item]), rank, plan.n_ranks, True)
            )
            if hop[2] != rank and not (aware and hop[2] in touching)
        }
        for rank, *_ in passing:
            held[rank] += 1
        assert plan.forward_rows.tolist() == plan.reversed().forward_rows.tolist() == held


# -- concurrent volume ---


@given(connectivities(owner_inside=True))
def test_concurrent_volume_is_the_number_of_differing_bits(connectivity):
    """§5, where the paper states it: K a power of two, any sharer the owner."""
    n_ranks = 1 << (connectivity.n_parts - 1).bit_length()
    counted = Connectivity(
        connectivity.pointer,
        connectivity.parts,
        np.ones(len(connectivity.parts), np.int64),
        n_ranks,
        np.ones(len(connectivity.sets), np.int64),
    )
    expected = sum(
        (int(np.bitwise_or.reduce(list(s))) & ~int(np.bitwise_and.reduce(list(s)))).bit_count()
        for s in connectivity.sets
    )
    direct = expand_plan(counted, connectivity.owners)
    for plan in (embed(direct), embed(direct, aware=False), embed(direct.reversed())):
        assert concurrent_volume(plan) == expected == counted.concurrent_volume()


@given(connectivities())
def test_an_owner_elsewhere_counts_like_a_sharer(connectivity):
    connectivity.n_parts = 32
    plan = embedded(connectivity)
    expected = 0
    for touching, owner in zip(connectivity.sets, connectivity.owners.tolist(), strict=True):
        if touching:
            ranks = list(touching | {owner})
            differ = np.bitwise_or.reduce(ranks) & ~np.bitwise_and.reduce(ranks)
            expected += int(differ).bit_count()
    assert concurrent_volume(plan) == expected


def test_a_fold_is_one_more_round_in_which_a_row_moves():
    """5 ranks: 4 stands behind 0. From 4 to 3: fold in, bits 0 and 1; from 0 to 4: fold out."""
    assert concurrent_volume(embedded(make_connectivity([{3}], [4], 5))) == 3
    assert concurrent_volume(embedded(make_connectivity([{4}], [0], 5))) == 1


# -- messages ---


@pytest.mark.parametrize("n_ranks", [1, 2, 4, 8, 64])
def test_messages_a_mode_on_a_power_of_two(n_ranks):
    """2·⌈log2 K⌉ for an expand and its reduce, however little they carry."""
    connectivity = make_connectivity([{0, n_ranks - 1}], [0], n_ranks)
    expand = embedded(connectivity)
    both = sum(p.statistics().per_rank("messages_sent") for p in (expand, expand.reversed()))
    assert both.tolist() == [2 * (n_ranks - 1).bit_length()] * n_ranks


def test_the_papers_message_counts_at_4096_ranks():
    """Table 2: 72 messages a CP-ALS iteration on 3 modes, 96 on 4, for every rank."""
    random = np.random.default_rng(0)
    sent = np.zeros(4096, dtype=np.int64)
    for mode in range(4):
        connectivity = random_pairs(4096, 20_000, 5, seed=mode)
        owners = random.choice(4096, 20_000)
        plan = embedded(connectivity, owners, payload_rows=1)
        for direction in (plan, plan.reversed()):
            sent += direction.statistics().per_rank("messages_sent")
        if mode == 2:
            assert (sent == 72).all()
    assert (sent == 96).all()


def random_pairs(n_ranks, n_items, each, seed):
    touching = np.random.default_rng(seed).integers(0, n_ranks, each * n_items)
    pairs = np.unique(np.repeat(np.arange(n_items), each) * n_ranks + touching)
    item, part = np.divmod(pairs, n_ranks)
    pointer = np.searchsorted(item, np.arange(n_items + 1))
    return SimpleNamespace(
        pointer=pointer, parts=part.astype(np.int32), owners=part[pointer[:-1]], n_parts=n_ranks
    )


@pytest.mark.parametrize("n_ranks", [3, 5, 6, 7, 12])
def test_folded_ranks_send_once_and_receive_once(n_ranks):
    plan = embedded(make_connectivity([], [], n_ranks))
    size = 1 << (n_ranks.bit_length() - 1)
    counted = plan.statistics()
    assert len(plan.rounds) == size.bit_length() - 1 + 2
    for side in ("sent", "received"):
        messages = counted.per_rank(f"messages_{side}")
        assert messages[size:].tolist() == [1] * (n_ranks - size)
        assert messages[: n_ranks - size].tolist() == [size.bit_length()] * (n_ranks - size)


@pytest.mark.parametrize("n_ranks", range(1, 18))
def test_allreduce_plan_is_an_embedding_of_nothing(n_ranks):
    dense = hypercube_allreduce_plan(n_ranks)
    nothing = embedded(make_connectivity([], [], n_ranks), payload_rows=1)
    assert dense.rounds == nothing.rounds
    assert (dense.kind, dense.reversed().kind) == ("allreduce", "allreduce")
    assert dense.total_rows == dense.total_messages


def test_payload_rows_stand_at_the_end_of_every_message():
    connectivity = make_connectivity([{0, 1, 2, 3}, {0, 3}], [0, 3], 4)
    bare = embedded(connectivity)
    plan = embedded(connectivity, payload_rows=3)
    assert plan.n_items == bare.n_items + 3 == 5
    for entry, without in zip(plan.rounds, bare.rounds, strict=True):
        np.testing.assert_array_equal(entry.lengths, without.lengths + 3)
        for message in range(entry.n_messages):
            rows = entry.items[entry.pointer[message] : entry.pointer[message + 1]]
            assert rows[-3:].tolist() == [2, 3, 4]
    assert embedded(connectivity, payload_rows=3, every_message=False) == plan
    assert rows_for_payload(0, 4) == 2 and rows_for_payload(16, 24) == 1
    assert rows_for_payload(17, 24) == 2


# -- the object ---


@pytest.mark.parametrize("aware", [True, False])
@pytest.mark.parametrize("kind", ["expand", "reduce"])
def test_save_load_pickle(tmp_path, kind, aware):
    connectivity = make_connectivity([{0, 1, 4}, {2, 3}], [0, 4], 5)
    direct = expand_plan(connectivity) if kind == "expand" else reduce_plan(connectivity)
    plan = embed(direct, aware=aware, payload_rows=2)
    plan.save(tmp_path / "plan.npz")
    for other in (EmbeddedPlan.load(tmp_path / "plan.npz"), pickle.loads(pickle.dumps(plan))):
        assert other.rounds == plan.rounds
        assert (other.kind, other.carried, other.aware) == (kind, direct, aware)
        assert (other.payload_rows, other.every_message) == (2, True)
    assert Plan.load(tmp_path / "plan.npz") == direct
    assert repr(plan).startswith(f"EmbeddedPlan({'aware' if aware else 'naive'} {kind}, ranks=5")
    assert "ranks" in plan._repr_html_()
    direct.save(tmp_path / "direct.npz")
    with pytest.raises(InputError, match=r"not embedded; use Plan\.load"):
        EmbeddedPlan.load(tmp_path / "direct.npz")
    with pytest.raises(ReadError):
        EmbeddedPlan.load(tmp_path / "nothing.npz")


def test_what_can_not_be_embedded():
    connectivity = make_connectivity([{0, 1}], [0], 3)
    plan = embedded(connectivity)
    with pytest.raises(InputError, match="Only a point-to-point expand or reduce"):
        embed(plan)
    with pytest.raises(InputError, match="Only a point-to-point expand or reduce"):
        embed(hypercube_allreduce_plan(1))
    two_owners = Plan("expand", 1, (Round.from_transfers(3, [0, 1], [2, 2], [0, 0]),))
    with pytest.raises(InputError, match=r"Item 0 has more than one owner, ranks 0 and 1"):
        embed(two_owners)
    assert embed(two_owners, aware=False).total_rows == 3
    with pytest.raises(InputError, match="payload_rows"):
        embed(expand_plan(connectivity), payload_rows=-1)
    with pytest.raises(InputError, match="n_ranks is 0"):
        hypercube_allreduce_plan(0)
    with pytest.raises(InputError, match="row_bytes is 0: it must be at least 1"):
        rows_for_payload(8, 0)
