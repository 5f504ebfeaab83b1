"""Fit dask-ml's logistic regression, and print seconds and weights: a step of the linear models.

    PYTHON dask_ml_run.py SAMPLES.npz SOLVER      ──▶ one line JSON

A script for another environment, which has dask-ml and nothing of ours: dask-ml may hold back
versions that we need.
"""

from __future__ import annotations

import json
import sys
from time import perf_counter

import numpy as np

CHUNKS = 2  # one for each core


def main(path: str, solver: str) -> None:
    """Fit dense rows in chunks, timed, after others that warm it up."""
    import dask.array as da
    import dask_ml
    from dask_ml.linear_model import LogisticRegression

    with np.load(path) as held:
        X, y = held["X"], held["y"]

    def fitted(X: np.ndarray, y: np.ndarray) -> tuple[float, LogisticRegression]:
        size = -(-len(y) // CHUNKS)
        rows, target = da.from_array(X, (size, -1)), da.from_array(y, size)
        begin = perf_counter()
        model = LogisticRegression(solver=solver, C=1.0).fit(rows, target)
        return perf_counter() - begin, model

    few = np.random.default_rng(0).normal(size=(200, 5))  # of X they have constant columns
    fitted(few, (few[:, 0] + few[:, 1] > few[:, 2]).astype(int))
    seconds, model = fitted(X, y)
    flat = [*np.ravel(model.coef_).tolist(), *np.ravel(model.intercept_).tolist()]
    print(json.dumps({"version": dask_ml.__version__, "seconds": seconds, "weights": flat}))


if __name__ == "__main__":
    main(*sys.argv[1:])
