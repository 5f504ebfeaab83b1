"""One text on every transport: the same bits, the plan's own counts, the same errors."""

from __future__ import annotations

import copy
import traceback
from collections import UserList, deque
from functools import partial

import numpy as np
import pytest
import xarray as xr
from exchange_text import (
    EPOCHS,
    N_ITEMS,
    QUANTITIES,
    RANK_COUNTS,
    assert_same_bits,
    expected_counts,
    fail_without_words,
    first_rows,
    random_connectivity,
    run_exchange,
    run_reference,
)

from daskpart import Connectivity
from daskpart.collectives import (
    ANY,
    MAX,
    MIN,
    SUM,
    Exchange,
    LocalCommunicator,
    Reduction,
    allgather,
    allreduce,
    alltoall,
    barrier,
    broadcast,
    embed,
    expand,
    expand_plan,
    hypercube_allreduce,
    pack_rows,
    place_rows,
    reduce,
    reduce_plan,
    reduce_scatter,
)
from daskpart.errors import DivergenceError, InputError, WorkerLostError


def add(left, right, *, factor=1):
    return left + factor * right


def identity(value):
    return value.copy()


def increment(value):
    value += 1
    return value


def diverge_on_odd(value):
    if value % 2:
        raise DivergenceError(f"not finite: {value}")
    return value


@pytest.mark.parametrize("n_ranks", RANK_COUNTS)
def test_same_bits_and_counts_as_the_reference(make_communicator, n_ranks):
    connectivity = random_connectivity(N_ITEMS, n_ranks, seed=n_ranks)
    found = run_exchange(make_communicator(n_ranks), connectivity)
    assert_same_bits(run_reference(connectivity), found)
    for name, count in expected_counts(connectivity).items():
        np.testing.assert_array_equal(found["counts"][name], count, err_msg=name)
    epoch = [("reduce", 0), ("reduce", 0), ("expand", 0), ("allreduce", 0), ("allreduce", 1)]
    assert sorted(found["labels"]) == sorted(EPOCHS * epoch)


def test_another_order_of_ranks_gives_other_bits():
    """The rows are unequal enough for the test above to see a wrong order."""
    rows = [first_rows(np.arange(N_ITEMS), rank) for rank in range(5)]
    assert SUM.fold(rows).tobytes() != SUM.fold(rows[::-1]).tobytes()


def test_allreduce_and_barrier(make_communicator):
    communicator = make_communicator(3)
    numbers = communicator.values([3, 5, 4])
    assert allreduce(communicator, numbers).result() == 12
    assert allreduce(communicator, numbers, MAX).result() == 5
    assert allreduce(communicator, numbers, MIN).result() == 3
    flags = communicator.values([np.array([r == 1, False]) for r in range(3)])
    assert allreduce(communicator, flags, ANY).result().tolist() == [True, False]
    result = allreduce(communicator, numbers)
    assert type(result.result()) is int
    summed = communicator.map(add, numbers, result, factor=2)
    assert communicator.gather(summed) == [27, 29, 28]
    barrier(communicator)
    assert communicator.counters.of("barrier")["messages_sent"].tolist() == [2, 1, 1]
    assert communicator.counters.rows_sent.sum() == 0


def first_of_all(low, high):
    return (low + high).ravel()[:1]


def test_a_reduction_that_makes_another_shape_is_refused(make_communicator):
    """NumPy would write its one row over all."""
    communicator = make_communicator(2)
    wrong = Reduction("first", first_of_all, 0)
    for collective in (allreduce, hypercube_allreduce, reduce_scatter):
        rows = communicator.values([np.ones((2, 3))] * 2)
        with pytest.raises(InputError, match=r"combine of 'first' made shape \(1,\) of"):
            communicator.settle(collective(communicator, rows, reduction=wrong))


