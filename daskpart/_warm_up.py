"""Compile what most users need, once, for a container's image or before a job.

    partition, refine        a small fit of every model    slices of sparse arrays
    of 400 vertices, K = 4   with its defaults, here       (kernels of `sparse` itself)

Machine code goes to the cache on disk (see `_floor.kernels`), from which every later process loads.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
import scipy.sparse
import sparse

import daskpart

from ._floor.kernels import why_not_kept
from .collectives.stream import stream_of
from .errors import InputError
from .hypergraph import Hypergraph


def warm_up() -> float:
    """Compile the kernels of partitioning and of the models into the cache on disk.

    Returns
    -------
    float
        Seconds that it took; about one where the cache is warm already.

    Raises
    ------
    InputError
        Where nothing of it would be kept.
    """
    if reason := why_not_kept():
        raise InputError(f"kernels cannot be kept for later processes: {reason}")
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of balance, of convergence: nobody uses the results
        _cut()
        _train()
    return time.perf_counter() - started


def _cut() -> None:
    matrix = _matrix()
    for objective in ("connectivity", "power"):
        found = daskpart.partition(matrix, 4, objective)
        daskpart.refine(matrix, found, objective)
        daskpart.Connectivity.from_partition(Hypergraph.column_net(matrix), found).to_dict()
    daskpart.partition(matrix, 4, method="parsa")


def _train() -> None:
    matrix = _matrix()
    daskpart.MatrixFactorization(4).fit(matrix).score(matrix)
    daskpart.ImplicitFactorization(4, max_iter=2).fit(matrix).transform(matrix)  # new rows
    tensor = sparse.random((30, 20, 10), density=0.1, random_state=0)
    for partitioner in ("medium-grain", "hypercube"):
        daskpart.CPDecomposition(4, partitioner=partitioner).fit(tensor)
    for array in (sparse.COO.from_scipy_sparse(matrix), sparse.GCXS.from_scipy_sparse(matrix)):
        _ = array[1:3], array[1:3, 2:9]  # as the chunks of a Dask array are cut
    X, y = matrix.tocsr(), np.arange(matrix.shape[0]) % 2
    for n_ranks in (1, 3):  # one rank adds up nothing
        for solver in ("sgd", "lbfgs"):
            daskpart.LogisticRegression(solver=solver, n_ranks=n_ranks, max_iter=3).fit(X, y)
        daskpart.MLPClassifier((4,), n_ranks=n_ranks, max_iter=2).fit(X, y)
    _add_up()
    graph = scipy.sparse.csr_array(X[:, :100].T @ X[:, :100])
    daskpart.GCNClassifier(max_iter=2, partitioner="connectivity").fit(graph, y[:100])


def _add_up() -> None:
    """Sums of gradients of few entries and of many, narrow and wide."""
    rng, y = np.random.default_rng(0), np.arange(90) % 3
    for dtype in (np.float32, np.float64):
        for size, density in ((70_000, 0.001), (200, 0.02), (200, 0.3)):
            X = scipy.sparse.random_array((90, size), density=density, dtype=dtype, rng=rng)
            model = daskpart.LogisticRegression(solver="sgd", n_ranks=3, batch_size=8, max_iter=2)
            model.fit(X, y)
            stream_of(np.ones(3 * size, dtype))  # of ranges some come dense, others do not
        daskpart.LogisticRegression(n_ranks=3, max_iter=2).fit(X, y)


def _matrix() -> scipy.sparse.coo_array:
    """Ratings from 1 to 5 by 400 users of 300 items."""
    rng = np.random.default_rng(0)
    ratings = scipy.sparse.random_array((400, 300), density=0.05, format="coo", rng=rng)
    ratings.data = rng.integers(1, 6, ratings.nnz).astype(np.float64)
    return ratings
