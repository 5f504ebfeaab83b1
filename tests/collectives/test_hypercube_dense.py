"""The allreduce by recursive doubling: one result on all ranks, counts of the plan."""

from __future__ import annotations

import numpy as np
import pytest
from exchange_text import WEAVE, weave

from daskpart.collectives import (
    ANY,
    MAX,
    MIN,
    SUM,
    GraphCommunicator,
    LocalCommunicator,
    Reduction,
    allreduce,
    hypercube_allreduce,
    hypercube_allreduce_plan,
    sparse_allreduce,
)
from daskpart.collectives.sparse_steps import ALGORITHMS
from daskpart.errors import InputError


def unequal(rank, shape=(4, 2)):
    """Numbers of very unequal size, so that another order of adding gives other bits."""
    random = np.random.default_rng(rank)
    return random.standard_normal(shape) * 10.0 ** random.integers(-6, 7, shape)


def in_order_of_the_cube(values, combine):
    """The same expression, written with recursion: halves of the cube, the lower first."""
    size = 1 << (len(values).bit_length() - 1)
    folded = list(values[:size])
    for rank in range(size, len(values)):
        folded[rank - size] = combine(folded[rank - size], values[rank])

    def halves(part):
        if len(part) == 1:
            return part[0]
        middle = len(part) // 2
        return combine(halves(part[:middle]), halves(part[middle:]))

    return halves(folded)


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 8])
def test_allreduce_on_every_transport(make_communicator, n_ranks):
    communicator = make_communicator(n_ranks)
    given = [unequal(rank) for rank in range(n_ranks)]
    values = communicator.values(given)
    found = communicator.gather(hypercube_allreduce(communicator, values))
    expected = in_order_of_the_cube(given, np.add)
    assert [array.tobytes() for array in found] == [expected.tobytes()] * n_ranks
    np.testing.assert_allclose(found[0], np.sum(given, axis=0), rtol=1e-9, atol=1e-9)
    counted = communicator.counters.of("hypercube allreduce")
    planned = hypercube_allreduce_plan(n_ranks).statistics()
    for side in ("sent", "received"):
        messages = planned.per_rank(f"messages_{side}")
        np.testing.assert_array_equal(counted[f"messages_{side}"], messages)
        np.testing.assert_array_equal(counted[f"rows_{side}"], planned.per_rank(f"rows_{side}"))
        np.testing.assert_array_equal(counted[f"bytes_{side}"], given[0].nbytes * messages)


@pytest.mark.parametrize("n_ranks", [4, 5])
def test_many_sizes_in_one_batch_and_after_an_error(make_communicator, n_ranks):
    """Short and long arrays in turn, more forms than are kept ready, with one that fails."""
    communicator = make_communicator(n_ranks)
    graph = isinstance(communicator, GraphCommunicator)  # a task a step is slow
    sizes = [*range(1, 5), 3, 9000, 1, 0, 2, *range(5, 10 if graph else 42)]
    given = [[unequal(rank, size) for rank in range(n_ranks)] for size in sizes]
    totals = [hypercube_allreduce(communicator, communicator.values(v)) for v in given]
    communicator.settle(*totals)
    wrong = communicator.values([np.zeros(2 if rank else 3) for rank in range(n_ranks)])
    with pytest.raises(InputError, match="disagree"):
        communicator.gather(hypercube_allreduce(communicator, wrong))
    again = hypercube_allreduce(communicator, communicator.values(given[0]))
    for values, total in zip([*given, given[0]], [*totals, again], strict=True):
        expected = in_order_of_the_cube(values, np.add).tobytes()
        assert [array.tobytes() for array in communicator.gather(total)] == [expected] * n_ranks


