"""Sub-epochs: eq. 6 and 7 hold for every item, messages and staleness equal eq. 8 and 9."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from daskpart.connectivity import Connectivity
from daskpart.models.matrix_factorization.schedule import make_schedule


@st.composite
def connectivities(draw):
    n_parts = draw(st.integers(1, 9))
    n_items = draw(st.integers(1, 20))
    seed = draw(st.integers(0, 2**32 - 1))
    generator = np.random.default_rng(seed)
    n_pairs = draw(st.integers(0, 120))
    return Connectivity.from_pairs(
        generator.integers(0, n_items, n_pairs),
        generator.integers(0, n_parts, n_pairs),
        n_items,
        n_parts,
    )


@given(connectivities(), st.integers(1, 9), st.integers(0, 3))
def test_equations_6_and_7(connectivity, eta, seed):
    schedule = make_schedule(connectivity, eta, seed)
    assert schedule.sub_epoch.size == connectivity.parts.size  # eq. 6: one sub-epoch a pair
    for item in range(connectivity.n_items):
        begin, end = connectivity.pointer[item : item + 2]
        used = np.bincount(schedule.sub_epoch[begin:end], minlength=eta)
        assert used.size == eta
        assert (used > 0).sum() == min(eta, end - begin)  # eq. 7
        assert used[used > 0].size == 0 or np.ptp(used[used > 0]) <= 1  # as evenly as possible


@given(connectivities(), st.integers(1, 9), st.integers(0, 3))
def test_volume_and_staleness_equal_the_formulas(connectivity, eta, seed):
    schedule = make_schedule(connectivity, eta, seed)
    reduces = [schedule.reduce_plan(t).total_rows for t in range(eta)]
    expands = [schedule.expand_plan(t).total_rows for t in range(eta)]
    assert sum(reduces) + sum(expands) == connectivity.pasgd_volume(eta)
    assert schedule.staleness == sum(reduces) == connectivity.pasgd_staleness(eta)


@given(connectivities(), st.integers(1, 9))
def test_cells_hold_every_nonzero_once(connectivity, eta):
    schedule = make_schedule(connectivity, eta)
    by_rank = np.bincount(connectivity.parts, connectivity.counts, connectivity.n_parts)
    np.testing.assert_array_equal(schedule.cell_nonzeros.sum(axis=1), by_rank)
    slowest, n_nonzeros = schedule.cell_nonzeros.max(axis=0).sum(), by_rank.sum()
    waiting = slowest * connectivity.n_parts / n_nonzeros - 1 if n_nonzeros else 0
    assert schedule.cell_imbalance == pytest.approx(waiting, abs=1e-12)


@given(connectivities(), st.integers(1, 9))
def test_sub_epochs_are_those_of_plain_python(connectivity, eta):
    """Items by falling nonzeros, local ones last; each rank to its least loaded sub-epoch."""
    pointer, parts, counts = connectivity.pointer, connectivity.parts, connectivity.counts
    load = np.zeros((connectivity.n_parts, eta), int)
    expected = np.zeros(parts.size, int)
    pairs = [range(*pointer[item : item + 2]) for item in range(connectivity.n_items)]
    for own in sorted(pairs, key=lambda own: (len(own) == 1, -counts[own].sum())):
        base, larger = divmod(len(own), eta)
        taken = [0] * eta
        for pair in sorted(own, key=lambda pair: -counts[pair]):
            room = base + (larger > 0)
            open_ = [t for t in range(eta) if taken[t] < room]
            best = min(open_, key=lambda t: load[parts[pair], t])
            taken[best] += 1
            larger -= taken[best] > base
            load[parts[pair], best] += counts[pair]
            expected[pair] = best
    schedule = make_schedule(connectivity, eta)
    np.testing.assert_array_equal(schedule.sub_epoch, expected)
    np.testing.assert_array_equal(schedule.cell_nonzeros, load)


@given(connectivities(), st.integers(1, 9), st.integers(0, 3))
def test_an_item_is_where_it_is_needed_next(connectivity, eta, seed):
    """Follow every row through an epoch: whoever works on it begins with the newest copy."""
    schedule = make_schedule(connectivity, eta, seed)
    holders = {
        item: {int(schedule.home[item])} for item in np.flatnonzero(schedule.home >= 0)
    }  # ranks with the newest row; an epoch begins as the last one ended
    first = schedule.group_sub_epoch[np.flatnonzero(np.diff(schedule.group_item, prepend=-1))]
    for group in np.flatnonzero(np.diff(schedule.group_item, prepend=-1)):
        holders[int(schedule.group_item[group])] |= set(_members(schedule, group))
    for t in range(eta):
        for group in np.flatnonzero(schedule.group_sub_epoch == t):
            item, members = int(schedule.group_item[group]), set(_members(schedule, group))
            assert members <= holders[item]
            assert int(schedule.group_owner[group]) in members
            holders[item] = {int(schedule.group_owner[group])}
        (expand,) = schedule.expand_plan(t).rounds
        for m in range(expand.source.size):
            for item in expand.items[expand.pointer[m] : expand.pointer[m + 1]].tolist():
                assert int(expand.source[m]) in holders[item]
                holders[item].add(int(expand.destination[m]))
    assert first.size == len(holders)
    for item, ranks in holders.items():
        assert int(schedule.home[item]) in ranks
    # asked for everywhere, a final row travels to those alone that do not have it
    ranks, items = np.divmod(
        np.arange(connectivity.n_parts * connectivity.n_items), len(schedule.home)
    )
    (final,) = schedule.final_rows_plan(items, ranks).rounds
    sizes = np.diff(final.pointer)
    np.testing.assert_array_equal(schedule.home[final.items], np.repeat(final.source, sizes))
    sent = zip(final.items.tolist(), np.repeat(final.destination, sizes).tolist(), strict=True)
    assert sorted(sent) == [
        (item, rank)
        for item, ranks in sorted(holders.items())
        for rank in range(connectivity.n_parts)
        if rank not in ranks
    ]


def _members(schedule, group):
    begin, end = schedule.group_pointer[group : group + 2]
    return schedule.group_ranks[begin:end].tolist()


def test_figure_2_of_the_paper():
    """λ = 7: 12 rows and 6 stale ones at η = 1, 10 and 3 at η = 4, none stale at η = 7."""
    connectivity = Connectivity.from_pairs(np.zeros(7, int), np.arange(7), 1, 7)
    found = {}
    for eta in (1, 4, 7):
        schedule = make_schedule(connectivity, eta)
        plans = [schedule.reduce_plan(t) for t in range(eta)]
        plans += [schedule.expand_plan(t) for t in range(eta)]
        found[eta] = (sum(plan.total_rows for plan in plans), schedule.staleness)
    assert found == {1: (12, 6), 4: (10, 3), 7: (7, 0)}


def test_cells_are_balanced_where_items_allow_it():
    """1,000 items on 4 ranks: within a rank the sub-epochs differ by less than 1 %."""
    generator = np.random.default_rng(0)
    items = (1000 * generator.random(100_000) ** 2).astype(int)
    connectivity = Connectivity.from_pairs(items, generator.integers(0, 4, items.size), 1000, 4)
    cells = make_schedule(connectivity, 4).cell_nonzeros
    assert np.ptp(cells, axis=1).max() < 0.01 * cells.mean()


def test_items_of_one_rank_come_last_and_fill_the_gaps():
    """Item 0 has 4 ratings on each of two ranks, which have 4 items of one rating to themselves."""
    items = np.concatenate((np.zeros(8, int), np.arange(1, 9)))
    ranks = np.tile(np.repeat([0, 1], 4), 2)
    schedule = make_schedule(Connectivity.from_pairs(items, ranks, 9, 2), 2)
    assert schedule.cell_nonzeros.tolist() == [[4, 4], [4, 4]]
    assert schedule.cell_imbalance == 0


def test_a_seed_fixes_the_owners():
    connectivity = Connectivity.from_pairs(
        np.repeat(np.arange(50), 4), np.tile(np.arange(4), 50), 50, 4
    )
    one, same, other = (make_schedule(connectivity, 1, seed).group_owner for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    assert set(one.tolist()) == {0, 1, 2, 3}  # any member of a group


@pytest.mark.parametrize("eta", [1, 3])
def test_nothing_travels_on_one_rank(eta):
    connectivity = Connectivity.from_pairs(np.arange(5), np.zeros(5, int), 5, 1)
    schedule = make_schedule(connectivity, eta)
    assert schedule.staleness == 0
    assert all(schedule.expand_plan(t).total_rows == 0 for t in range(eta))


def test_the_messages_of_a_sub_epoch_take_memory_for_its_own_items_alone():
    n_items, n_ranks = 200_000, 8
    items, parts = np.repeat([3, 70_000, n_items - 1], n_ranks), np.tile(np.arange(n_ranks), 3)
    connectivity = Connectivity.from_pairs(items, parts, n_items, n_ranks)
    peaks = []
    for _ in range(3):  # the least: other threads of this process take memory now and then
        schedule = make_schedule(connectivity, n_ranks)
        schedule.reduce_plan(0)  # makes ready what all sub-epochs share
        schedule.expand_plan(0)
        tracemalloc.start()
        plans = [schedule.reduce_plan(t) for t in range(n_ranks)]
        plans += [schedule.expand_plan(t) for t in range(n_ranks)]
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert sum(plan.total_rows for plan in plans) > 0
    assert min(peaks) < n_items  # bytes