@pytest.mark.parametrize("reduction", [SUM, MAX])
def test_lists_come_to_arrays(make_communicator, reduction):
    communicator = make_communicator(3)
    for given in ([[1, 2], [5, 4], [3, 6]], [[1], [2], [3]], [(), (), ()]):
        values, expected = communicator.values(given), reduction.combine.reduce(given)
        found = [allreduce(communicator, values, reduction).result()]
        for halving in (False, True):
            total = hypercube_allreduce(communicator, values, reduction, halving=halving)
            found.extend(communicator.gather(total))
        assert all(isinstance(each, np.ndarray) for each in found)
        assert [each.tolist() for each in found] == [expected.tolist()] * 7


def test_what_is_masked_is_not_taken_for_numbers(make_communicator):
    communicator = make_communicator(2)
    rows = np.ma.array(np.ones((2, 2)), mask=[[0, 0], [0, 1]])
    items = communicator.values([np.array([1, 0])] * 2)
    connectivity = _one_item_of_two_ranks()
    plan = reduce_plan(connectivity)
    prepared = [communicator.prepare(each, items) for each in (plan, embed(plan))]
    for collective in (
        allreduce,
        partial(allreduce, algorithm="hypercube"),
        partial(hypercube_allreduce, halving=True),
        allgather,
        alltoall,
        broadcast,
        reduce_scatter,
        *(lambda comm, given, plan=each: reduce(comm, plan, given) for each in prepared),
    ):
        with pytest.raises(InputError, match=r"hold 1 masked values: fill them"):
            communicator.settle(collective(communicator, communicator.values([rows] * 2)))
    whole = communicator.values([np.ma.array([1, 2])] * 2)  # nothing is masked
    assert allreduce(communicator, whole).result().tolist() == [2, 4]


def test_plans_are_prepared_first(make_communicator):
    communicator = make_communicator(2)
    plan = expand_plan(_one_item_of_two_ranks())
    rows = communicator.values([np.ones((1, 1))] * 2)
    for collective, given in ((expand, plan), (reduce, plan.reversed()), (expand, None)):
        with pytest.raises(InputError, match=r"give what communicator.prepare\(plan, numbering\)"):
            collective(communicator, given, rows)
    with pytest.raises(InputError, match="plan is a SimpleNamespace: give a Plan"):
        communicator.prepare(_one_item_of_two_ranks(), rows)


def test_counters_see_what_was_packed(make_communicator):
    """Bytes are those of the arrays that travelled, not of the state."""
    communicator = make_communicator(3)
    connectivity = random_connectivity(20, 3, seed=0)
    plan = expand_plan(connectivity)
    items = communicator.values([np.arange(20)] * 3)
    prepared = communicator.prepare(plan, items, label="halves")
    rows = communicator.values([np.zeros((20, 4)) for _ in range(3)])
    rows = expand(communicator, prepared, rows, _pack_halves, _ignore)
    communicator.settle(rows)
    counts = communicator.counters.of("halves")
    statistics = plan.statistics()
    assert counts["bytes_sent"].tolist() == (8 * statistics.per_rank("rows_sent")).tolist()
    assert counts["bytes_received"].tolist() == (8 * statistics.per_rank("rows_received")).tolist()
    np.testing.assert_array_equal(communicator.counters.traffic("halves"), plan.traffic())
    assert (communicator.counters.seconds_computing > 0).all()
    communicator.counters.reset()
    assert all(getattr(communicator.counters, name).sum() == 0 for name in QUANTITIES)


def _pack_halves(rows, positions):
    return rows[positions, :2].astype(np.float32)


def _ignore(rows, inbox):
    return rows


def test_what_the_caller_holds_is_never_overwritten(make_communicator):
    communicator = make_communicator(2)
    given = [np.zeros(3), np.zeros(3)]
    state = communicator.update(increment, communicator.values(given))
    assert [array.sum() for array in given] == [0, 0]
    before = communicator.gather(state)
    state = communicator.update(increment, state)
    after = communicator.gather(state)
    assert [array.tolist() for array in before] == [[1, 1, 1]] * 2
    assert [array.tolist() for array in after] == [[2, 2, 2]] * 2


