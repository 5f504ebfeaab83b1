"""Texts that are handed over whole: the same on every transport, whatever they take and return."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from exchange_text import blas_threads, first_rows, items_of_ranks, random_connectivity
from spmd_steps import (
    assert_ranks_that_combine_differently_are_told,
    assert_ranks_that_disagree_are_told,
    fail_without_notes,
)

from daskpart.collectives import (
    MAX,
    LocalCommunicator,
    allgather,
    allreduce,
    barrier,
    cost_measurement,
    cost_model_of,
    expand,
    expand_plan,
    hypercube_allreduce,
    reduce,
    reduce_plan,
    sparse_allreduce,
)
from daskpart.collectives.messages import Exchange
from daskpart.collectives.transports import threads
from daskpart.errors import InputError


@dataclass
class Model:
    """Holds a per-rank value, as texts of models do."""

    rows: Any
    note: str


def increment(value):
    value += 1
    return value


def iterate(comm, model, plans, *, n):
    """Exchanges, a look at a result in every iteration, and a result that decides."""
    looked = []
    for _ in range(n):
        rows = expand(comm, plans["expand"], model.rows)
        rows = reduce(comm, plans["reduce"], rows, reduction=MAX)
        model = Model(comm.update(increment, rows), model.note + ".")
        norm = allreduce(comm, comm.map(np.sum, model.rows)).result()
        looked.append(norm)
        if norm > 40 * comm.n_ranks:
            break
    return model, looked, allreduce(comm, comm.map(np.sum, model.rows))


def run_model(communicator, n_ranks):
    connectivity = random_connectivity(23, n_ranks, seed=n_ranks)
    items = communicator.values(items_of_ranks(connectivity))
    ranks = communicator.values(list(range(n_ranks)))
    prepared = communicator.prepare_all(
        [expand_plan(connectivity), reduce_plan(connectivity)], items
    )
    plans = dict(zip(("expand", "reduce"), prepared, strict=True))
    model = Model(communicator.map(first_rows, items, ranks), "")
    results = []
    for n in (2, 5):
        model, looked, last = communicator.run(iterate, model, plans, n=n)
        results.append((looked, last.result(), model.note))
    rows = [array.tobytes() for array in communicator.gather(model.rows)]
    return rows, results, communicator.counters.traffic(quantity="bytes").tolist()


@pytest.mark.parametrize("n_ranks", [1, 2, 3, 4, 5, 8])
def test_a_text_of_many_iterations(make_communicator, n_ranks):
    with LocalCommunicator(n_ranks, n_threads=1) as local:
        expected = run_model(local, n_ranks)
    assert run_model(make_communicator(n_ranks), n_ranks) == expected


def test_steps_have_one_blas_thread(make_communicator):
    communicator = make_communicator(3)
    held = communicator.map(blas_threads, communicator.values([0, 1, 2]))
    assert communicator.gather(held) == [1, 1, 1]


def sparse_sums(comm, vectors, *, n):
    """`auto` chooses in the text; on ranks no trip to the driver is in between."""
    return [sparse_allreduce(comm, vectors) for _ in range(n)][-1]


def measure_with(constants):
    for name, value in constants.items():
        setattr(cost_measurement, name, value)


def test_auto_chooses_on_the_ranks(make_communicator, rough_cost_model):
    communicator = make_communicator(3)
    # processes of ranks too take few turns, and from here on
    communicator.settle(communicator.map(measure_with, communicator.values([rough_cost_model] * 3)))
    vectors = communicator.values([([rank, 5], [1.0, 2.0], 9) for rank in range(3)])
    cost_model_of(communicator)
    runs = getattr(communicator, "_run", None)
    total = communicator.run(sparse_sums, vectors, n=2)
    if isinstance(runs, int):
        assert communicator._run == runs + 1
    assert communicator.gather(total)[1].to_numpy().tolist() == [1, 1, 1, 0, 0, 6, 0, 0, 0]


def post_only(comm, values, exchange):
    return comm.post_values(exchange, values, lambda value, s, d: (value,))


def nested(comm, values):
    inner = comm.run(lambda c, v: (hypercube_allreduce(c, v), "inner"), values)
    return comm.run(allgather, inner[0]), inner[1], comm.gather(values)


def test_texts_in_texts_and_functions_without_a_module(make_communicator):
    communicator = make_communicator(4)
    values = communicator.values([1, 2, 3, 4])
    gathered, word, given = communicator.run(nested, values)
    assert communicator.gather(gathered)[2].tolist() == [10] * 4
    assert (word, given) == ("inner", [1, 2, 3, 4])


def spend(comm, state):
    comm.update(increment, state)


def test_what_a_text_has_spent_is_spent(make_communicator):
    communicator = make_communicator(2)
    state = communicator.values([np.zeros(1), np.zeros(1)])
    communicator.run(spend, state)
    with pytest.raises(InputError, match="overwritten"):
        communicator.gather(communicator.map(np.array, state))


def twice_itself(comm, values):
    return values, values


def test_a_value_that_a_text_gives_back_is_the_one_that_it_was_given(make_communicator):
    communicator = make_communicator(2)
    values = communicator.values([1, 2])
    for _ in range(2):  # dropped each time, it is still held
        one, other = communicator.run(twice_itself, values)
        assert communicator.gather(one) == communicator.gather(values) == [1, 2]
        del one
        assert communicator.gather(other) == [1, 2]
        del other
    assert communicator.gather(values) == [1, 2]


def test_a_value_of_another_communicator_is_refused(make_communicator):
    communicator, other = make_communicator(2), make_communicator(2)
    with pytest.raises(InputError, match="another communicator"):
        communicator.settle(communicator.run(lambda c, v: c.map(np.array, v), other.values([1, 2])))


def test_a_text_does_not_close_what_it_runs_on():
    with threads.ThreadsCommunicator(2) as comm:
        with pytest.raises(InputError, match="close it where it was made"):
            comm.run(lambda c: c.close())
        held = comm.run(lambda c, v: c.map(np.negative, v), comm.values([1, 2]))
        assert comm.gather(held) == [-1, -2]


def test_a_communicator_says_what_it_is():
    with LocalCommunicator(3) as comm:
        assert repr(comm) == "<LocalCommunicator of 3 ranks>"
        assert repr(comm.values([1, 2, 3])) == "<PerRank of 3 ranks>"
    assert repr(LocalCommunicator(1)) == "<LocalCommunicator of 1 rank>"


@pytest.mark.parametrize("n_ranks", [2, 3])
def test_a_rank_of_threads_that_fails_outside_of_its_text(n_ranks):
    with threads.ThreadsCommunicator(n_ranks) as comm:
        values = comm.values(list(range(n_ranks)))
        for _ in range(2):
            with pytest.raises(OSError, match="no words"):
                comm.run(fail_without_notes, values)
        assert allreduce(comm, values).result() == sum(range(n_ranks))


def post_and_return(comm, values, *, kept):
    exchange = Exchange.from_pairs(3, [(0, 1), (0, 2)])
    given = comm.map(lambda value: (np.array([value]),), values)
    pending = comm.post_values(exchange, given, lambda value, source, to: [value] * len(to))
    return pending if kept else None


def test_messages_wait_as_long_as_somebody_may_collect_them():
    with threads.ThreadsCommunicator(3) as comm:
        values = comm.values([4, 5, 6])
        held = [comm.run(post_and_return, values, kept=True)]
        comm.run(post_and_return, values, kept=False)
        for waiting in ([0, 1, 1], [0, 0, 0]):
            assert comm.gather(comm.map(abs, values)) == [4, 5, 6]
            assert [len(mailbox) for mailbox in comm._mailboxes] == waiting
            held.clear()


def test_ranks_of_threads_that_disagree():
    with threads.ThreadsCommunicator(3) as comm:
        assert_ranks_that_disagree_are_told(comm)
        assert_ranks_that_combine_differently_are_told(comm)


in_use = {}


def run_of_the_driver(comm, values):
    return in_use["by the driver"].run(sums, values)


def sums(comm, values):
    return allreduce(comm, values).result()


def wait_for_word(comm, values):
    in_use["begun"].set()
    in_use["word"].wait(20)
    return sums(comm, values)


def test_ranks_run_one_text_at_a_time(monkeypatch):
    """Of two, each rank could begin another one, and wait for the others for ever."""
    with threads.ThreadsCommunicator(3) as comm, ThreadPoolExecutor(1) as other:
        monkeypatch.setitem(in_use, "by the driver", comm)
        for event in ("begun", "word"):
            monkeypatch.setitem(in_use, event, threading.Event())
        values = comm.values([1, 2, 3])
        with pytest.raises(InputError, match="one text at a time"):
            comm.run(run_of_the_driver, values)
        first = other.submit(comm.run, wait_for_word, values)
        assert in_use["begun"].wait(20)
        for run in (lambda: comm.run(sums, values), lambda: comm.gather(values)):
            with pytest.raises(InputError, match="one text at a time"):
                run()
        in_use["word"].set()
        assert first.result(20) == comm.run(sums, values) == 6


def test_after_an_interrupt_ranks_begin_afresh(monkeypatch):
    """Some of them may have cached what others have not."""
    with threads.ThreadsCommunicator(3) as comm:
        afresh, execute = [], comm._execute

        def interrupted_once(request, own):
            afresh.append(request.afresh)
            answers = execute(request, own)
            if len(afresh) == 2:
                raise KeyboardInterrupt
            return answers

        monkeypatch.setattr(comm, "_execute", interrupted_once)
        values = comm.values([1, 2, 3])
        assert comm.run(sums, values) == 6
        with pytest.raises(KeyboardInterrupt):
            comm.run(sums, values)
        assert comm.run(sums, values) == comm.run(sums, values) == 6
        assert afresh == [False, False, True, False]


def spend_on_one(comm, values, *, spender):
    if comm.rank == spender:
        comm.update(increment, values)


@pytest.mark.parametrize("spender", range(3))
def test_what_one_rank_has_spent_is_spent(spender):
    """As where others failed before: what is left of it is of two kinds."""
    with threads.ThreadsCommunicator(3) as comm:
        values = comm.values([1, 2, 3])
        comm.run(spend_on_one, values, spender=spender)
        assert repr(values) == "<PerRank of 3 ranks, spent>"
        with pytest.raises(InputError, match="overwritten"):
            comm.gather(values)


def fail_on_two(comm, values):
    in_use["all"].wait(20)
    if comm.rank:
        raise ArithmeticError(f"of rank {comm.rank}")


def test_who_failed_besides_is_told(monkeypatch):
    monkeypatch.setitem(in_use, "all", threading.Barrier(3))
    with threads.ThreadsCommunicator(3) as comm:
        with pytest.raises(ArithmeticError, match="of rank 1") as caught:
            comm.run(fail_on_two, comm.values([1, 2, 3]))
        assert "also failed: rank(s) 2" in caught.value.__notes__


def test_values_travel_once(monkeypatch):
    with threads.ThreadsCommunicator(3) as comm:
        travelled, execute = [], comm._execute
        monkeypatch.setattr(
            comm, "_execute", lambda request, own: (travelled.extend(own), execute(request, own))[1]
        )
        first, second = comm.values([1, 2, 3]), comm.values([4, 5, 6])
        assert [comm.run(sums, values) for values in (first, first, second, first)] == [6, 6, 15, 6]
        assert travelled == [first.content.number, second.content.number]


def exchange_of_all(comm, values):
    return comm.map(np.sum, allgather(comm, values))


def test_messages_that_take_longer_than_two_looks_are_waited_for(monkeypatch):
    """All ranks wait for each other then, and none has sent nothing."""
    hand_over = threads.MailboxEndpoint.send

    def slowly(endpoint, *message):
        threading.Timer(0.5, hand_over, (endpoint, *message)).start()

    monkeypatch.setattr(threads, "_LOOK_SECONDS", 0.02)
    monkeypatch.setattr(threads.MailboxEndpoint, "send", slowly)
    with threads.ThreadsCommunicator(3) as comm:
        values = comm.values([np.full((1, 2), rank) for rank in range(3)])
        assert comm.gather(comm.run(exchange_of_all, values)) == [6, 6, 6]


def overwrite_results(comm, values):
    """Change what results give, and the values that they came from; what every rank has then."""
    total = allreduce(comm, values).result()
    total -= 1
    every = comm.fold(values, list)
    values = comm.update(increment, values)
    barrier(comm)  # now all ranks have done so
    seen = [float(each.max()) for each in every.result()]
    return total.tolist(), seen, comm.map(add_arrays, values, every)


def add_arrays(own, every):
    return own + sum(every)


@pytest.mark.parametrize("length", [2, 20_000])  # the longer ones travel beside their header
def test_a_result_is_the_ranks_own(make_communicator, length):
    """A rank that overwrites it changes nothing on another one, nor the values it came from."""
    communicator = make_communicator(3)
    given = [np.ones(length) for _ in range(3)]
    total, seen, sums = communicator.run(overwrite_results, communicator.values(given))
    assert total == [2.0] * length
    assert seen == [1.0] * 3
    assert {each.tobytes() for each in communicator.gather(sums)} == {
        np.full(length, 5.0).tobytes()
    }
    mine = np.ones(2)
    theirs = communicator.replicated(mine).result()
    assert theirs is not mine


def column_by_column(rank):
    """Numbers of very unequal size, so that another order of adding gives other bits."""
    random = np.random.default_rng(rank)
    return np.asfortranarray(random.standard_normal((50, 40)) * 10.0 ** random.integers(-6, 7, 40))


def sums_as_they_lie(comm, ranks):
    """NumPy adds up an array in the order in which it lies in memory."""
    given = comm.map(column_by_column, ranks)
    first = comm.fold(given, each_sum).result()
    state = comm.update(increment, given)
    return first, comm.fold(state, each_sum).result(), comm.map(np.sum, state)


def each_sum(arrays):
    return [float(array.sum()) for array in arrays]


def test_arrays_lie_as_the_text_made_them(make_communicator):
    communicator = make_communicator(3)
    given = [column_by_column(rank) for rank in range(3)]
    changed = [increment(array.copy(order="K")) for array in given]
    first, second, third = communicator.run(sums_as_they_lie, communicator.values([0, 1, 2]))
    assert first == each_sum(given) != each_sum(map(np.ascontiguousarray, given))
    assert second == communicator.gather(third) == each_sum(changed)
    held = communicator.update(increment, communicator.values(given))
    assert communicator.gather(communicator.map(np.sum, held)) == each_sum(changed)