@pytest.mark.parametrize("n_ranks", [1, 4, 5])
def test_reductions_dtypes_and_shapes_in_turn_in_one_batch(make_communicator, n_ranks):
    """Each call must be merged its own way, though label and ranks are the same."""
    communicator = make_communicator(n_ranks)
    calls = [
        (reduction, dtype, shape)
        for shape in ((), (2, 2))
        for dtype in (np.float64, np.int64, np.dtype(">f4"))
        for reduction in (SUM, MAX, WEAVE, SUM)
    ]
    given, totals = [], []
    for place, (reduction, dtype, shape) in enumerate(calls):
        random = np.random.default_rng(place)
        given.append([np.array(random.integers(0, 99, shape), dtype) for _ in range(n_ranks)])
        values = communicator.values(given[-1])
        totals.append(hypercube_allreduce(communicator, values, reduction))
    communicator.settle(*totals)
    for (reduction, dtype, shape), values, total in zip(calls, given, totals, strict=True):
        expected = np.asarray(in_order_of_the_cube(values, reduction.combine), dtype)
        for found in communicator.gather(total):
            assert (found.dtype, found.shape) == (dtype, shape)
            assert found.tobytes() == expected.tobytes()


def larger(low, high):
    """Of arrays: numba, which compiles functions of numbers, does not know `out`."""
    found = np.empty_like(low)
    np.maximum(low, high, out=found)
    return found


@pytest.mark.parametrize("dtype", ["u1", "f8", "c16", "M8[D]"])
def test_a_function_of_arrays_is_called_with_arrays_where_they_are_halved(make_communicator, dtype):
    communicator = make_communicator(5)
    given = [np.arange(rank, rank + 6).astype(dtype).reshape(2, 3) for rank in range(5)]
    total = hypercube_allreduce(
        communicator, communicator.values(given), Reduction("larger", larger, 0), halving=True
    )
    for found in communicator.gather(total):
        np.testing.assert_array_equal(found, given[-1])


def lower_ranks(low, high):
    return low


def view_of_higher_ranks(low, high):
    return high[...]


@pytest.mark.parametrize("combine", [lower_ranks, view_of_higher_ranks])
@pytest.mark.parametrize("halving", [False, True])
def test_a_function_may_give_back_what_it_was_given(make_communicator, combine, halving):
    """Which stays the rank's own: neither marked read-only, nor overwritten with the result."""
    communicator = make_communicator(4)
    given = [np.full(3, float(rank)) for rank in range(4)]
    values = communicator.map(np.copy, communicator.values(given))
    held = communicator.values(given)
    for each in (values, held):
        total = hypercube_allreduce(
            communicator, each, Reduction("one", combine, 0), halving=halving
        )
        total = communicator.update(overwritten, total, each)
        communicator.settle(total)
        assert [array.tolist() for array in communicator.gather(each)] == [
            [rank] * 3 for rank in range(4)
        ]
    assert all(array.flags.writeable for array in given)
    communicator.settle(communicator.update(overwritten, values, held))  # as its own may be


@pytest.mark.parametrize("n_ranks", [*range(1, 18)])
def test_any_number_of_ranks_and_reduction(n_ranks):
    with LocalCommunicator(n_ranks, n_threads=1) as communicator:
        for reduction, dtype in ((SUM, int), (MAX, float), (MIN, np.int8), (ANY, bool)):
            given = [unequal(rank, 5).astype(dtype) for rank in range(n_ranks)]
            values = communicator.values(given)
            found = communicator.gather(hypercube_allreduce(communicator, values, reduction))
            for array in found:
                np.testing.assert_array_equal(array, in_order_of_the_cube(given, reduction.combine))
                assert array.dtype == given[0].dtype


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("dtype", ["?", "i1", "i8", "f4"])
def test_whether_any_is_true_does_not_depend_on_the_way(n_ranks, dtype):
    """Numbers that are true are 1 in what comes out, of the dtype that went in, also -0.0 and 2."""
    random = np.random.default_rng(n_ranks)
    given = random.choice(np.array([0.0, 0.0, -0.0, 1.0, 2.0, -3.0]), (n_ranks, 40)).astype(dtype)
    expected = (given != 0).any(0).astype(dtype)
    with LocalCommunicator(n_ranks, n_threads=1) as communicator:
        values = communicator.values(list(given))
        found = {
            "star": allreduce(communicator, values, ANY).result(),
            "hypercube": allreduce(communicator, values, ANY, algorithm="hypercube").result(),
            "halving": communicator.gather(
                hypercube_allreduce(communicator, values, ANY, halving=True)
            )[-1],
        }
        for algorithm in ALGORITHMS:
            total = sparse_allreduce(
                communicator, values, ANY, algorithm=algorithm, switch_density=0.5
            )
            found[algorithm] = communicator.gather(total)[0].to_numpy()
        for way, array in found.items():
            assert array.dtype == dtype, way
            assert array.tobytes() == expected.tobytes(), way
        number = allreduce(communicator, communicator.values([2] * n_ranks), ANY).result()
        assert (number, type(number)) == (1, int)