def test_read_only_arrays_are_handed_out_like_others(make_communicator):
    """As of pandas, of a file that is mapped, of a Dask array."""
    communicator = make_communicator(2)
    given = [np.zeros((1, 2)), np.ones((1, 2))]
    for array in given:
        array.flags.writeable = False
    items = communicator.values([np.array([0]), np.array([0])])
    prepared = communicator.prepare(reduce_plan(_one_item_of_two_ranks()), items)
    summed = reduce(communicator, prepared, communicator.values(given))
    more = communicator.update(increment, communicator.values(given))
    assert [a.tolist() for a in communicator.gather(summed)] == [[[1.0, 1.0]]] * 2
    assert [a.tolist() for a in communicator.gather(more)] == [[[1.0, 1.0]], [[2.0, 2.0]]]


class Labelled:
    """``copy()`` shares what it holds, as that of a `Dataset` does, and it is no collection."""

    def __init__(self):
        self.array = np.zeros(2)

    def __getitem__(self, place):
        return self.array

    def copy(self):
        return copy.copy(self)

    def __deepcopy__(self, memo):
        new = Labelled()
        new.array = self.array.copy()
        return new


def object_array():
    array = np.empty(1, object)
    array[0] = np.zeros(2)
    return array


def first_to_nines(held):
    """Overwrites what a container contains, or a labelled array."""
    array = held["x"].values if isinstance(held, xr.Dataset) else held[0]
    array[:] = 9
    return held


@pytest.mark.parametrize(
    "make",
    [
        lambda: deque([np.zeros(2)]),
        lambda: UserList([np.zeros(2)]),
        object_array,
        lambda: xr.Dataset({"x": ("a", np.zeros(2))}),
        Labelled,
    ],
    ids=["deque", "UserList", "objects", "Dataset", "labelled"],
)
def test_a_copy_shares_nothing_of_what_is_contained(make_communicator, make):
    """``copy()`` of these shares the arrays in them, which an `update` overwrites."""
    communicator = make_communicator(2)
    given = [make(), make()]
    state = communicator.update(first_to_nines, communicator.values(given))
    for brought in communicator.gather(state):  # copies, too: so the state is the same after
        (brought["x"].values if isinstance(brought, xr.Dataset) else brought[0])[:] = 5
    for held, expected in ((given, 0), (communicator.gather(state), 9)):
        arrays = [each["x"].values if isinstance(each, xr.Dataset) else each[0] for each in held]
        assert [array.tolist() for array in arrays] == [[expected] * 2] * 2


def test_local_update_works_in_place():
    with LocalCommunicator(2) as communicator:
        state = communicator.map(identity, communicator.values([np.zeros(3), np.zeros(3)]))
        arrays = state.content
        assert all(
            new is old
            for new, old in zip(communicator.update(increment, state).content, arrays, strict=True)
        )


def test_messages_keep_what_was_posted(make_communicator):
    """A state may be overwritten between post and collect, even if `pack` gives a view."""
    communicator = make_communicator(2)
    connectivity = _one_item_of_two_ranks()
    items = communicator.values([np.array([0]), np.array([0])])
    prepared = communicator.prepare(expand_plan(connectivity), items)
    state = communicator.map(
        identity, communicator.values([np.full((1, 1), 5.0), np.zeros((1, 1))])
    )
    pending = communicator.post(prepared.rounds[0], state, _pack_all_as_view)
    state = communicator.update(increment, state)
    state = communicator.collect(pending, state, place_rows)
    assert [float(rows[0, 0]) for rows in communicator.gather(state)] == [6.0, 5.0]


