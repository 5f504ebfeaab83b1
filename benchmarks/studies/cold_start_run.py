"""Fit or cut in this process, and print seconds and what compiled: a step of the cold start.

    python -m benchmarks.studies.cold_start_run cluster|cuts|search               ──▶ one line JSON

A process of its own: whether something compiles depends on what the process did before.
"""

from __future__ import annotations

import json
import sys
import warnings
from time import perf_counter
from typing import Any

import pandas as pd

import daskpart
from benchmarks.data import ratings
from daskpart._floor.kernels import compile_seconds

EPOCHS = 5
CUTS = (8, 64, 512)


def counts() -> Any:
    """Ratings of ml-100k; where there are none, the matrix that is built in."""
    try:
        from scipy.sparse import coo_array

        users, items, values = ratings("ml-100k")
        return coo_array((values, (users, items)))
    except NotImplementedError:
        return daskpart.datasets.load_python_source()["counts"].data.to_scipy_sparse()


def cluster(matrix: Any) -> list[list[Any]]:
    """A fit here, then one on a cluster of fresh worker processes."""
    from distributed import Client, LocalCluster

    lines = []
    model = daskpart.MatrixFactorization(16, max_iter=EPOCHS, n_ranks=2)
    started = perf_counter()
    model.fit(matrix)
    lines.append(["first fit of a process, nothing compiled yet", perf_counter() - started,
                  compile_seconds(), None])  # fmt: skip
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as workers,
        Client(workers) as client,
    ):
        for which, asked in (("first", 4), ("second", None)):
            before = sum(client.run(compile_seconds).values())
            started = perf_counter()
            model.fit(matrix, client=client)
            seconds = perf_counter() - started
            compiled = sum(client.run(compile_seconds).values()) - before
            lines.append([f"{which} fit on a fresh LocalCluster(n_workers=2)", seconds, compiled,
                          asked])  # fmt: skip
    return lines


def cuts(matrix: Any) -> list[list[Any]]:
    """Partitions of growing numbers of parts."""
    lines = []
    for objective in ("connectivity", "power"):
        for n_parts in CUTS:
            before, started = compile_seconds(), perf_counter()
            daskpart.partition(matrix, n_parts, objective, random_state=0)
            seconds, compiled = perf_counter() - started, compile_seconds() - before
            lines.append([f"partition, {objective}, K = {n_parts}", seconds, compiled, None])
    return lines


def search(matrix: Any) -> list[list[Any]]:
    """A search by two processes over two values, three folds each."""
    from sklearn.model_selection import GridSearchCV, KFold

    model = daskpart.MatrixFactorization(16, max_iter=EPOCHS, n_ranks=2)
    folds = KFold(3, shuffle=True, random_state=0)
    started = perf_counter()
    GridSearchCV(model, {"regularization": [0.01, 0.1]}, cv=folds, n_jobs=2).fit(table(matrix))
    return [["GridSearchCV(n_jobs=2) of 6 fits", perf_counter() - started, None, None]]


def table(matrix: Any) -> pd.DataFrame:
    """User, item, rating, without those so rare that a fold may hold all they have."""
    found = matrix.tocoo()
    rows = pd.DataFrame({"user": found.row, "item": found.col, "rating": found.data})
    for each in ("user", "item", "user", "item"):
        rows = rows[rows.groupby(each)["rating"].transform("size") >= 20]
    return rows


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of balance, of convergence: nobody uses the results
    print(json.dumps({"cluster": cluster, "cuts": cuts, "search": search}[sys.argv[1]](counts())))