@pytest.mark.parametrize("n_ranks", [2, 3, 4, 5, 8, 13])
def test_the_lower_ranks_value_comes_first(n_ranks):
    with LocalCommunicator(n_ranks) as communicator:
        values = communicator.values(list(range(1, n_ranks + 1)))
        found = hypercube_allreduce(communicator, values, WEAVE)
        expected = in_order_of_the_cube(list(range(1, n_ranks + 1)), weave)
        assert communicator.gather(found) == [expected] * n_ranks


@pytest.mark.parametrize("halving", [False, True])
@pytest.mark.parametrize("n_ranks", [1, 2, 3])
def test_a_result_is_the_ranks_own(make_communicator, n_ranks, halving):
    """Whoever writes into it changes neither what was given nor what others have."""
    given = [np.full(8, 1.0 + rank) for rank in range(n_ranks)]
    communicator = make_communicator(n_ranks)
    values = communicator.values(given)
    totals = hypercube_allreduce(communicator, values, halving=halving)
    emptied = communicator.update(_emptied, totals)
    assert [found.tolist() for found in communicator.gather(emptied)] == [[0.0] * 8] * n_ranks
    for one, other in zip(communicator.gather(values), given, strict=True):
        np.testing.assert_array_equal(one, other)
    assert [each[0] for each in given] == [1.0 + rank for rank in range(n_ranks)]


def _emptied(total):
    before = total.sum()
    total[:] = 0
    assert before > 0
    return total


def test_numbers_stay_numbers_and_rounds_have_the_label():
    with LocalCommunicator(3) as communicator:
        values = communicator.values([1, 2, 4])
        total = hypercube_allreduce(communicator, values)
        assert communicator.gather(total) == [7, 7, 7]
        assert type(communicator.gather(total)[0]) is int
        assert communicator.gather(hypercube_allreduce(communicator, values, MAX)) == [4, 4, 4]
        hypercube_allreduce(communicator, values, label="norms")
        assert communicator.counters.of("norms")["messages_sent"].tolist() == [2, 1, 1]


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 8])
def test_halving_gives_the_bits_of_doubling_and_sends_less(make_communicator, n_ranks):
    communicator = make_communicator(n_ranks)
    given = [unequal(rank, (5, 7)) for rank in range(n_ranks)]
    values = communicator.values(given)
    found = communicator.gather(hypercube_allreduce(communicator, values, halving=True))
    expected = in_order_of_the_cube(given, np.add)
    assert [array.tobytes() for array in found] == [expected.tobytes()] * n_ranks
    assert all(array.shape == (5, 7) and array.flags.writeable for array in found)
    np.testing.assert_array_equal(given[0], unequal(0, (5, 7)))
    core = 1 << (n_ranks.bit_length() - 1)
    n_bits = core.bit_length() - 1
    counted = communicator.counters.of("hypercube allreduce")
    for rank in range(n_ranks):
        folds = n_ranks - core > rank % core and n_ranks > core
        messages = 1 if rank >= core else 2 * n_bits + folds
        assert counted["messages_sent"][rank] == messages
    # 35 (core - 1) values go down, and as many come up
    values_sent = 2 * 35 * (core - 1) + 2 * 35 * (n_ranks - core)
    assert counted["rows_sent"].sum() == values_sent
    assert counted["bytes_sent"].sum() == 8 * values_sent