def test_large_rows_that_lie_together(make_communicator):
    """A transport need neither pack nor place them; it shows in nothing but the time."""
    n_ranks, n_rows, width = 3, 2, 40_000  # 160 kB a row, 320 kB a message
    items = np.arange(n_ranks * n_rows)
    everyone = np.tile(np.arange(n_ranks, dtype=np.int32), len(items))
    connectivity = Connectivity.from_pairs(
        np.repeat(items, n_ranks).astype(np.int32), everyone, len(items), n_ranks
    )
    numberings = [items, items, items[::-1].copy()]  # on rank 2 they lie the other way round
    communicator = make_communicator(n_ranks)
    prepared = communicator.prepare(
        expand_plan(connectivity, items // n_rows), communicator.values(numberings)
    )
    rng = np.random.default_rng(0)
    given = [rng.random((len(items), width), np.float32) for _ in range(n_ranks)]
    state = expand(communicator, prepared, communicator.values(given))
    state = communicator.update(increment, state)  # while messages may be on their way
    found = communicator.gather(expand(communicator, prepared, state))
    for rank, numbering in enumerate(numberings):
        for place, item in enumerate(numbering):
            owner = item // n_rows
            expected = given[owner][numberings[owner] == item][0] + np.float32(1)
            assert found[rank][place].tobytes() == expected.tobytes()


def _pack_all_as_view(rows, positions):
    return rows[:]


def _one_item_of_two_ranks():
    connectivity = random_connectivity(1, 2, seed=0)
    connectivity.pointer, connectivity.parts = np.array([0, 2]), np.array([0, 1], dtype=np.int32)
    connectivity.owners = np.array([0], dtype=np.int32)
    return connectivity


def test_errors_name_the_rank_and_keep_their_type(make_communicator):
    communicator = make_communicator(4)
    numbers = communicator.values([0, 2, 3, 4])
    with pytest.raises(DivergenceError, match="not finite: 3") as caught:
        communicator.gather(communicator.map(diverge_on_odd, numbers))
    assert any("on rank 2" in note for note in caught.value.__notes__)
    assert communicator.gather(numbers) == [0, 2, 3, 4]  # it goes on


def test_an_error_that_cannot_say_what_it_is(make_communicator):
    communicator = make_communicator(4)
    numbers = communicator.values([0, 2, 3, 4])
    with pytest.raises(Exception) as caught:
        communicator.gather(communicator.map(fail_without_words, numbers))
    told = "".join(traceback.format_exception(caught.value))
    assert "on rank 2" in told and "WordlessError" in told
    assert not isinstance(caught.value, ZeroDivisionError | WorkerLostError)
    assert communicator.gather(numbers) == [0, 2, 3, 4]


def test_ranks_that_disagree(make_communicator):
    communicator = make_communicator(3)
    shapes = communicator.values([np.zeros(2), np.zeros(3), np.zeros(2)])
    with pytest.raises(InputError, match=r"Ranks 0 and 1 disagree.*\(2,\).*\(3,\)"):
        allreduce(communicator, shapes).result()
    dtypes = communicator.values([np.zeros(2), np.zeros(2), np.zeros(2, dtype=np.float32)])
    with pytest.raises(InputError, match=r"Ranks 0 and 2 disagree.*float64.*float32"):
        allreduce(communicator, dtypes).result()
    words = communicator.values(["ab", "cd", "ef"])
    with pytest.raises(InputError, match="dtype <U2 don't combine"):
        allreduce(communicator, words).result()
    for dtype, reduction in (([("row", int)], ANY), ("M8[s]", SUM)):
        values = communicator.values([np.zeros(2, dtype)] * 3)
        with pytest.raises(InputError, match="don't combine"):
            allreduce(communicator, values, reduction).result()

    connectivity = random_connectivity(1, 3, seed=0)
    connectivity.pointer, connectivity.parts = np.array([0, 3]), np.arange(3, dtype=np.int32)
    connectivity.owners = np.array([0], dtype=np.int32)
    items = communicator.values([np.array([0])] * 3)
    prepared = communicator.prepare(reduce_plan(connectivity), items)
    rows = communicator.values([np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 3))])
    with pytest.raises(InputError, match=r"Ranks 1 and 2 disagree.*to rank 0.*\(2,\).*\(3,\)"):
        pending = communicator.post(prepared.rounds[0], rows, pack_rows)
        communicator.gather(communicator.collect(pending, rows, place_rows))
    with pytest.raises(InputError, match=r"Rank [12] packed an array of shape"):
        rows = communicator.values([np.zeros((1, 2))] * 3)
        pending = communicator.post(prepared.rounds[0], rows, _pack_nothing)
        communicator.gather(communicator.collect(pending, rows, place_rows))


