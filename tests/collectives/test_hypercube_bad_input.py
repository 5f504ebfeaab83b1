"""What an embedded expand or reduce says where plan, payload or rows do not fit."""

from __future__ import annotations

import numpy as np
import pytest
from exchange_text import random_connectivity

from daskpart.collectives import (
    LocalCommunicator,
    embed,
    expand,
    expand_allreduce,
    expand_plan,
    place_rows,
    reduce,
)
from daskpart.collectives.messages import RankMessages
from daskpart.errors import InputError


@pytest.fixture
def four():
    """Four ranks that all hold item 0, which rank 0 owns."""
    connectivity = random_connectivity(1, 4, seed=0)
    connectivity.pointer, connectivity.parts = np.array([0, 4]), np.arange(4, dtype=np.int32)
    connectivity.owners = np.array([0], dtype=np.int32)
    with LocalCommunicator(4) as communicator:
        yield communicator, communicator.values([np.array([0])] * 4), expand_plan(connectivity)


def test_plans_that_do_not_fit(four):
    communicator, items, plan = four
    rows, numbers = communicator.values([np.ones((1, 2))] * 4), communicator.values([1.0] * 4)
    with pytest.raises(InputError, match="Only an embedded plan carries a payload"):
        expand_allreduce(communicator, communicator.prepare(plan, items), rows, numbers)
    for none in (None, [], "plan", plan.rounds):
        with pytest.raises(InputError, match=r"plan is a .*: give a Plan"):
            embed(none)
    other = embed(expand_plan(random_connectivity(3, 5, seed=0)))
    with pytest.raises(InputError, match="for 5 ranks, the communicator has 4"):
        communicator.prepare(other, items)
    lacking = communicator.values([np.array([0])] * 3 + [np.array([7])])
    with pytest.raises(InputError, match=r"Rank 3 receives item 0 .* numbering lacks it"):
        communicator.prepare(embed(plan), lacking)
    prepared = communicator.prepare(embed(plan), items)
    with pytest.raises(InputError, match="A plan of kind reduce is needed"):
        reduce(communicator, prepared, rows)
    with pytest.raises(InputError, match="0 payload rows in a message; use expand for"):
        expand_allreduce(communicator, prepared, rows, numbers)
    with_room = communicator.prepare(embed(plan, payload_rows=1), items)
    with pytest.raises(InputError, match=r"1 payload rows .* use expand_allreduce"):
        expand(communicator, with_room, rows)


def test_an_embedded_plan_is_embedded_once_and_prepared_as_such():
    """Its rows have numbers of their own: read as items, other rows would travel."""
    connectivity = random_connectivity(3, 2, seed=0)
    connectivity.pointer, connectivity.parts = np.array([0, 0, 0, 2]), np.array([0, 1], np.int32)
    connectivity.owners = np.array([0, 0, 0], dtype=np.int32)
    plan = embed(expand_plan(connectivity), aware=False)
    with pytest.raises(InputError, match="Only a point-to-point expand or reduce"):
        embed(plan)
    with LocalCommunicator(2) as communicator:
        with pytest.raises(InputError, match="prepare it by itself"):
            communicator.prepare_all([plan], communicator.values([np.arange(3)] * 2))


def test_embedded_plans_of_other_items_are_not_equal():
    """Naive ones number their rows alike, whatever items these are of."""
    connectivity = random_connectivity(2, 2, seed=0)
    connectivity.parts, connectivity.owners = np.array([0, 1], np.int32), np.zeros(2, np.int32)
    plans = []
    for pointer in ([0, 2, 2], [0, 0, 2]):
        connectivity.pointer = np.array(pointer)
        plans.append(embed(expand_plan(connectivity), aware=False))
    assert plans[0] == embed(plans[0].carried, aware=False) != plans[1]


