"""One BLAS thread while anybody asks for it, and as many as before afterwards."""

from __future__ import annotations

import pickle
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from daskpart._floor.blas import one_blas_thread
from daskpart.collectives import LocalCommunicator, ParameterServer


def blas_threads(*_):
    """Threads of the BLAS with the most."""
    return max(each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas")


@pytest.fixture(autouse=True)
def _two_threads():
    limit = threadpool_limits(2, user_api="blas")
    assert blas_threads() == 2
    yield
    assert blas_threads() == 2
    limit.restore_original_limits()


def test_a_limit_of_the_user_is_put_back():
    with threadpool_limits(2, user_api="blas"):
        assert one_blas_thread(blas_threads)() == 1
        assert blas_threads() == 2


def test_nested_and_decorated():
    with one_blas_thread:
        assert one_blas_thread(blas_threads)() == 1
        assert blas_threads() == 1


def test_an_error_inside():
    with pytest.raises(ZeroDivisionError), one_blas_thread:
        raise ZeroDivisionError
    assert blas_threads() == 2


def test_the_last_thread_to_leave_puts_it_back():
    inside, leave = threading.Event(), threading.Event()

    def work():
        with one_blas_thread:
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait(10)
    with one_blas_thread:
        pass
    assert blas_threads() == 1
    leave.set()
    thread.join()


def test_the_first_thread_lives_on():
    """Newer versions of threadpoolctl let only the thread that set a limit lift it."""
    left, end = threading.Event(), threading.Event()

    def work():
        with one_blas_thread:
            inside.set()
            leave.wait(10)
        left.set()
        end.wait(10)

    inside, leave = threading.Event(), threading.Event()
    thread = threading.Thread(target=work)
    thread.start()
    inside.wait(10)
    with one_blas_thread:
        leave.set()
        left.wait(10)
        assert blas_threads() == 1
    assert blas_threads() == 2
    end.set()
    thread.join()


def test_every_process_has_its_own():
    assert pickle.loads(pickle.dumps(one_blas_thread)) is one_blas_thread


def look(comm, start):
    """What a text, and a step of it, find."""
    return blas_threads(), max(comm.gather(comm.map(blas_threads, start)) or [0])


def test_texts_and_steps_have_one():
    with LocalCommunicator(2) as comm:
        start = comm.values([0, 1])
        assert comm.run(look, start) == (1, 1)
        assert comm.gather(comm.map(blas_threads, start)) == [1, 1]  # outside of a run


def test_programs_of_a_server_have_one():
    with ParameterServer(4, n_ranks=2, transport="local") as server:
        assert server.run(blas_threads) == [1, 1]


def products(comm, vectors):
    """Of long vectors, which a BLAS shares out to its threads."""
    return comm.map(np.dot, vectors, vectors)


def test_a_product_has_the_bits_of_one_thread():
    vectors = np.random.default_rng(0).standard_normal((2, 100_001))
    with one_blas_thread:
        expected = [float(vector @ vector) for vector in vectors]
    with LocalCommunicator(2) as comm:
        found = comm.gather(comm.run(products, comm.values(list(vectors))))
    assert [float(each) for each in found] == expected