def _pack_nothing(rows, positions):
    return rows[:0]


def test_plans_that_do_not_fit(make_communicator):
    communicator = make_communicator(3)
    items = communicator.values([np.arange(N_ITEMS)] * 3)
    with pytest.raises(InputError, match="for 4 ranks, the communicator has 3"):
        communicator.prepare(expand_plan(random_connectivity(N_ITEMS, 4, seed=0)), items)
    plan = expand_plan(random_connectivity(N_ITEMS, 3, seed=0))
    lacking = communicator.values([np.arange(N_ITEMS), np.arange(N_ITEMS), np.arange(2)])
    with pytest.raises(InputError, match=r"Rank 2 .* item .* its numbering lacks it"):
        communicator.settle(communicator.prepare(plan, lacking).rounds[0].messages)
    twice = communicator.values([np.array([0, 1, 1])] * 3)
    with pytest.raises(InputError, match="names item 1 twice"):
        communicator.settle(communicator.prepare(plan, twice).rounds[0].messages)
    for wrong in (np.arange(4).reshape(2, 2), np.arange(3.0)):
        with pytest.raises(InputError, match="A numbering is a 1-d integer array"):
            numbering = communicator.values([wrong] * 3)
            communicator.settle(communicator.prepare(plan, numbering).rounds[0].messages)
    with pytest.raises(InputError, match="2 plans need as many labels, got 1"):
        communicator.prepare_all([plan, plan], items, ["one"])


def test_misuse_is_told_at_once(make_communicator):
    communicator, other = make_communicator(2), make_communicator(2)
    values = communicator.values([np.zeros(1), np.ones(1)])
    with pytest.raises(InputError, match="2 ranks need as many values, got 3"):
        communicator.values([1, 2, 3])
    for wrong in ({0: "a", 1: "b"}, {"a", "b"}, "ab"):
        with pytest.raises(InputError, match=f"values are a {type(wrong).__name__}: give a list"):
            communicator.values(wrong)
    with pytest.raises(InputError, match="values is 2: give a list of 2"):
        communicator.values(2)
    with pytest.raises(InputError, match="not a per-rank value"):
        communicator.map(add, values, 3)
    with pytest.raises(InputError, match="pass those by position"):
        communicator.map(add, values, right=values)
    with pytest.raises(InputError, match="another communicator"):
        other.map(identity, values)
    state = communicator.update(increment, values)
    for given in ((values, state), (state, values)):
        with pytest.raises(InputError, match="given to update or collect before"):
            communicator.map(add, *given)
    items = communicator.values([np.array([0]), np.array([0])])
    prepared = communicator.prepare(expand_plan(_one_item_of_two_ranks()), items)
    pending = communicator.post(prepared.rounds[0], state, pack_rows)
    with pytest.raises(InputError, match="posted on another communicator"):
        other.collect(pending, other.values([np.zeros(1)] * 2), place_rows)
    state = communicator.collect(pending, state, place_rows)
    with pytest.raises(InputError, match="collected before"):
        communicator.collect(pending, state, place_rows)
    pending = communicator.post(prepared.rounds[0], state, pack_rows)
    with pytest.raises(InputError, match="given to update or collect before"):
        communicator.collect(pending, values, place_rows)
    with pytest.raises(InputError, match="pass those by position"):
        communicator.collect(pending, state, place_rows, more=state)
    state = communicator.collect(pending, state, place_rows)
    with pytest.raises(InputError, match="Got Round: give a round of what prepare"):
        communicator.post(prepared.plan.rounds[0], state, pack_rows)
    with pytest.raises(InputError, match="Got NoneType: give what post or post_values gave"):
        communicator.collect(None, state, place_rows)
    with pytest.raises(InputError, match="Got list: give an Exchange"):
        communicator.post_values([(0, 1)], state, pack_rows)
    with pytest.raises(InputError, match="An exchange of 3 ranks on 2 ranks"):
        communicator.post_values(Exchange.from_pairs(3, [(0, 1)]), state, pack_rows)
    communicator.close()
    with pytest.raises(InputError, match="closed"):
        communicator.map(identity, state)


