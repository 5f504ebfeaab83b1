"""Point-to-point plans on random connectivities, and the duality of expand and reduce."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from connectivity_cases import connectivities, make_connectivity
from hypothesis import given

from daskpart.collectives import expand_plan, reduce_plan
from daskpart.errors import InputError


@given(connectivities())
def test_every_copy_but_the_owners_travels(connectivity):
    plan = expand_plan(connectivity)
    expected = {
        (int(owner), rank, item)
        for item, (touching, owner) in enumerate(
            zip(connectivity.sets, connectivity.owners, strict=True)
        )
        for rank in touching
        if rank != owner
    }
    entry = plan.rounds[0]
    source, destination = (
        np.repeat(ranks, entry.lengths) for ranks in (entry.source, entry.destination)
    )
    found = set(zip(source.tolist(), destination.tolist(), entry.items.tolist(), strict=True))
    assert found == expected
    assert plan.total_rows == len(expected)
    assert (plan.kind, plan.n_items, len(plan.rounds)) == ("expand", len(connectivity.sets), 1)


@given(connectivities())
def test_reduce_is_expand_reversed(connectivity):
    expand, reduce = expand_plan(connectivity), reduce_plan(connectivity)
    assert reduce == expand.reversed()
    assert reduce.kind == "reduce"
    there, back = expand.statistics(), reduce.statistics()
    for quantity in ("messages", "rows"):
        for one, other in (("sent", "received"), ("received", "sent")):
            np.testing.assert_array_equal(
                there.per_rank(f"{quantity}_{one}"), back.per_rank(f"{quantity}_{other}")
            )


def test_owners_may_be_given_apart():
    connectivity = make_connectivity([{0, 1}, {1}], None, 3)
    plan = expand_plan(connectivity, owners=[2, 1])
    assert plan.traffic().tolist() == [[0, 0, 0], [0, 0, 0], [1, 1, 0]]
    with pytest.raises(InputError, match="has no owners"):
        expand_plan(connectivity)


@pytest.mark.parametrize(
    ("owners", "message"),
    [
        (np.ma.array([0, 1], mask=[0, 1]), "owners hold 1 masked values"),
        ([0], "must be 2 integers"),
        ([0.0, 1.0], "dtype float64"),
        ([0, 3], r"Item 1 is touched by 1 rank\(s\) and has owner 3"),
        ([-1, 1], r"Item 0 is touched by 2 rank\(s\) and has owner -1"),
        ([-2, 1], "has owner -2"),
    ],
)
def test_bad_owners(owners, message):
    with pytest.raises(InputError, match=message):
        expand_plan(make_connectivity([{0, 1}, {1}], None, 3), owners)


def test_what_is_no_connectivity():
    for plan in (expand_plan, reduce_plan):
        with pytest.raises(InputError, match="connectivity is a list: give a Connectivity"):
            plan([0, 1])


def test_bad_parts():
    connectivity = make_connectivity([{0, 1}, {1}], [0, 1], 3)
    connectivity.parts = np.array([1, 0, 1], dtype=np.int32)
    with pytest.raises(InputError, match="rising order"):
        expand_plan(connectivity)
    connectivity.parts = np.array([0, 3, 1], dtype=np.int32)
    with pytest.raises(InputError, match=r"Parts 0\.\.3"):
        expand_plan(connectivity)


def test_thousands_of_ranks():
    """K = 4096 on one machine: the counts of the plan against those of the pairs."""
    random = np.random.default_rng(0)
    n_ranks, n_items = 4096, 20_000
    touching = random.integers(0, n_ranks, 5 * n_items)
    pairs = np.unique(np.repeat(np.arange(n_items), 5) * n_ranks + touching)
    item, part = np.divmod(pairs, n_ranks)
    pointer = np.searchsorted(item, np.arange(n_items + 1))
    owners = part[pointer[:-1]]
    connectivity = SimpleNamespace(
        pointer=pointer, parts=part.astype(np.int32), owners=owners, n_parts=n_ranks
    )
    statistics = reduce_plan(connectivity).statistics()
    assert statistics.rows_sent.sum() == len(pairs) - n_items
    received = np.bincount(np.repeat(owners, np.diff(pointer) - 1), minlength=n_ranks)
    np.testing.assert_array_equal(statistics.per_rank("rows_received"), received)