@pytest.mark.parametrize(("run", "kind"), [(expand, "expand"), (reduce, "reduce")])
def test_a_plan_of_the_other_kind(four, run, kind):
    """Its rows would overwrite those of owners, or be added where they were to be copied."""
    communicator, items, plan = four
    wrong = communicator.prepare(plan if kind == "reduce" else plan.reversed(), items)
    rows = communicator.values([np.ones((1, 2))] * 4)
    with pytest.raises(InputError, match=f"A plan of kind {kind} is needed"):
        run(communicator, wrong, rows)


def test_payloads_that_do_not_fit(four):
    communicator, items, plan = four
    prepared = communicator.prepare(embed(plan, payload_rows=1), items)
    rows = communicator.values([np.ones((1, 2))] * 4)  # 16 bytes a row
    numbers = communicator.values([1.0] * 4)
    expand_allreduce(communicator, prepared, communicator.map(_same, rows), numbers)
    pairs = communicator.values([np.ones(2)] * 4)
    with pytest.raises(InputError, match=r"has 16 bytes.*1 rows of 16; plan with.*\(16, 16\)"):
        expand_allreduce(communicator, prepared, communicator.map(_same, rows), pairs)
    mixed = communicator.values([1.0, 1.0, 1, 1.0])
    with pytest.raises(InputError, match=r"Ranks [0-3] and [0-3] disagree in the payload \(sum\)"):
        expand_allreduce(communicator, prepared, communicator.map(_same, rows), mixed)


def test_rows_that_do_not_fit(four):
    communicator, items, plan = four
    prepared = communicator.prepare(embed(plan.reversed()), items)
    widths = communicator.values([np.ones((1, 2))] * 3 + [np.ones((1, 3))])
    with pytest.raises(InputError, match=r"Ranks 1 and 3 disagree in routed rows.*\(2,\).*\(3,\)"):
        reduce(communicator, prepared, widths)
    rows = communicator.values([np.ones((1, 2))] * 4)
    with pytest.raises(InputError, match=r"Rank 1 packed an array of shape \(0, 2\) for 1 rows"):
        reduce(communicator, prepared, rows, _pack_nothing)
    up = communicator.prepare(embed(plan), items)
    assert [r.tolist() for r in communicator.gather(expand(communicator, up, rows))] == [
        [[1.0, 1.0]]
    ] * 4  # and it goes on


def _same(rows):
    return rows.copy()


def _pack_nothing(rows, positions):
    return rows[:0]


def test_place_sees_the_owner_as_source(four):
    """The inbox of an embedded expand is that of the direct plan, not of the last hop."""
    communicator, items, plan = four
    prepared = communicator.prepare(embed(plan), items)
    rows = communicator.values([np.ones((1, 2))] * 4)
    seen = expand(communicator, prepared, rows, place=_sources)
    assert communicator.gather(seen) == [[], [0], [0], [0]]


def _sources(rows, inbox):
    place_rows(rows, inbox)
    return list(inbox.sources)


@pytest.mark.parametrize("other", [np.array([[1, 2]]), np.ones((1, 1)), np.ones((1, 2), "f4")])
@pytest.mark.parametrize("goes_out", [True, False])
@pytest.mark.parametrize("embeds", [True, False])
def test_rows_that_numpy_would_make_fit(four, other, goes_out, embeds):
    """Fractions cut off, a number written to a whole row: ranks would hold different things."""
    communicator, items, plan = four
    plan = plan if goes_out else plan.reversed()
    prepared = communicator.prepare(embed(plan) if embeds else plan, items)
    run = expand if goes_out else reduce
    rows = communicator.values([other] + [np.full((1, 2), 1.5)] * 3)
    with pytest.raises(
        InputError, match=r"Ranks 0 and \d disagree in (what they send and hold|routed rows)"
    ):
        communicator.gather(run(communicator, prepared, rows))


def test_messages_of_another_plan():
    """A single row fits as many positions as there are, in NumPy's eyes."""
    half = RankMessages(1, [], [], [0], [np.arange(3)])
    with pytest.raises(InputError, match="Ranks 0 and 1 disagree in a plan: 1 rows sent against 3"):
        half.incoming([np.ones((1, 2))])