def test_of_many_cached_things_the_oldest_are_made_again():
    made = []
    with LocalCommunicator(1) as communicator:
        for key in [*range(64), 1, 64, 1, 0]:
            assert communicator.cached(key, lambda key=key: made.append(key) or key) == key
    assert made == [*range(65), 0]


def test_what_all_ranks_hold_alike_is_no_value_of_each_rank(make_communicator):
    """Transports would make different things of it: K times the value, or the value itself."""
    communicator = make_communicator(2)
    same, pairs = communicator.replicated(3), Exchange.from_pairs(2, [(0, 1)])
    for call in (
        lambda: allreduce(communicator, same),
        lambda: hypercube_allreduce(communicator, same),
        lambda: communicator.fold(same, sum),
        lambda: communicator.gather(same),
        lambda: communicator.update(increment, same),
        lambda: communicator.assume_replicated(same),
        lambda: communicator.post_values(pairs, same, pack_rows),
    ):
        with pytest.raises(InputError, match="Argument 0 is a replicated value, the same for all"):
            communicator.settle(call())


def test_what_ranks_hold_is_no_part_of_another_value(make_communicator):
    communicator = make_communicator(2)
    values = communicator.values([1, 2])
    for part in (values, communicator.replicated(3)):
        with pytest.raises(InputError, match="can't be part of a value that is handed out"):
            communicator.replicated({"part": part})
        with pytest.raises(InputError, match="is neither true nor false, as it lies on the ranks"):
            bool(part)
        for compared in (lambda part=part: part == values, lambda part=part: 3 != part):
            with pytest.raises(InputError, match="can't be compared, as it lies on the ranks"):
                compared()
        assert part in {part: 1}
    with LocalCommunicator(2) as local:
        lists = local.values([[values], [values]])
        with pytest.raises(InputError, match="can't be part of a value that is handed out"):
            local.gather(lists)
    assert allreduce(communicator, values).result() == 3


def test_a_collective_says_where_its_communicator_comes(make_communicator):
    values = make_communicator(2).values([1, 2])
    with pytest.raises(InputError, match="allgather got PerRank where its communicator comes"):
        allgather(values)


@pytest.mark.parametrize("n_ranks", [0, -1, 1.5, True, "4"])
def test_bad_numbers_of_ranks(n_ranks):
    with pytest.raises(InputError, match="positive integer"):
        LocalCommunicator(n_ranks)


def test_many_ranks_in_the_simulator():
    """512 ranks one after another: the plan's counts, and a clock that knows who waits."""
    connectivity = random_connectivity(60, 512, seed=1)
    plan = reduce_plan(connectivity)
    with LocalCommunicator(512, n_threads=1) as communicator:
        items = communicator.values([np.arange(60)] * 512)
        rows = communicator.map(_ones, items)
        prepared = communicator.prepare(plan, items)
        pending = communicator.post(prepared.rounds[0], rows, pack_rows)
        communicator.collect(pending, rows, _ignore)
        counters = communicator.counters
        np.testing.assert_array_equal(counters.traffic(), plan.traffic())
        owners = np.unique(plan.rounds[0].destination)
        assert (counters.seconds_blocked[owners] >= 0).all()
        assert counters.seconds_blocked.sum() > 0


def _ones(items):
    return np.ones((len(items), 1))