def overwritten(total, given):
    """The result belongs to its rank alone, which may do with it what it likes."""
    total -= given
    return total


@pytest.mark.parametrize("n_ranks", [2, 4, 5, 8])
def test_long_arrays_are_halved_again_and_again(make_communicator, n_ranks):
    """So long that over MPI the halves arrive in the result itself."""
    communicator = make_communicator(n_ranks)
    given = [unequal(rank, (3, 7001)) for rank in range(n_ranks)]
    values, expected = communicator.values(given), list(given)
    for reduction in (SUM, Reduction("halves", halves_of, 0)):
        total = in_order_of_the_cube(expected, reduction.combine)
        expected = [total - own for own in expected]
        found = hypercube_allreduce(communicator, values, reduction, halving=True)
        values = communicator.update(overwritten, found, values)
    for one, other in zip(expected, communicator.gather(values), strict=True):
        assert one.tobytes() == other.tobytes()
    columns = [np.zeros((7001 + rank // 2, 3)) for rank in range(n_ranks)]
    if n_ranks > 2:
        with pytest.raises(InputError, match=r"Ranks \d and \d disagree.*\(700\d, 3\)"):
            wrong = hypercube_allreduce(communicator, communicator.values(columns), halving=True)
            communicator.gather(wrong)


def halves_of(low, high):
    return 0.5 * low + 0.25 * high


def test_ranks_that_disagree():
    with LocalCommunicator(5) as communicator:
        shapes = communicator.values([np.zeros(2)] * 4 + [np.zeros(3)])
        with pytest.raises(InputError, match=r"Ranks 0 and 4 disagree.*\(sum\).*\(2,\).*\(3,\)"):
            hypercube_allreduce(communicator, shapes)
        dtypes = communicator.values([0.0, 0.0, 0, 0, 0.0])
        with pytest.raises(InputError, match=r"disagree.*float64.*int64"):
            hypercube_allreduce(communicator, dtypes)
        columns = communicator.values([np.zeros((4, 1))] + [np.zeros(4)] * 4)
        with pytest.raises(InputError, match=r"Ranks 0 and .*\(4, 1\).*\(4,\)"):
            hypercube_allreduce(communicator, columns, halving=True)


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 8])
def test_agreed_results_go_on_as_replicated(make_communicator, n_ranks):
    """`allreduce` by the hypercube: the driver reads it, and every rank goes on with its own."""
    communicator = make_communicator(n_ranks)
    given = [unequal(rank) for rank in range(n_ranks)]
    values = communicator.values(given)
    communicator.counters.reset()
    total = allreduce(communicator, values, SUM, algorithm="hypercube")
    halves = communicator.map(half_of, values, total)
    expected = in_order_of_the_cube(given, np.add)
    assert total.result().tobytes() == expected.tobytes()
    for one, held in zip(given, communicator.gather(halves), strict=True):
        assert held.tobytes() == ((one + expected) / 2).tobytes()
    planned = hypercube_allreduce_plan(n_ranks).statistics()
    np.testing.assert_array_equal(  # nothing travels but what the plan says
        communicator.counters.messages_sent, planned.per_rank("messages_sent")
    )
    numbers = communicator.values(list(range(n_ranks)))
    assert type(allreduce(communicator, numbers, MAX, algorithm="hypercube").result()) is int
    total = hypercube_allreduce(communicator, values)
    communicator.assume_replicated(total)
    with pytest.raises(InputError, match="given to update or collect before"):
        communicator.map(half_of, values, total)
    with pytest.raises(InputError, match="use one of 'star', 'hypercube'"):
        allreduce(communicator, values, algorithm="ring")


def half_of(value, total):
    return (value + total) / 2
