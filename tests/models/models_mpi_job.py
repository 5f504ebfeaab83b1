"""Started under mpiexec by `test_under_mpiexec.py`: fits over MPI against those here.

MPI rank 0 is the scheduler, 1 this client, the others are workers of two threads. Of the cases that
are fitted on 3 and on 8 workers of a cluster, each is fitted on one of them here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import sparse
from distributed import Client
from fit_tools import assert_same, assert_same_states
from test_graph_convolution_transports import CASES, fitted
from test_linear_faults import FITS, make, write_examples
from test_mlp import classifier, samples

import daskpart
from daskpart.readers import survey

Fits = Iterator[tuple[Any, Any]]  # each local, and over MPI
TRANSPORTS = ("local", "auto")
METHODS = ("p2p", "emb-naive", "emb")


def in_turn(cases: Sequence[Any], n_ranks: int) -> Sequence[Any]:
    """Every second case for odd numbers of ranks, the others for even ones."""
    return cases[1 - n_ranks % 2 :: 2]


def decompositions(n_ranks: int) -> Fits:
    tensor = sparse.random((30, 20, 10), nnz=500, random_state=0)
    fixed = {"fixed_modes": {1: np.random.default_rng(0).random((20, 3))}}
    known = {"missing": "unknown", "validation_fraction": 0.2}
    cases: list[dict[str, Any]] = []
    if n_ranks in (3, 8):
        cases = [{"method": method, **more} for method in METHODS for more in ({}, fixed)]
        cases += [{"method": "p2p", **known, "loss": "poisson"}]
    for case in (*in_turn(cases, n_ranks), {"method": "emb", **known}):
        options = {"n_ranks": n_ranks, "max_iter": 2, "tol": 0, "partitioner": "random"} | case
        yield tuple(
            daskpart.CPDecomposition(3, transport=transport, **options).fit(tensor)
            for transport in TRANSPORTS
        )


def graphs(n_ranks: int) -> Fits:
    for options in in_turn(CASES, n_ranks) if n_ranks in (3, 8) else CASES[:1]:
        yield tuple(fitted(transport, n_ranks, **options) for transport in TRANSPORTS)


def implicit_factors(n_ranks: int) -> Fits:
    clicks = daskpart.datasets.power_law_ratings(80, 60, 900, random_state=0)
    for solver in ("cg", "cholesky"):
        options = {"n_ranks": n_ranks, "solver": solver, "max_iter": 2, "alpha": 3.0,
                   "partitioner": "block"}  # fmt: skip
        yield tuple(
            daskpart.ImplicitFactorization(5, transport=transport, **options).fit(clicks)
            for transport in TRANSPORTS
        )


def linear_models_of_a_file(n_ranks: int, path: Path) -> Fits:
    """Where all values of gradients are added up, of rows in memory; and by entries, of a disk."""
    for kind in FITS if n_ranks == 3 else in_turn(list(FITS), n_ranks):
        made = partial(make, kind, n_ranks=n_ranks, max_iter=3)
        yield (
            made(aggregation="dense").fit(survey(path, on_disk=False)),
            made(aggregation="auto", transport="auto").fit(survey(path, on_disk=True)),
        )


def perceptrons(n_ranks: int) -> Fits:
    """Where all values of gradients are added up; and by entries."""
    X, y = samples()
    for options in in_turn(
        ({}, {"top_k": 2, "top_k_bucket": 20}, {"aggregation": "dense"}), n_ranks
    ):
        made = partial(classifier, n_ranks=n_ranks)
        dense = made(**options | {"aggregation": "dense"}).fit(X, y)
        yield dense, made(**options, transport="auto").fit(X, y)


def main(path: Path) -> None:
    for name, fits, check, rank_counts in (
        ("cp", decompositions, assert_same, (1, 2, 3, 4, 8)),
        ("graph convolution", graphs, assert_same, (1, 2, 3, 4, 5, 8)),
        ("implicit", implicit_factors, assert_same, (1, 2, 3, 8)),
        ("linear", partial(linear_models_of_a_file, path=path), assert_same_states, (1, 3, 4)),
        ("perceptron", perceptrons, assert_same_states, (3, 8)),
    ):
        for n_ranks in rank_counts:
            for local, found in fits(n_ranks):
                report = found.comm_report_
                try:
                    assert report.transport == "mpi" and report.matches, report
                    check(local, found)
                except AssertionError as error:
                    error.add_note(f"{found} on {n_ranks} ranks")
                    raise
        print(f"{name}: same bits for", *rank_counts, "ranks over MPI", flush=True)


def torch_modules() -> None:
    """Against threads of one process."""
    from test_graph_torch import assert_as_on_threads

    for n_ranks in (3, 8):
        assert_as_on_threads("mpi", n_ranks)
    print("torch: same bits for 3 8 ranks over MPI", flush=True)


if __name__ == "__main__":
    with TemporaryDirectory() as folder, Client() as client:
        client.wait_for_workers(4, timeout=60)
        main(write_examples(Path(folder) / "x.libsvm"))
        if find_spec("torch"):
            torch_modules()
