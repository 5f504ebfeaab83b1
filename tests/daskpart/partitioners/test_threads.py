"""Two threads that partition at once: the bits of one alone, and warnings stay as they were."""

from __future__ import annotations

import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse

from daskpart.errors import BalanceWarning
from daskpart.partitioners import METHODS, partition, refine
from daskpart.partitioners.engine import warn_if_unbalanced
from daskpart.partitioners.refinement import METRICS


@pytest.fixture(scope="module")
def matrix() -> scipy.sparse.csr_array:
    return scipy.sparse.random_array((120, 90), density=0.08, rng=0, format="csr")


def alone_and_together(work):
    """What one thread finds, then two at once."""
    start = threading.Barrier(2)

    def at_once():
        start.wait()
        return work()

    alone = work()
    with ThreadPoolExecutor(2) as pool:
        return [alone, *(task.result() for task in [pool.submit(at_once) for _ in range(2)])]


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method(matrix, method):
    def work():
        objective = "cut-net" if method == "metis" else "power"
        return partition(matrix, 5, objective, method=method, epsilon=0.2, random_state=3)

    alone, *together = alone_and_together(work)
    assert all(found == alone for found in together)


@pytest.mark.parametrize("metric", METRICS)
def test_refinement_of_every_metric(matrix, metric):
    begin = partition(matrix, 5, method="random", epsilon=0.2)

    def work():
        return refine(matrix, begin, metric, epsilon=0.2, random_state=3)

    alone, *together = alone_and_together(work)
    assert all(found == alone for found in together)


def test_warnings_are_silenced_for_one_thread_alone(matrix):
    """The first to begin ends first, which `warnings.catch_warnings` would not survive."""
    inside, ended = threading.Event(), threading.Event()

    class Waiting:
        name = "waiting"

        def __init__(self, begun, until):
            self.begun, self.until = begun, until

        def bipartition(self, *_):
            raise AssertionError("K parts at once are asked")

        def partition(self, hypergraph, n_parts, epsilon, random_state):
            self.begun.set()
            assert self.until.wait(20)
            warn_if_unbalanced(np.array([3.0, 1.0]), np.array([2.0, 2.0]), 0.1)
            return np.arange(hypergraph.n_vertices) % n_parts

    def cut(engine):
        partition(matrix, 2, method="direct", engine=engine, polish=False, epsilon=1.0)

    before = list(warnings.filters)
    second_inside = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(cut, Waiting(inside, second_inside))
        assert inside.wait(20) or first.result()
        second = pool.submit(cut, Waiting(second_inside, ended))
        first.result()
        ended.set()
        second.result()
    assert list(warnings.filters) == before
    with pytest.warns(BalanceWarning, match="part 0 weighs 3"):
        warn_if_unbalanced(np.array([3.0, 1.0]), np.array([2.0, 2.0]), 0.1)
